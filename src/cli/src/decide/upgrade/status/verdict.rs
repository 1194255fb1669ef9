//! The line above all tables: how the update is, who holds it up, and since when.

use super::control_plane::ControlPlaneView;
use super::health::{HealthInsight, InsightLevel, UPDATE_STALLED};
use super::nodes::PoolUpgradeView;

/// Pools that the line names; the table has the rest.
const NAMED: usize = 3;

/// The verdict on an update that is under way.
///
/// What stalls the update comes first, then what else needs a person. Else it is where the update
/// is: in the operators, or in pools whose nodes are old although the operators are done.
pub(crate) fn verdict(
    control_plane: &ControlPlaneView,
    pools: &[PoolUpgradeView],
    health: &[HealthInsight],
    unread: &[String],
) -> String {
    if !unread.is_empty() {
        return format!("Not known: {}", unread.join("; "));
    }
    let bad = || {
        let insights = health.iter();
        insights.filter(|insight| insight.level >= InsightLevel::Warning)
    };
    let stalled = bad().find(|insight| insight.impact == UPDATE_STALLED);
    let overdue = control_plane.overdue();
    let (word, what) = if let Some(insight) = stalled {
        ("Stalled", insight.sentence())
    } else if let Some(overdue) = overdue {
        ("Stalled", overdue.to_owned())
    } else if let Some(insight) = bad().next() {
        ("Needs attention", insight.sentence())
    } else {
        return format!("Progressing: {}", progress(control_plane, pools));
    };
    let named = usize::from(stalled.is_some() || overdue.is_none());
    match bad().count().saturating_sub(named) {
        0 => format!("{word}: {what}"),
        1 => format!("{word}: {what}; 1 more finding below"),
        more => format!("{word}: {what}; {more} more findings below"),
    }
}

/// Where an update is that nothing holds up.
fn progress(control_plane: &ControlPlaneView, pools: &[PoolUpgradeView]) -> String {
    if let Some(operators) = control_plane.left() {
        return operators;
    }
    let behind: Vec<&PoolUpgradeView> = pools
        .iter()
        .filter(|pool| pool.updated < pool.total)
        .collect();
    let mut parts: Vec<String> = behind
        .iter()
        .take(NAMED)
        .map(|pool| format!("{} of {} in pool {}", pool.updated, pool.total, pool.name))
        .collect();
    if let Some(more) = behind.len().checked_sub(NAMED).filter(|more| *more > 0) {
        parts.push(format!("{more} more pools"));
    }
    format!(
        "operators are done, nodes are not: {} updated",
        parts.join(", ")
    )
}
