//! Which nodes are assigned the pool's configuration now, and why the others are not.

mod assigning;
mod course;
mod quarantine;
mod reason;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::machineconfiguration::Target;
use jiff::Timestamp;

use self::assigning::{AssignmentRules, assign};
use self::course::Course;
pub use self::quarantine::GivenUp;
use self::quarantine::give_up;
pub use self::reason::{FailuresToReturn, NotAssigned};
use crate::budget::{self, budget};
use crate::claim::{ClaimState, RoundClaim};
use crate::node::NodeView;
use crate::policy::{PolicyGate, StepSeen};
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
    /// Nodes that are given up now, because their drain takes too long: they get back what they
    /// run, and stay cordoned.
    pub quarantines: Vec<GivenUp>,
    /// What assignments are of: the pool's target, or the one before where that is reverted.
    pub goal: Option<Target>,
    /// Why each other node is not assigned, by name.
    pub not_assigned: BTreeMap<String, NotAssigned>,
    /// When the decision may change by time alone.
    pub wakes: Option<Timestamp>,
    /// The step of the policy that was seen to work last, to be kept in the claim.
    pub seen: Option<StepSeen>,
    /// Whether it was seen just now, so that it has to be written.
    pub is_seen_anew: bool,
}

/// A node that gets the pool's configuration now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
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

