//! Nodes that cannot be drained within a limit: they stay cordoned, and the rollout passes them
//! over.

use std::collections::BTreeMap;

use api::machineconfiguration::Target;
use api::machineconfiguration::node_status::Reading;
use api::rollout::QuarantineSpec;
use jiff::{SignedDuration, Timestamp};

use super::field::duration;
use super::{Amount, InvalidPolicy, PolicyFault};
use crate::node::NodeView;

/// When drains were first seen, by the clock of the program that saw them. All of it can be lost:
/// the drains that are under way then restart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeenDrains(BTreeMap<String, SeenDrain>);

/// A drain of a node: for a target, and since when by the node's own word. A node that says
/// another time is drained again.
#[derive(Debug, Clone, PartialEq)]
struct SeenDrain {
    target: Target,
    says: Option<Reading<Timestamp>>,
    since: Timestamp,
}

impl SeenDrains {
    /// Remembers the drains of `members` for `target` that are under way, and forgets all others.
    pub fn note<'a>(
        &mut self,
        target: &Target,
        members: impl IntoIterator<Item = &'a NodeView>,
        now: Timestamp,
    ) {
        let mut before = std::mem::take(&mut self.0);
        for node in members {
            if !is_draining(node, target) {
                continue;
            }
            let says = node.status.drain_since.clone();
            let observed = before.remove(&node.name);
            // The clock may have been set back.
            let observed =
                observed.filter(|it| it.target == *target && it.says == says && it.since <= now);
            let drain = observed.unwrap_or_else(|| SeenDrain {
                target: target.clone(),
                says,
                since: now,
            });
            self.0.insert(node.name.clone(), drain);
        }
    }
}

/// Whether a node's drain for `target` is under way.
fn is_draining(node: &NodeView, target: &Target) -> bool {
    let status = &node.status;
    status.is_assigned_to(target)
        && status.has_pending_target()
        && status.current_config.is_some()
        && !status.is_past_drain()
        && status.is_draining_for(&target.config)
}

/// When a node is passed over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quarantine {
    limit: SignedDuration,
    max: Amount,
}

impl Quarantine {
    pub(super) fn parse(spec: &QuarantineSpec) -> Result<Self, InvalidPolicy> {
        let invalid = |field: &str, fault| InvalidPolicy {
            field: format!("spec.quarantine.{field}"),
            fault,
        };
        let limit = duration(&spec.drain_limit).map_err(|why| invalid("drainLimit", why))?;
        if limit.is_zero() {
            return Err(invalid("drainLimit", PolicyFault::NoDrainTime));
        }
        let max = spec.max_nodes.as_ref().map(Amount::parse).transpose();
        let max = max.map_err(|why| invalid("maxNodes", why))?;
        Ok(Self {
            limit,
            max: max.unwrap_or(Amount::Nodes(1)),
        })
    }

    /// Most nodes of `size` that are passed over at once.
    pub(crate) fn most(&self, size: usize) -> usize {
        self.max.of(size)
    }

    /// When the drain of a node for `target` is over the limit; none if it is not being drained, or
    /// was not seen yet.
    pub(crate) fn overdue_at(
        &self,
        node: &NodeView,
        target: &Target,
        seen: &SeenDrains,
    ) -> Option<Timestamp> {
        let seen = seen.0.get(&node.name).filter(|it| it.target == *target)?;
        let until = seen.since.checked_add(self.limit);
        is_draining(node, target).then(|| until.unwrap_or(Timestamp::MAX))
    }
}

#[cfg(test)]
mod tests;
