//! Which nodes are assigned the pool's configuration now, and why the others are not.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use crate::budget::{self, budget};
use crate::claim::RoundClaim;
use crate::list::list;
use crate::node::{NodeView, Unready};
use crate::view::PoolView;

/// The decision for one pool in one reconciliation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutDecision {
    /// Nodes that may be out of service at once, or why `spec.maxUnavailable` is invalid.
    pub budget: Result<usize, budget::InvalidBudget>,
    /// Nodes that are out of service, sorted: not ready, being updated, or claimed.
    pub out: Vec<String>,
    /// Nodes on which an update to the pool's configuration failed, sorted.
    pub failed: Vec<String>,
    /// Nodes to assign now, in this order.
    pub assignments: Vec<Assignment>,
    /// Why each other node is not assigned, by name.
    pub not_assigned: BTreeMap<String, NotAssigned>,
}

/// A node that gets the pool's configuration now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Name of the node.
    pub node: String,
    /// Version of the object that was read.
    pub resource_version: String,
    /// What it takes of the budget.
    pub impact: BudgetImpact,
}

/// What an assignment takes of the pool's budget.
///
/// Shape: assignments are made in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetImpact {
    /// Nothing: the node is out of service for an older target, or was claimed.
    None,
    /// The one that is reserved for the node: it failed on an older target and is in service, but
    /// its daemon may try that target again at any time.
    UsesReserved,
    /// One that is free: the node is in service and will go out of service.
    UsesFree,
}

/// Why a node gets no assignment now.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// The pool is paused.
    Paused,
    /// The pool has no budget.
    NoBudget,
    /// Its daemon has not reported a configuration yet.
    NotReported,
    /// It cannot take work, for these reasons.
    Unready(Vec<Unready>),
    /// As many nodes failed on the pool's configuration as may be out of service at once.
    Halted {
        /// The nodes that failed.
        failed: Vec<String>,
    },
    /// The budget is used up by nodes that are out of service, or failed and may try again.
    Budget {
        /// How many nodes may be out of service at once.
        limit: usize,
        /// Nodes that are out of service, or are assigned now.
        out: Vec<String>,
        /// Nodes that failed and are in service until they try again.
        failed: Vec<String>,
    },
    /// The API server rejected the assignment, with this message.
    WriteRejected(String),
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
            Self::NoBudget => f.write_str("spec.maxUnavailable of the pool is invalid"),
            Self::NotReported => {
                f.write_str("its daemon has not reported a configuration (no currentConfig)")
            }
            Self::Unready(reasons) => write!(f, "the node is {}", list(reasons, " and ")),
            Self::Halted { failed } => {
                write!(
                    f,
                    "the rollout is halted after failures on {}",
                    list(failed, ", ")
                )
            }
            Self::Budget { limit, out, failed } => {
                write!(f, "{limit} may be out at once")?;
                if !out.is_empty() {
                    write!(f, ", out: {}", list(out, ", "))?;
                }
                if !failed.is_empty() {
                    write!(f, ", failed: {}", list(failed, ", "))?;
                }
                Ok(())
            }
            Self::WriteRejected(why) => write!(f, "cannot be assigned: {why}"),
        }
    }
}