/// Decides which of a pool's nodes are assigned the pool's configuration now.
///
/// The law: a node in service is assigned only while fewer nodes are out of service than the budget
/// allows. Nodes out of service, claimed nodes and the assignments of this decision all count. A
/// pool that is stopped, paused or held assigns no node, and a node on hold is assigned nothing,
/// whatever it has: it takes one of the budget while it is out of service, and, where its daemon
/// may try again what failed, as other failed nodes do. Once as many nodes failed on the pool's
/// configuration as may be out of service at once, no further node is assigned; before that, each
/// failed node uses one of the budget.
///
/// Nodes that are out of service for an older target are assigned at once: this takes no node out
/// of service, and may return them to service. One of the budget stays reserved for a failed node,
/// because its daemon may try again by itself; when the target has changed, this node is assigned
/// first. The others follow zone by zone, oldest first; nodes without a zone are last.
///
/// A rollout policy holds back nodes that would be taken out of service: before its start, and
/// those of later steps. It may name another order, and how many failures halt the rollout. If it
/// asks for that, a halted rollout is reverted once as many nodes failed after the target was
/// applied, and more than one where the pool has three or more: a registry that is away, or one
/// node, undoes nothing. Nodes that were assigned the target are then assigned the configuration
/// that all had before, as if that were a new target, and no other node is assigned anything until
/// the target changes. Nodes whose drain takes too long are given up: they
/// return to what they run and stay cordoned, and no longer count as out of service.
///
/// Cost: time and memory grow with the number of nodes.
///
/// Source: upstream's node controller. It reserves no budget for nodes that failed on an older
/// target, and does not assign nodes of an older target that are not ready.
pub fn decide(pool: &PoolView, members: &[&NodeView], now: Timestamp) -> RolloutDecision {
    decide_beside(pool, members, &[], now)
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
    now: Timestamp,
) -> RolloutDecision {
    let size = members.len() + peers.len();
    let budget = budget(&pool.name, pool.max_unavailable.as_ref(), size).map(usize::from);
    let is_out = |node: &NodeView| {
        (node.is_out_of_service() && !node.is_quarantined())
            || pool.claim.state_of(node) != ClaimState::Settled
    };
    let names = |is_listed: &dyn Fn(&NodeView) -> bool| {
        let all = members.iter().chain(peers);
        let listed = all.filter(|node| is_listed(node));
        let mut names: Vec<String> = listed.map(|node| node.name.clone()).collect();
        names.sort_unstable();
        names
    };
    let target = pool.target.as_ref();
    let has_failed_on = |node: &NodeView, target: Option<&Target>| {
        node.status.is_failing() && target.is_some_and(|target| node.status.is_assigned_to(target))
    };
    let peer_names: BTreeSet<&str> = peers.iter().map(|node| node.name.as_str()).collect();
    let mut decision = RolloutDecision {
        out: names(&is_out),
        failed: names(&|node| has_failed_on(node, target)),
        budget,
        assignments: Vec::new(),
        quarantines: Vec::new(),
        goal: pool.target.clone(),
        not_assigned: BTreeMap::new(),
        wakes: None,
        seen: pool.claim.seen.get(&pool.name).cloned(),
        is_seen_anew: false,
    };
    let blanket = limit(pool, &decision.budget);
    let policy = pool.policy.as_ref();
    let may_fail = |limit: usize| {
        let may_fail = policy.and_then(|policy| policy.may_fail(size));
        may_fail.unwrap_or_else(|| limit.saturating_sub(1))
    };
    let limit = blanket.as_ref().ok();
    let to_return = limit.map(|limit| FailuresToReturn::of(members, target, may_fail(*limit)));
    let course = Course::of(pool, to_return.is_some_and(FailuresToReturn::are_enough));
    let returns_to = course.returns_to();
    if let Some(returns_to) = returns_to {
        decision.failed =
            names(&|node| has_failed_on(node, target) || has_failed_on(node, Some(returns_to)));
        decision.goal = Some(returns_to.clone());
    }
    // A peer has another target, and may try it again as well; a node on hold keeps the one that it
    // has.
    let may_retry = |node: &NodeView| {
        let is_peer = peer_names.contains(node.name.as_str());
        let keeps_its_target = is_peer || node.hold.is_some();
        course.may_retry(node) || (keeps_its_target && node.status.is_failing())
    };
    let mut gate = PolicyGate::default();
    if let (Some(policy), Some(target), Ok(_), None) = (policy, target, &blanket, returns_to) {
        let observed = decision.seen.take();
        gate = policy.gate(target, members, &pool.facts, observed.as_ref(), now);
        decision.is_seen_anew = gate.seen.is_some() && gate.seen != observed;
        decision.seen = gate.seen.take();
    }
    let mut waiting = Vec::new();
    for node in members {
        let reason = match verdict(node, &course, &pool.claim) {
            Verdict::NotAssigned(reason) => reason,
            Verdict::Assigned(impact) => match &blanket {
                // What is out of service already goes on, whatever the policy says.
                Ok(_) => match gate.waits.remove(&node.name) {
                    Some(wait) if impact != BudgetImpact::None => {
                        decision.wakes = gate.wakes;
                        NotAssigned::Policy(wait)
                    }
                    _ => {
                        waiting.push((*node, impact));
                        continue;
                    }
                },
                Err(reason) => reason.clone(),
            },
        };
        decision.not_assigned.insert(node.name.clone(), reason);
    }
    if let Ok(limit) = blanket {
        defer_leader(pool, &mut decision, &mut waiting);
        // A node that is out of service takes no more of the budget by another try.
        let retrying = names(&|node| may_retry(node) && !is_out(node));
        let rules = AssignmentRules {
            limit,
            is_halted: returns_to.is_none() && decision.failed.len() > may_fail(limit),
            to_return: to_return.filter(|_| pool.returns_to().is_some()),
            policy,
            facts: &pool.facts,
            target: course.goal,
        };
        assign(&mut decision, waiting, &retrying, &rules);
        if let (Some(policy), Some(target)) = (policy, target) {
            give_up(&mut decision, pool, policy, members, target, now);
        }
    }
    decision
}

/// How many nodes may be out of service at once, or why no node of the pool is assigned anything.
fn limit(
    pool: &PoolView,
    budget: &Result<usize, budget::InvalidBudget>,
) -> Result<usize, NotAssigned> {
    match (&pool.target, budget) {
        _ if pool.is_deleted => Err(NotAssigned::PoolDeleted),
        (None, _) => Err(NotAssigned::NoTarget),
        _ if pool.stops.are_set() => Err(NotAssigned::Stopped(Arc::new(pool.stops.clone()))),
        _ if let Some(hold) = &pool.hold => Err(NotAssigned::Held(hold.clone())),
        _ if pool.is_paused => Err(NotAssigned::Paused),
        (_, Err(_)) => Err(NotAssigned::NoBudget),
        (Some(_), Ok(limit)) => Ok(*limit),
    }
}

