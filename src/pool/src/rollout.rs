//! Which nodes are told a new configuration now, and why the others are not.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use crate::budget::{self, budget};
use crate::list::list;
use crate::node::{NodeView, Unready};
use crate::round::Round;
use crate::view::PoolView;

/// What is decided for a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Nodes that may be out at once, or why nobody can say.
    pub budget: Result<usize, budget::Refusal>,
    /// Nodes that are out, sorted: not ready, being updated, or claimed.
    pub out: Vec<String>,
    /// Nodes on which an update to the pool's configuration failed, sorted.
    pub failed: Vec<String>,
    /// Nodes to tell now, in this order.
    pub assignments: Vec<Assignment>,
    /// Why each other node is not told, by name.
    pub stays: BTreeMap<String, Stays>,
}

/// A node to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Name of the node.
    pub node: String,
    /// Version of the object that was read.
    pub resource_version: String,
    /// What it costs.
    pub cost: Cost,
}

/// What telling a node costs the pool.
///
/// Shape: the order is the order of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// It is out already on the way to a target that nobody wants any more, or was claimed: nothing.
    AlreadyOut,
    /// It failed on an older target and is in service, but may try that again at any time: the one that is kept for it.
    TakesReserved,
    /// It is in service and goes out: one of the budget.
    TakesOut,
}

/// Why a node is not told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stays {
    /// It runs the pool's configuration.
    Updated,
    /// It was told the pool's configuration and is on its way.
    Updating,
    /// It was told the pool's configuration and failed.
    Failed,
    /// The pool has no configuration yet.
    NoTarget,
    /// The pool is being deleted.
    PoolDeleted,
    /// The pool is paused.
    Paused,
    /// The pool has no budget.
    NoBudget,
    /// Its daemon has not said yet what it runs.
    NotReported,
    /// It cannot be updated as it is.
    Unready(Vec<Unready>),
    /// As many nodes failed on the pool's configuration as may be out at once.
    Halted {
        /// These.
        failed: Vec<String>,
    },
    /// As many nodes are out, or failed and may try again, as the budget allows.
    Budget {
        /// How many may be.
        limit: usize,
        /// These are out, or go now.
        out: Vec<String>,
        /// These failed and are in service until they try again.
        failed: Vec<String>,
    },
    /// The API server does not take what the node is to be told.
    Refused(String),
}

impl Stays {
    /// Whether the node will have to be told sometime.
    pub const fn is_waiting(&self) -> bool {
        !matches!(
            self,
            Self::Updated | Self::Updating | Self::Failed | Self::NoTarget
        )
    }
}

impl fmt::Display for Stays {
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
            Self::Refused(why) => write!(f, "cannot be told: {why}"),
        }
    }
}

/// Decides which of a pool's nodes are told now.
///
/// The law: a node that is in service is told only while fewer nodes are out than the budget allows, counting those that are out, those
/// that were claimed, and those told by this decision. A paused pool tells nobody. Once as many nodes failed on the pool's
/// configuration as may be out at once, nobody else is told; before that, each of them takes one of the budget.
///
/// Nodes that are out on the way to an older target are told at once: that takes nobody out, and may be what brings them back. For a
/// node that failed one of the budget is kept, because its daemon may try again without asking; where the target has changed it goes
/// first. The others go zone by zone, the oldest first; nodes without a zone go last.
///
/// Source: upstream's node controller, which keeps no budget for nodes that failed on an older target and does not tell superseded
/// ones that are not ready.
pub fn decide(pool: &PoolView, members: &[&NodeView]) -> Decision {
    let budget = budget(&pool.name, pool.max_unavailable.as_ref(), members.len()).map(usize::from);
    let is_out = |node: &&&NodeView| node.is_out() || pool.round.is_outstanding(node);
    let names = |nodes: &mut dyn Iterator<Item = &&NodeView>| {
        let mut names: Vec<String> = nodes.map(|node| node.name.clone()).collect();
        names.sort_unstable();
        names
    };
    let target = pool.target.as_deref();
    let has_failed =
        |node: &&&NodeView| node.is_failing() && target.is_some_and(|target| node.is_told(target));
    let mut decision = Decision {
        out: names(&mut members.iter().filter(is_out)),
        failed: names(&mut members.iter().filter(has_failed)),
        budget,
        assignments: Vec::new(),
        stays: BTreeMap::new(),
    };
    let blanket = match (target, &decision.budget) {
        _ if pool.is_deleted => Err(Stays::PoolDeleted),
        (None, _) => Err(Stays::NoTarget),
        _ if pool.is_paused => Err(Stays::Paused),
        (_, Err(_)) => Err(Stays::NoBudget),
        (Some(_), Ok(limit)) => Ok(*limit),
    };
    let mut waiting = Vec::new();
    for node in members {
        let reason = match verdict(node, target, &pool.round) {
            Verdict::Stays(reason) => reason,
            Verdict::Moves(cost) => match &blanket {
                Ok(_) => {
                    waiting.push((*node, cost));
                    continue;
                }
                Err(reason) => reason.clone(),
            },
        };
        decision.stays.insert(node.name.clone(), reason);
    }
    if let Ok(limit) = blanket {
        assign(&mut decision, waiting, limit);
    }
    decision
}

