//! Which nodes are assigned the pool's configuration now, and why the others are not.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::budget::{self, budget};
use crate::claim::{ClaimState, RoundClaim};
use crate::list::{NameList, list};
use crate::node::{NodeView, Unready};
use crate::unhandled::Hold;
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
    /// The pool is paused.
    Paused,
    /// The pool is held.
    Held(Hold),
    /// The pool has no budget.
    NoBudget,
    /// Its daemon has not reported a configuration yet.
    NotReported,
    /// It cannot take work, for these reasons.
    Unready(Vec<Unready>),
    /// As many nodes failed on the pool's configuration as may be out of service at once.
    Halted {
        /// The nodes that failed.
        failed: Arc<NameList>,
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
            Self::Held(hold) => hold.fmt(f),
            Self::NoBudget => f.write_str("spec.maxUnavailable of the pool is invalid"),
            Self::NotReported => {
                f.write_str("its daemon has not reported a configuration (no currentConfig)")
            }
            Self::Unready(reasons) => write!(f, "the node is {}", list(reasons, " and ")),
            Self::Halted { failed } => {
                write!(f, "the rollout is halted after failures on {failed}")
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
            Self::WriteRejected(why) => write!(f, "cannot be assigned: {why}"),
        }
    }
}

/// Decides which of a pool's nodes are assigned the pool's configuration now.
///
/// The law: a node in service is assigned only while fewer nodes are out of service than the
/// budget allows. Nodes out of service, claimed nodes and the assignments of this decision all
/// count. A pool that is paused or held assigns no node. Once as many nodes failed on the pool's
/// configuration as may be out of service at once, no further node is assigned; before that, each
/// failed node uses one of the budget.
///
/// Nodes that are out of service for an older target are assigned at once: this takes no node out
/// of service, and may return them to service. One of the budget stays reserved for a failed node,
/// because its daemon may try again by itself; when the target has changed, this node is assigned
/// first. The others follow zone by zone, oldest first; nodes without a zone are last.
///
/// Cost: time and memory grow with the number of nodes.
///
/// Source: upstream's node controller. It reserves no budget for nodes that failed on an older
/// target, and does not assign nodes of an older target that are not ready.
pub fn decide(pool: &PoolView, members: &[&NodeView]) -> RolloutDecision {
    decide_beside(pool, members, &[])
}

/// The same for a pool that shares its budget with the nodes of another one: `peers` count as its
/// own do, and get no assignment.
///
/// Masters and arbiters vote in one etcd. The claims of both lie on one pool, so that no two
/// decisions are made at once: `pool.claim` is that one.
pub fn decide_beside(
    pool: &PoolView,
    members: &[&NodeView],
    peers: &[&NodeView],
) -> RolloutDecision {
    let size = members.len() + peers.len();
    let budget = budget(&pool.name, pool.max_unavailable.as_ref(), size).map(usize::from);
    let is_out = |node: &NodeView| {
        node.is_out_of_service() || pool.claim.state_of(node) != ClaimState::Settled
    };
    let names = |is_listed: &dyn Fn(&NodeView) -> bool| {
        let all = members.iter().chain(peers);
        let listed = all.filter(|node| is_listed(node));
        let mut names: Vec<String> = listed.map(|node| node.name.clone()).collect();
        names.sort_unstable();
        names
    };
    let target = pool.target.as_deref();
    let has_failed = |node: &NodeView| {
        node.status.is_failing() && target.is_some_and(|target| node.status.is_assigned_to(target))
    };
    let peer_names: BTreeSet<&str> = peers.iter().map(|node| node.name.as_str()).collect();
    // A peer has another target, and may try it again as well.
    let may_retry = |node: &NodeView| {
        has_failed(node) || (node.status.is_failing() && peer_names.contains(node.name.as_str()))
    };
    let mut decision = RolloutDecision {
        out: names(&is_out),
        failed: names(&has_failed),
        budget,
        assignments: Vec::new(),
        not_assigned: BTreeMap::new(),
    };
    let blanket = match (target, &decision.budget) {
        _ if pool.is_deleted => Err(NotAssigned::PoolDeleted),
        (None, _) => Err(NotAssigned::NoTarget),
        _ if let Some(hold) = &pool.hold => Err(NotAssigned::Held(hold.clone())),
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
        // A node that is out of service takes no more of the budget by another try.
        let retrying = names(&|node| may_retry(node) && !is_out(node));
        assign(&mut decision, waiting, &retrying, limit);
    }
    decision
}

enum Verdict {
    Assigned(BudgetImpact),
    NotAssigned(NotAssigned),
}