/// The node that the controller runs on waits until no other one does: its drain moves the
/// controller, and another program reads all again. One that is out already is assigned as others.
fn defer_leader(
    pool: &PoolView,
    decision: &mut RolloutDecision,
    waiting: &mut Vec<(&NodeView, BudgetImpact)>,
) {
    let is_deferred = |(node, impact): &(&NodeView, BudgetImpact)| {
        *impact == BudgetImpact::UsesFree && pool.leader.as_ref() == Some(&node.name)
    };
    if waiting.len() < 2 {
        return;
    }
    for (node, _) in waiting.extract_if(.., |waits| is_deferred(waits)) {
        let name = node.name.clone();
        decision
            .not_assigned
            .insert(name, NotAssigned::RunsController);
    }
}

enum Verdict {
    Assigned(BudgetImpact),
    NotAssigned(NotAssigned),
}

/// The verdict by the node's own state alone.
fn verdict(node: &NodeView, course: &Course<'_>, round: &RoundClaim) -> Verdict {
    let claim = round.state_of(node);
    if claim == ClaimState::Ahead {
        return Verdict::NotAssigned(NotAssigned::Updating);
    }
    if claim == ClaimState::Settled
        && node.is_quarantined()
        && let Some(config) = &node.quarantined
    {
        let config = config.clone();
        return Verdict::NotAssigned(NotAssigned::Quarantined { config });
    }
    if let Some(goal) = course.goal
        && node.status.is_assigned_to(goal)
    {
        return Verdict::NotAssigned(if node.status.is_done() {
            course.settled()
        } else if node.status.is_failing() {
            NotAssigned::Failed
        } else {
            NotAssigned::Updating
        });
    }
    if claim == ClaimState::Settled && course.passes_over(node) {
        return Verdict::NotAssigned(course.settled());
    }
    if let Some(hold) = &node.hold {
        return Verdict::NotAssigned(NotAssigned::OnHold(hold.clone()));
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
    if course.may_heal(node) {
        return Verdict::Assigned(BudgetImpact::None);
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
        let given_up = self.quarantines.iter();
        let given_up = given_up.map(|node| (node.node.clone(), node.resource_version.clone()));
        let mut rejected = pool.claim.rejected.clone();
        match &pool.target {
            Some(target) if self.goal.as_ref() != Some(target) => {
                rejected.insert(pool.name.clone(), target.to_string());
            }
            _ => {
                rejected.remove(&pool.name);
            }
        }
        let mut seen = pool.claim.seen.clone();
        seen.remove(&pool.name);
        seen.extend(self.seen.clone().map(|seen| (pool.name.clone(), seen)));
        RoundClaim {
            target: self
                .goal
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            nodes: kept.chain(assigned).chain(given_up).collect(),
            rejected,
            seen,
        }
    }

    /// Whether anything is to be claimed: writes to nodes, or what was seen of them.
    pub const fn has_writes(&self) -> bool {
        !self.assignments.is_empty() || !self.quarantines.is_empty() || self.is_seen_anew
    }

    /// Records that a node was given up for `config`.
    pub fn record_quarantined(&mut self, node: &str, config: &str) {
        let config = config.to_owned();
        self.not_assigned
            .insert(node.to_owned(), NotAssigned::Quarantined { config });
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

    /// Records that the pool was stopped, paused or deleted after the decision: assignments that
    /// were not written wait for the pool, and so do the nodes that waited for its budget.
    pub fn record_stopped(&mut self, pool: &PoolView) {
        let reason = if pool.is_deleted {
            NotAssigned::PoolDeleted
        } else if pool.stops.are_set() {
            NotAssigned::Stopped(Arc::new(pool.stops.clone()))
        } else {
            NotAssigned::Paused
        };
        for waiting in self.not_assigned.values_mut() {
            if matches!(
                waiting,
                NotAssigned::Reverted { .. }
                    | NotAssigned::Budget { .. }
                    | NotAssigned::Halted { .. }
                    | NotAssigned::RunsController
                    | NotAssigned::Policy(_)
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

    /// The node that waits because the controller runs on it.
    pub fn deferred(&self) -> Option<&str> {
        let mut waiting = self.not_assigned.iter();
        let found = waiting.find(|(_, reason)| **reason == NotAssigned::RunsController);
        found.map(|(node, _)| node.as_str())
    }

    /// Whether failures stopped the rollout.
    pub fn is_halted(&self) -> bool {
        self.not_assigned.values().any(|reason| {
            matches!(
                reason,
                NotAssigned::Halted { .. } | NotAssigned::Reverted { .. }
            )
        })
    }
}

#[cfg(test)]
mod tests;
