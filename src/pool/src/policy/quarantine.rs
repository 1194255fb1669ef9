//! Nodes that cannot be drained within a limit: they stay cordoned, and the rollout passes them
//! over.

use api::machineconfiguration::node_status::Reading;
use api::rollout::QuarantineSpec;
use jiff::{SignedDuration, Timestamp};

use super::{Amount, InvalidPolicy, duration};
use crate::node::NodeView;

/// When a node is passed over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quarantine {
    limit: SignedDuration,
    max: Amount,
}

impl Quarantine {
    pub(super) fn parse(spec: &QuarantineSpec) -> Result<Self, InvalidPolicy> {
        let invalid = |field: &str, why: String| InvalidPolicy {
            field: format!("spec.quarantine.{field}"),
            why,
        };
        let limit = duration(&spec.drain_limit).map_err(|why| invalid("drainLimit", why))?;
        if limit.is_zero() {
            let why = "a drain takes some time; it must be more than 0".to_owned();
            return Err(invalid("drainLimit", why));
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

    /// When the drain of a node for `target` is over the limit; none if it is not being drained.
    pub(crate) fn overdue_at(&self, node: &NodeView, target: &str) -> Option<Timestamp> {
        let status = &node.status;
        if !status.is_assigned_to(target)
            || !status.has_pending_target()
            || status.current_config.is_none()
            || status.is_past_drain()
            || !status.is_draining_for(target)
        {
            return None;
        }
        let since = status.drain_since.as_ref().and_then(Reading::known)?;
        Some(since.checked_add(self.limit).unwrap_or(Timestamp::MAX))
    }
}