/// The verdict by the node's own state alone.
fn verdict(node: &NodeView, target: Option<&str>, round: &RoundClaim) -> Verdict {
    let claim = round.state_of(node);
    if claim == ClaimState::Ahead {
        return Verdict::NotAssigned(NotAssigned::Updating);
    }
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
    if claim == ClaimState::Outstanding
        || (node.status.has_pending_target() && node.is_out_of_service())
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

/// Assigns waiting nodes as far as the budget allows. The nodes of `retrying` failed on the pool's
/// configuration, are in service, and may try again by themselves.
fn assign(
    decision: &mut RolloutDecision,
    mut waiting: Vec<(&NodeView, BudgetImpact)>,
    retrying: &[String],
    limit: usize,
) {
    if !decision.failed.is_empty() && decision.failed.len() >= limit {
        let failed = names(&decision.failed);
        for (node, _) in waiting {
            let failed = Arc::clone(&failed);
            let halted = NotAssigned::Halted { failed };
            decision.not_assigned.insert(node.name.clone(), halted);
        }
        return;
    }
    waiting.sort_unstable_by(|(a, a_impact), (b, b_impact)| {
        (a_impact, update_order(a)).cmp(&(b_impact, update_order(b)))
    });
    let is_reserved = |impact: BudgetImpact| impact == BudgetImpact::UsesReserved;
    let reserved_for = |waiting: &[(&NodeView, BudgetImpact)]| {
        waiting
            .iter()
            .filter(|(_, impact)| is_reserved(*impact))
            .count()
    };
    let mut out = decision.out.clone();
    let mut reserved = retrying.len() + reserved_for(&waiting);
    let mut stay = Vec::new();
    for (node, impact) in waiting {
        let goes = match impact {
            BudgetImpact::None => true,
            BudgetImpact::UsesReserved => out.len() + retrying.len() < limit,
            BudgetImpact::UsesFree => out.len() + reserved < limit,
        };
        if !goes {
            stay.push((node, impact));
            continue;
        }
        if impact != BudgetImpact::None {
            out.push(node.name.clone());
        }
        if is_reserved(impact) {
            reserved -= 1;
        }
        decision.assignments.push(Assignment {
            node: node.name.clone(),
            resource_version: node.resource_version.clone(),
            impact,
        });
    }
    out.sort_unstable();
    let out = names(&out);
    let failed = Reserved::new(retrying, &stay);
    for (node, impact) in stay {
        let reason = NotAssigned::Budget {
            limit,
            out: Arc::clone(&out),
            failed: failed.without(node, is_reserved(impact)),
        };
        decision.not_assigned.insert(node.name.clone(), reason);
    }
}

/// A list of these names that many reasons share.
fn names(names: &[String]) -> Arc<NameList> {
    Arc::new(NameList::new(names.iter().map(String::as_str)))
}

/// The nodes that a part of the budget is reserved for.
struct Reserved<'a> {
    names: Vec<&'a str>,
    all: Arc<NameList>,
    /// One name less, of those that a list does not name.
    without_one: Arc<NameList>,
}

impl<'a> Reserved<'a> {
    /// Those that may try again by themselves, and those that stay for now.
    fn new(retrying: &'a [String], stay: &[(&'a NodeView, BudgetImpact)]) -> Self {
        let stay = stay
            .iter()
            .filter(|(_, impact)| *impact == BudgetImpact::UsesReserved)
            .map(|(node, _)| node.name.as_str());
        let names: Vec<&str> = retrying.iter().map(String::as_str).chain(stay).collect();
        let list = |names: &[&str]| Arc::new(NameList::new(names.iter().copied()));
        Self {
            all: list(&names),
            without_one: list(
                names
                    .get(..names.len().saturating_sub(1))
                    .unwrap_or_default(),
            ),
            names,
        }
    }

    /// The list for a node that waits: all but itself.
    fn without(&self, node: &NodeView, is_reserved: bool) -> Arc<NameList> {
        if !is_reserved {
            Arc::clone(&self.all)
        } else if self.all.names(&node.name) {
            let names = self.names.iter().copied();
            Arc::new(NameList::new(names.filter(|name| *name != node.name)))
        } else {
            Arc::clone(&self.without_one)
        }
    }
}

/// Update order: zone, then age, then name, so that every controller computes the same order.
fn update_order(node: &NodeView) -> impl Ord + use<'_> {
    (
        Reverse(node.zone().is_some()),
        node.zone(),
        node.created,
        node.name.as_str(),
    )
}

impl RolloutDecision {
    /// The claim to write before the assignments: these, and earlier claims of nodes that have not
    /// come back to service. `nodes` are the members, and the peers of a shared budget.
    pub fn claim(&self, pool: &PoolView, nodes: &[&NodeView]) -> RoundClaim {
        let kept = nodes
            .iter()
            .filter(|node| pool.claim.must_keep(node))
            .filter_map(|node| pool.claim.nodes.get_key_value(&node.name))
            .map(|(node, version)| (node.clone(), version.clone()));
        let assigned = self
            .assignments
            .iter()
            .map(|assignment| (assignment.node.clone(), assignment.resource_version.clone()));
        RoundClaim {
            target: pool.target.clone().unwrap_or_default(),
            nodes: kept.chain(assigned).collect(),
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