/// Decides which of a pool's nodes are assigned the pool's configuration now.
///
/// The law: a node in service is assigned only while fewer nodes are out of service than the
/// budget allows. Nodes out of service, claimed nodes and the assignments of this decision all
/// count. A paused pool assigns no node. Once as many nodes failed on the pool's configuration as
/// may be out of service at once, no further node is assigned; before that, each failed node uses
/// one of the budget.
///
/// Nodes that are out of service for an older target are assigned at once: this takes no node out
/// of service, and may return them to service. One of the budget stays reserved for a failed node,
/// because its daemon may try again by itself; when the target has changed, this node is assigned
/// first. The others follow zone by zone, oldest first; nodes without a zone are last.
///
/// Source: upstream's node controller. It reserves no budget for nodes that failed on an older
/// target, and does not assign nodes of an older target that are not ready.
pub fn decide(pool: &PoolView, members: &[&NodeView]) -> RolloutDecision {
    let budget = budget(&pool.name, pool.max_unavailable.as_ref(), members.len()).map(usize::from);
    let is_out_of_service =
        |node: &&&NodeView| node.is_out_of_service() || pool.claim.is_outstanding(node);
    let names = |nodes: &mut dyn Iterator<Item = &&NodeView>| {
        let mut names: Vec<String> = nodes.map(|node| node.name.clone()).collect();
        names.sort_unstable();
        names
    };
    let target = pool.target.as_deref();
    let has_failed = |node: &&&NodeView| {
        node.status.is_failing() && target.is_some_and(|target| node.status.is_assigned_to(target))
    };
    let mut decision = RolloutDecision {
        out: names(&mut members.iter().filter(is_out_of_service)),
        failed: names(&mut members.iter().filter(has_failed)),
        budget,
        assignments: Vec::new(),
        not_assigned: BTreeMap::new(),
    };
    let blanket = match (target, &decision.budget) {
        _ if pool.is_deleted => Err(NotAssigned::PoolDeleted),
        (None, _) => Err(NotAssigned::NoTarget),
        _ if pool.is_paused => Err(NotAssigned::Paused),
        (_, Err(_)) => Err(NotAssigned::NoBudget),
        (Some(_), Ok(limit)) => Ok(*limit),
    };
    let mut waiting = Vec::new();
    for node in members {
        let reason = match verdict(node, target, &pool.claim) {
            Verdict::NotAssigned(reason) => reason,
            Verdict::Assigned(impact) => match &blanket {
                Ok(_) => {
                    waiting.push((*node, impact));
                    continue;
                }
                Err(reason) => reason.clone(),
            },
        };
        decision.not_assigned.insert(node.name.clone(), reason);
    }
    if let Ok(limit) = blanket {
        assign(&mut decision, waiting, limit);
    }
    decision
}

enum Verdict {
    Assigned(BudgetImpact),
    NotAssigned(NotAssigned),
}

/// The verdict by the node's own state alone.
fn verdict(node: &NodeView, target: Option<&str>, round: &RoundClaim) -> Verdict {
    if let Some(target) = target
        && node.status.is_assigned_to(target)
    {
        return Verdict::NotAssigned(if node.status.is_done() {
            NotAssigned::Updated
        } else if node.status.is_failing() {
            NotAssigned::Failed
        } else {
            NotAssigned::Updating
        });
    }
    if node.status.current_config.is_none() {
        return Verdict::NotAssigned(NotAssigned::NotReported);
    }
    if round.is_outstanding(node) || (node.status.has_pending_target() && node.is_out_of_service())
    {
        return Verdict::Assigned(BudgetImpact::None);
    }
    if node.status.is_failing() {
        return Verdict::Assigned(BudgetImpact::UsesReserved);
    }
    if !node.is_ready() {
        return Verdict::NotAssigned(NotAssigned::Unready(node.unready.clone()));
    }
    Verdict::Assigned(if node.is_out_of_service() {
        BudgetImpact::None
    } else {
        BudgetImpact::UsesFree
    })
}

