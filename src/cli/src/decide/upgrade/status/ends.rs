//! When the whole update is done: operators first, then the nodes of each pool.
//!
//! Upstream's estimate is of the operators alone, whatever the number of nodes. Here each pool's
//! nodes are played through its budget, with the times that nodes of this cluster took.

use serde::Serialize;

use super::control_plane::ControlPlaneView;
use super::nodes::{NodePhase, PoolUpgradeView};
use crate::decide::blocks::{duration, rounded};

/// When all of an update is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpdateEnds {
    /// Seconds that it takes at most in half of all cases, and in nine of ten.
    p50_seconds: i64,
    p90_seconds: i64,
    /// What these consist of, and how sure that is.
    parts: Vec<String>,
}

impl UpdateEnds {
    /// None if no node has to be updated, or nothing says how long the nodes of a pool take.
    pub(crate) fn of(control_plane: &ControlPlaneView, pools: &[PoolUpgradeView]) -> Option<Self> {
        let waits = |pool: &&PoolUpgradeView| {
            let mut nodes = pool.nodes.iter();
            !pool.is_control_plane
                && !pool.is_paused
                && nodes.any(|node| node.phase != NodePhase::Updated)
        };
        let rolls: Vec<&PoolUpgradeView> = pools.iter().filter(waits).collect();
        if rolls.is_empty() {
            return None;
        }
        let mut ends = Self {
            p50_seconds: 0,
            p90_seconds: 0,
            parts: Vec::new(),
        };
        if !control_plane.is_done() {
            let (left, most, certainty) = control_plane.time_left()?;
            ends.p50_seconds = left;
            ends.p90_seconds = most;
            let left = in_words(left);
            ends.parts
                .push(format!("control plane {left} ({certainty})"));
        }
        let then = if ends.parts.is_empty() { "" } else { "then " };
        let (mut half, mut most) = (0, 0);
        for pool in rolls {
            let forecast = pool.forecast?;
            half = half.max(forecast.p50_seconds);
            most = most.max(forecast.p90_seconds);
            let left = pool.total - pool.updated;
            let nodes = if left == 1 { "node" } else { "nodes" };
            ends.parts.push(format!(
                "{then}pool {} {} to {} ({left} {nodes}, {} at once, {})",
                pool.name,
                in_words(forecast.p50_seconds),
                in_words(forecast.p90_seconds),
                pool.at_once.unwrap_or(1),
                forecast.certainty()
            ));
        }
        ends.p50_seconds = ends.p50_seconds.saturating_add(half);
        ends.p90_seconds = ends.p90_seconds.saturating_add(most);
        Some(ends)
    }

    /// Seconds that it takes at most in half of all cases, and in nine of ten.
    pub(crate) const fn seconds(&self) -> (i64, i64) {
        (self.p50_seconds, self.p90_seconds)
    }

    pub(crate) fn text(&self) -> String {
        format!(
            "All done in {} (p50) to {} (p90): {}",
            in_words(self.p50_seconds),
            in_words(self.p90_seconds),
            self.parts.join(", ")
        )
    }
}

fn in_words(seconds: i64) -> String {
    #[expect(
        clippy::cast_precision_loss,
        reason = "an update takes less than years"
    )]
    match rounded(seconds as f64) {
        0 => "0s".to_owned(),
        seconds => duration(seconds),
    }
}
