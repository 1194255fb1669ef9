//! Why a node gets no assignment now.

use std::fmt;
use std::sync::Arc;

use api::machineconfiguration::{NodeHold, Target};

use crate::hold::Hold;
use crate::list::{NameList, list};
use crate::node::{NodeView, Unready};
use crate::policy::PolicyWait;
use crate::stop::PoolStops;

/// Why a node gets no assignment now.
///
/// Nodes that wait for the same share one list of names, so that a decision grows with its nodes
/// and not with their square.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NotAssigned {
    /// It runs the pool's configuration.
    Updated,
    /// It was assigned the pool's configuration and is being updated.
    Updating,
    /// It was assigned the pool's configuration, and the update failed.
    Failed,
    /// The pool has no configuration yet.
    NoTarget,
    /// The pool is being deleted.
    PoolDeleted,
    Paused,
    /// A person stopped the pool or the cluster.
    Stopped(Arc<PoolStops>),
    Held(Hold),
    /// A person keeps it out of the rollout.
    OnHold(NodeHold),
    /// The controller runs on it, and other nodes wait for an assignment.
    RunsController,
    /// The pool has no budget.
    NoBudget,
    /// Its daemon has not reported a configuration yet.
    NotReported,
    /// It cannot take work, for these reasons.
    Unready(Vec<Unready>),
    /// As many nodes failed on the pool's configuration as may be out of service at once.
    Halted {
        failed: Arc<NameList>,
        /// How many failures it is reverted after, where the policy asks for that.
        to_return: Option<FailuresToReturn>,
    },
    /// The budget is used up by nodes that are out of service, or failed and may try again.
    Budget {
        /// How many nodes may be out of service at once.
        limit: usize,
        /// Nodes that are out of service, or are assigned now.
        out: Arc<NameList>,
        /// Other nodes that failed and are in service until they try again.
        failed: Arc<NameList>,
    },
    /// The rollout policy has it wait.
    Policy(PolicyWait),
    /// It could not be drained for this configuration within the limit of the rollout policy.
    Quarantined {
        config: String,
    },
    /// The rollout of the pool's configuration was halted, and is reverted.
    Reverted {
        /// The configuration that the pool's nodes have instead.
        config: String,
    },
    /// The API server rejected the assignment, with this message.
    WriteRejected(String),
}

/// After how many failures a halted rollout is reverted. Those of nodes that never had the
/// configuration do not count: it may be good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FailuresToReturn {
    /// Nodes on which the configuration has to fail after it was applied.
    pub needed: usize,
    /// Those on which it did.
    pub failed: usize,
}

impl FailuresToReturn {
    /// Of a rollout of `target` that is halted above so many failures. What one node reports is
    /// never enough where there are two others.
    pub(super) fn of(members: &[&NodeView], target: Option<&Target>, may_fail: usize) -> Self {
        let is_blamed = |node: &NodeView, target: &Target| {
            node.status.is_assigned_to(target) && node.status.has_failed_past_apply(target)
        };
        let mut failed = 0;
        if let Some(target) = target {
            failed = members
                .iter()
                .filter(|node| is_blamed(node, target))
                .count();
        }
        let quorum = if members.len() < 3 { 1 } else { 2 };
        Self {
            needed: may_fail.saturating_add(1).max(quorum),
            failed,
        }
    }

    pub(super) const fn are_enough(self) -> bool {
        self.failed >= self.needed
    }
}

impl fmt::Display for FailuresToReturn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { needed, failed } = self;
        write!(
            f,
            "nodes return once {needed} failed after it was applied, and {failed} did"
        )
    }
}

impl NotAssigned {
    /// Whether the node still needs an assignment.
    pub const fn is_waiting(&self) -> bool {
        !matches!(
            self,
            Self::Updated | Self::Updating | Self::Failed | Self::NoTarget
        )
    }
}

impl fmt::Display for NotAssigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Updated => f.write_str("is updated"),
            Self::Updating => f.write_str("is being updated"),
            Self::Failed => f.write_str("failed to update"),
            Self::NoTarget => f.write_str("the pool has no configuration yet"),
            Self::PoolDeleted => f.write_str("the pool is being deleted"),
            Self::Paused => f.write_str("the pool is paused"),
            Self::Stopped(stops) => stops.fmt(f),
            Self::Held(hold) => hold.fmt(f),
            Self::OnHold(hold) => hold.fmt(f),
            Self::RunsController => {
                f.write_str("the controller runs on it, and other nodes of the pool wait")
            }
            Self::NoBudget => f.write_str("spec.maxUnavailable of the pool is invalid"),
            Self::NotReported => {
                f.write_str("its daemon has not reported a configuration (no currentConfig)")
            }
            Self::Unready(reasons) => write!(f, "the node is {}", list(reasons, " and ")),
            Self::Halted { failed, to_return } => {
                write!(f, "the rollout is halted after failures on {failed}")?;
                to_return.map_or(Ok(()), |it| write!(f, "; {it}"))
            }
            Self::Budget { limit, out, failed } => {
                write!(f, "{limit} may be out at once")?;
                if !out.is_empty() {
                    write!(f, ", out: {out}")?;
                }
                if !failed.is_empty() {
                    write!(f, ", failed: {failed}")?;
                }
                Ok(())
            }
            Self::Policy(wait) => wait.fmt(f),
            Self::Quarantined { config } => write!(
                f,
                "could not be drained for MachineConfig {config} in time; it stays cordoned and is \
                 passed over until it is uncordoned"
            ),
            Self::Reverted { config } => write!(
                f,
                "the rollout was halted after failures, and nodes return to MachineConfig {config}"
            ),
            Self::WriteRejected(why) => write!(f, "cannot be assigned: {why}"),
        }
    }
}