enum Verdict {
    Moves(Cost),
    Stays(Stays),
}

/// What a node's own state says, before the pool's is looked at.
fn verdict(node: &NodeView, target: Option<&str>, round: &Round) -> Verdict {
    if let Some(target) = target
        && node.is_told(target)
    {
        return Verdict::Stays(if node.is_done() {
            Stays::Updated
        } else if node.is_failing() {
            Stays::Failed
        } else {
            Stays::Updating
        });
    }
    if node.current_config.is_none() {
        return Verdict::Stays(Stays::NotReported);
    }
    if round.is_outstanding(node) || (node.is_on_the_way() && node.is_out()) {
        return Verdict::Moves(Cost::AlreadyOut);
    }
    if node.is_failing() {
        return Verdict::Moves(Cost::TakesReserved);
    }
    if !node.is_ready() {
        return Verdict::Stays(Stays::Unready(node.unready.clone()));
    }
    Verdict::Moves(if node.is_out() {
        Cost::AlreadyOut
    } else {
        Cost::TakesOut
    })
}

/// Spends what the budget leaves.
fn assign(decision: &mut Decision, mut waiting: Vec<(&NodeView, Cost)>, limit: usize) {
    if !decision.failed.is_empty() && decision.failed.len() >= limit {
        for (node, _) in waiting {
            let failed = decision.failed.clone();
            let halted = Stays::Halted { failed };
            decision.stays.insert(node.name.clone(), halted);
        }
        return;
    }
    waiting.sort_by(|(a, a_cost), (b, b_cost)| (a_cost, turn(a)).cmp(&(b_cost, turn(b))));
    let mut out = decision.out.clone();
    // Who is out already takes nothing more by trying again.
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
            .filter(|(_, cost)| *cost == Cost::TakesReserved)
            .map(|(node, _)| node.name.clone()),
    );
    let mut stay = Vec::new();
    for (node, cost) in waiting {
        let goes = match cost {
            Cost::AlreadyOut => true,
            Cost::TakesReserved => out.len() + failed.len() < limit,
            Cost::TakesOut => out.len() + reserved.len() < limit,
        };
        if !goes {
            stay.push(node.name.clone());
            continue;
        }
        if cost != Cost::AlreadyOut {
            reserved.retain(|name| *name != node.name);
            out.push(node.name.clone());
        }
        decision.assignments.push(Assignment {
            node: node.name.clone(),
            resource_version: node.resource_version.clone(),
            cost,
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
            .stays
            .insert(node, Stays::Budget { limit, out, failed });
    }
}

/// Order of turns: zone, then age, then name, so that the order is the same for everyone who looks.
fn turn(node: &NodeView) -> impl Ord {
    (
        Reverse(node.zone().is_some()),
        node.zone().map(ToOwned::to_owned),
        node.created,
        node.name.clone(),
    )
}

impl Decision {
    /// The round to claim before the assignments are carried out: these, and what was claimed before and may still happen.
    pub fn claim(&self, pool: &PoolView, members: &[&NodeView]) -> Round {
        let outstanding = members
            .iter()
            .filter(|node| pool.round.is_outstanding(node))
            .map(|node| (node.name.clone(), node.resource_version.clone()));
        let assigned = self
            .assignments
            .iter()
            .map(|assignment| (assignment.node.clone(), assignment.resource_version.clone()));
        Round {
            target: pool.target.clone().unwrap_or_default(),
            nodes: outstanding.chain(assigned).collect(),
        }
    }

    /// Takes in that nodes were to be told and could not be: each with why.
    pub fn refuse(&mut self, refused: impl IntoIterator<Item = (String, String)>) {
        let stays = |(node, why)| (node, Stays::Refused(why));
        self.stays.extend(refused.into_iter().map(stays));
    }

    /// Nodes that will have to be told sometime, each with why not now.
    pub fn waiting(&self) -> impl Iterator<Item = (&str, &Stays)> {
        self.stays
            .iter()
            .filter(|(_, reason)| reason.is_waiting())
            .map(|(node, reason)| (node.as_str(), reason))
    }

    /// Whether failures stopped the rollout.
    pub fn is_halted(&self) -> bool {
        self.stays
            .values()
            .any(|reason| matches!(reason, Stays::Halted { .. }))
    }
}

#[cfg(test)]
mod tests;
