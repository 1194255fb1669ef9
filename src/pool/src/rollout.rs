//! Which nodes are assigned the pool's configuration now, and why the others are not.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::budget::{self, budget};
use crate::claim::{ClaimState, RoundClaim};
use crate::list::{NameList, list};
use crate::node::{NodeView, Unready};
use crate::policy::{PolicyFacts, PolicyWait, RolloutPolicy};
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
    /// Nodes that are given up now, because their drain takes too long: they get back what they
    /// run, and stay cordoned.
    pub quarantines: Vec<GivenUp>,
    /// The configuration that assignments are of: the pool's, or the one before where that is
    /// reverted.
    pub goal: Option<String>,
    /// Why each other node is not assigned, by name.
    pub not_assigned: BTreeMap<String, NotAssigned>,
    /// When the decision may change by time alone.
    pub wakes: Option<Timestamp>,
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

/// A node that is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// Name of the node.
    pub node: String,
    /// Version of the object that was read.
    pub resource_version: String,
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
    /// The rollout policy has it wait.
    Policy(PolicyWait),
    /// It could not be drained for this configuration within the limit of the rollout policy.
    Quarantined {
        /// The configuration.
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
            Self::RunsController => {
                f.write_str("the controller runs on it, and other nodes of the pool wait")
            }
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
/// A rollout policy holds back nodes that would be taken out of service: before its start, and
/// those of later steps. It may name another order, and how many failures halt the rollout. If it
/// asks for that, a halted rollout is reverted: nodes that were assigned the target are assigned
/// the configuration that all had before, as if that were a new target, and no other node is
/// assigned anything until the target changes. Nodes whose drain takes too long are given up: they
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
    let target = pool.target.as_deref();
    let has_failed_on = |node: &NodeView, config: Option<&str>| {
        node.status.is_failing() && config.is_some_and(|config| node.status.is_assigned_to(config))
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
    };
    let blanket = limit(pool, &decision.budget);
    let policy = pool.policy.as_ref();
    let may_fail = |limit: usize| {
        let may_fail = policy.and_then(|policy| policy.may_fail(size));
        may_fail.unwrap_or_else(|| limit.saturating_sub(1))
    };
    let halts = |limit: &usize| decision.failed.len() > may_fail(*limit);
    let returns_to = if blanket.as_ref().is_ok_and(halts) {
        pool.returns_to()
    } else {
        pool.reverted()
    };
    let course = Course {
        goal: returns_to.or(target),
        rejected: returns_to.and(target),
    };
    if let Some(returns_to) = returns_to {
        decision.failed =
            names(&|node| has_failed_on(node, target) || has_failed_on(node, Some(returns_to)));
        decision.goal = Some(returns_to.to_owned());
    }
    // A peer has another target, and may try it again as well. So may a node that failed on an
    // older one and is left alone, because the target is reverted.
    let may_retry = |node: &NodeView| match course.rejected {
        _ if peer_names.contains(node.name.as_str()) => node.status.is_failing(),
        Some(rejected) => node.status.is_failing() && !node.status.is_assigned_to(rejected),
        None => has_failed_on(node, course.goal),
    };
    let mut policy_waits = BTreeMap::new();
    let mut wakes = None;
    if let (Some(policy), Some(target), Ok(_), None) = (policy, target, &blanket, returns_to) {
        (policy_waits, wakes) = policy.gate(target, members, &pool.facts, now);
    }
    let mut waiting = Vec::new();
    for node in members {
        let reason = match verdict(node, &course, &pool.claim) {
            Verdict::NotAssigned(reason) => reason,
            Verdict::Assigned(impact) => match &blanket {
                // What is out of service already goes on, whatever the policy says.
                Ok(_) => match policy_waits.remove(&node.name) {
                    Some(wait) if impact != BudgetImpact::None => {
                        decision.wakes = wakes;
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
        _ if let Some(hold) = &pool.hold => Err(NotAssigned::Held(hold.clone())),
        _ if pool.is_paused => Err(NotAssigned::Paused),
        (_, Err(_)) => Err(NotAssigned::NoBudget),
        (Some(_), Ok(limit)) => Ok(*limit),
    }
}

/// Gives up nodes whose drain for `target` takes too long, as many as the policy allows at once,
/// those that have taken longest first.
fn give_up(
    decision: &mut RolloutDecision,
    pool: &PoolView,
    policy: &RolloutPolicy,
    members: &[&NodeView],
    target: &str,
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
        let overdue_at = quarantine.overdue_at(node, target)?;
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

/// Which configurations nodes are to have, and not to have.
struct Course<'a> {
    /// What they are assigned.
    goal: Option<&'a str>,
    /// What they return from, where the pool's target is reverted.
    rejected: Option<&'a str>,
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
    let reverted = || NotAssigned::Reverted {
        config: course.goal.unwrap_or_default().to_owned(),
    };
    if let Some(goal) = course.goal
        && node.status.is_assigned_to(goal)
    {
        return Verdict::NotAssigned(if node.status.is_done() {
            match course.rejected {
                Some(_) => reverted(),
                None => NotAssigned::Updated,
            }
        } else if node.status.is_failing() {
            NotAssigned::Failed
        } else {
            NotAssigned::Updating
        });
    }
    if let Some(rejected) = course.rejected
        && claim == ClaimState::Settled
        && !node.status.is_assigned_to(rejected)
    {
        return Verdict::NotAssigned(reverted());
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
    // The rejected configuration may be why it is not ready. A cordon is an administrator's.
    if course.rejected.is_some()
        && !node.is_ready()
        && !node.unready.contains(&Unready::Unschedulable)
    {
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

/// What assignments keep to.
struct AssignmentRules<'a> {
    /// Nodes that may be out of service at once.
    limit: usize,
    /// Whether no further node is assigned, because too many failed.
    is_halted: bool,
    policy: Option<&'a RolloutPolicy>,
    facts: &'a PolicyFacts,
    target: Option<&'a str>,
}

/// Assigns waiting nodes as far as the budget allows. The nodes of `retrying` failed on the pool's
/// configuration, are in service, and may try again by themselves.
fn assign(
    decision: &mut RolloutDecision,
    mut waiting: Vec<(&NodeView, BudgetImpact)>,
    retrying: &[String],
    rules: &AssignmentRules<'_>,
) {
    let limit = rules.limit;
    if rules.is_halted {
        let failed = names(&decision.failed);
        for (node, _) in waiting {
            let failed = Arc::clone(&failed);
            let halted = NotAssigned::Halted { failed };
            decision.not_assigned.insert(node.name.clone(), halted);
        }
        return;
    }
    waiting.sort_unstable_by(|(a, a_impact), (b, b_impact)| {
        a_impact
            .cmp(b_impact)
            .then_with(|| update_order(a, b, rules))
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

/// Update order: first those that have fetched the target, which are out of service for no longer
/// than it takes; then by the policy's order, or by zone, age and name, so that every controller
/// computes the same order.
fn update_order(a: &NodeView, b: &NodeView, rules: &AssignmentRules<'_>) -> Ordering {
    let fetched = |node: &NodeView| {
        let target = rules.target;
        Reverse(target.is_some() && node.status.fetched.as_deref() == target)
    };
    fetched(a)
        .cmp(&fetched(b))
        .then_with(|| match rules.policy {
            Some(policy) => policy
                .rank(a, rules.facts)
                .cmp(&policy.rank(b, rules.facts)),
            None => default_order(a).cmp(&default_order(b)),
        })
}

fn default_order(node: &NodeView) -> impl Ord + use<'_> {
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
        let given_up = self.quarantines.iter();
        let given_up = given_up.map(|node| (node.node.clone(), node.resource_version.clone()));
        let mut rejected = pool.claim.rejected.clone();
        match &pool.target {
            Some(target) if self.goal.as_ref() != Some(target) => {
                rejected.insert(pool.name.clone(), target.clone());
            }
            _ => {
                rejected.remove(&pool.name);
            }
        }
        RoundClaim {
            target: self.goal.clone().unwrap_or_default(),
            nodes: kept.chain(assigned).chain(given_up).collect(),
            rejected,
        }
    }

    /// Whether anything is to be written to a node.
    pub const fn has_writes(&self) -> bool {
        !self.assignments.is_empty() || !self.quarantines.is_empty()
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