/// Assigns waiting nodes as far as the budget allows.
fn assign(
    decision: &mut RolloutDecision,
    mut waiting: Vec<(&NodeView, BudgetImpact)>,
    limit: usize,
) {
    if !decision.failed.is_empty() && decision.failed.len() >= limit {
        for (node, _) in waiting {
            let failed = decision.failed.clone();
            let halted = NotAssigned::Halted { failed };
            decision.not_assigned.insert(node.name.clone(), halted);
        }
        return;
    }
    waiting.sort_by(|(a, a_impact), (b, b_impact)| {
        (a_impact, update_order(a)).cmp(&(b_impact, update_order(b)))
    });
    let mut out = decision.out.clone();
    // A node that is out of service takes no more of the budget by another try.
    let is_in_service = |name: &&String| !decision.out.contains(name);
    let failed: Vec<String> = decision
        .failed
        .iter()
        .filter(is_in_service)
        .cloned()
        .collect();
    let mut reserved = failed.clone();
    reserved.extend(
        waiting
            .iter()
            .filter(|(_, impact)| *impact == BudgetImpact::UsesReserved)
            .map(|(node, _)| node.name.clone()),
    );
    let mut stay = Vec::new();
    for (node, impact) in waiting {
        let goes = match impact {
            BudgetImpact::None => true,
            BudgetImpact::UsesReserved => out.len() + failed.len() < limit,
            BudgetImpact::UsesFree => out.len() + reserved.len() < limit,
        };
        if !goes {
            stay.push(node.name.clone());
            continue;
        }
        if impact != BudgetImpact::None {
            reserved.retain(|name| *name != node.name);
            out.push(node.name.clone());
        }
        decision.assignments.push(Assignment {
            node: node.name.clone(),
            resource_version: node.resource_version.clone(),
            impact,
        });
    }
    out.sort_unstable();
    for node in stay {
        let out = out.clone();
        let failed = reserved
            .iter()
            .filter(|name| **name != node)
            .cloned()
            .collect();
        decision
            .not_assigned
            .insert(node, NotAssigned::Budget { limit, out, failed });
    }
}

/// Update order: zone, then age, then name, so that every controller computes the same order.
fn update_order(node: &NodeView) -> impl Ord {
    (
        Reverse(node.zone().is_some()),
        node.zone().map(ToOwned::to_owned),
        node.created,
        node.name.clone(),
    )
}

impl RolloutDecision {
    /// The claim to write before the assignments: these, and earlier claims that may still be
    /// written.
    pub fn claim(&self, pool: &PoolView, members: &[&NodeView]) -> RoundClaim {
        let outstanding = members
            .iter()
            .filter(|node| pool.claim.is_outstanding(node))
            .map(|node| (node.name.clone(), node.resource_version.clone()));
        let assigned = self
            .assignments
            .iter()
            .map(|assignment| (assignment.node.clone(), assignment.resource_version.clone()));
        RoundClaim {
            target: pool.target.clone().unwrap_or_default(),
            nodes: outstanding.chain(assigned).collect(),
        }
    }

    /// Records that an assignment was written: the node's update has begun.
    pub fn record_assigned(&mut self, node: &str) {
        self.not_assigned
            .insert(node.to_owned(), NotAssigned::Updating);
    }

    /// Records that a node was deleted after the decision.
    pub fn record_deleted(&mut self, node: &str) {
        self.assignments
            .retain(|assignment| assignment.node != node);
        self.not_assigned.remove(node);
    }

    /// Records that the pool was paused or deleted after the decision: assignments that were not
    /// written wait for the pool, and so do the nodes that waited for its budget.
    pub fn record_stopped(&mut self, pool: &PoolView) {
        let reason = if pool.is_deleted {
            NotAssigned::PoolDeleted
        } else {
            NotAssigned::Paused
        };
        for waiting in self.not_assigned.values_mut() {
            if matches!(
                waiting,
                NotAssigned::Budget { .. } | NotAssigned::Halted { .. }
            ) {
                waiting.clone_from(&reason);
            }
        }
        for assignment in &self.assignments {
            let reason = reason.clone();
            self.not_assigned
                .entry(assignment.node.clone())
                .or_insert(reason);
        }
    }

    /// Records assignments that the API server rejected, each with its message.
    pub fn record_rejected(&mut self, rejected: impl IntoIterator<Item = (String, String)>) {
        let not_assigned = |(node, why)| (node, NotAssigned::WriteRejected(why));
        self.not_assigned
            .extend(rejected.into_iter().map(not_assigned));
    }

    /// Nodes that still need an assignment, each with why it gets none now.
    pub fn waiting(&self) -> impl Iterator<Item = (&str, &NotAssigned)> {
        self.not_assigned
            .iter()
            .filter(|(_, reason)| reason.is_waiting())
            .map(|(node, reason)| (node.as_str(), reason))
    }

    /// Whether failures stopped the rollout.
    pub fn is_halted(&self) -> bool {
        self.not_assigned
            .values()
            .any(|reason| matches!(reason, NotAssigned::Halted { .. }))
    }
}

#[cfg(test)]
mod tests;
