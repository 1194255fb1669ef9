//! Assigns the nodes that wait, in their order, as far as the budget allows.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use api::machineconfiguration::Target;

use super::{Assignment, BudgetImpact, FailuresToReturn, NotAssigned, RolloutDecision};
use crate::list::NameList;
use crate::node::NodeView;
use crate::policy::{PolicyFacts, RolloutPolicy};

pub(super) struct AssignmentRules<'a> {
    /// Nodes that may be out of service at once.
    pub(super) limit: usize,
    /// Whether no further node is assigned, because too many failed.
    pub(super) is_halted: bool,
    /// How many failures a halted rollout is reverted after, where the policy asks for that.
    pub(super) to_return: Option<FailuresToReturn>,
    pub(super) policy: Option<&'a RolloutPolicy>,
    pub(super) facts: &'a PolicyFacts,
    pub(super) target: Option<&'a Target>,
}

/// Assigns waiting nodes as far as the budget allows. The nodes of `retrying` failed on the pool's
/// configuration, are in service, and may try again by themselves.
pub(super) fn assign(
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
            let to_return = rules.to_return;
            let halted = NotAssigned::Halted { failed, to_return };
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
        Reverse(target.is_some_and(|target| node.status.has_fetched(target)))
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
