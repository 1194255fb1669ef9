//! Which nodes are given up because their drain takes too long.

use api::machineconfiguration::Target;
use jiff::Timestamp;

use super::{Assignment, RolloutDecision};
use crate::claim::ClaimState;
use crate::node::NodeView;
use crate::policy::RolloutPolicy;
use crate::view::PoolView;

/// A node that is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    pub node: String,
    /// Version of the object that was read.
    pub resource_version: String,
}

/// Gives up nodes whose drain for `target` takes too long, as many as the policy allows at once,
/// those that have taken longest first.
pub(super) fn give_up(
    decision: &mut RolloutDecision,
    pool: &PoolView,
    policy: &RolloutPolicy,
    members: &[&NodeView],
    target: &Target,
    now: Timestamp,
) {
    let Some(quarantine) = policy.quarantine() else {
        return;
    };
    // A claimed node may be given up at any moment, by any controller.
    let is_claimed = |node: &NodeView| pool.claim.state_of(node) != ClaimState::Settled;
    let taken = members
        .iter()
        .filter(|node| node.is_quarantined() || is_claimed(node));
    let mut left = quarantine.most(members.len()).saturating_sub(taken.count());
    let drains = members.iter().filter_map(|node| {
        let is_assigned = |assignment: &Assignment| assignment.node == node.name;
        let is_known = pool.claim.state_of(node) != ClaimState::Ahead;
        let is_left = !decision.assignments.iter().any(is_assigned);
        let overdue_at = quarantine.overdue_at(node, target, &pool.facts.drains)?;
        (is_known && is_left).then_some((overdue_at, *node))
    });
    let mut drains: Vec<(Timestamp, &NodeView)> = drains.collect();
    drains.sort_by(|(at, one), (other_at, other)| (at, &one.name).cmp(&(other_at, &other.name)));
    for (overdue_at, node) in drains {
        if overdue_at > now {
            decision.wakes = Some(decision.wakes.map_or(overdue_at, |at| at.min(overdue_at)));
            return;
        }
        if !is_claimed(node) {
            if left == 0 {
                continue;
            }
            left -= 1;
        }
        decision.quarantines.push(GivenUp {
            node: node.name.clone(),
            resource_version: node.resource_version.clone(),
        });
    }
}
