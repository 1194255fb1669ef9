//! The steps of a rollout: when it starts, which nodes go before others, and how long these work
//! until the others follow.
//!
//! All of it is computed anew from the policy, the nodes and the time. Nothing is remembered: how
//! long a node has worked in its configuration stands on the node.

mod analysis;
mod parsing;
mod prefetch;
mod quarantine;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use api::machineconfiguration::PhaseName;
use api::machineconfiguration::node_status::Reading;
use jiff::{SignedDuration, Timestamp};

use crate::budget::percentage;
use crate::list::NameList;
use crate::node::NodeView;
use crate::recurrence::{RecurringWindow, next_opening};
use crate::selector::Selector;

pub use self::analysis::{Analysis, QueryAnswers};
pub use self::parsing::InvalidPolicy;
use self::parsing::duration;
pub(crate) use self::quarantine::Quarantine;

/// Name of the step of the canaries in sentences.
const CANARIES: &str = "the canaries";

/// Prefix of an order by a label.
const LABEL: &str = "label:";

/// How the nodes of a pool follow each other, parsed.
///
/// Source: RolloutPolicy `spec`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RolloutPolicy {
    start_after: Option<Timestamp>,
    canaries: Option<Canaries>,
    waves: Vec<Wave>,
    halt_above: Option<Amount>,
    order: Vec<OrderKey>,
    windows: Vec<RecurringWindow>,
    analysis: Vec<Analysis>,
    returns: bool,
    quarantine: Option<Quarantine>,
    prefetch_bytes_per_second: Option<NonZeroU64>,
}

/// What a policy asks for beside the nodes; set by who can ask.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PolicyFacts {
    /// How many pods of a node no PodDisruptionBudget lets go now; absent, none.
    pub blocked_pods: BTreeMap<String, usize>,
    /// What the queries of the analysis answered.
    pub answers: QueryAnswers,
}

#[derive(Debug, Clone, PartialEq)]
struct Canaries {
    who: CanaryChoice,
    soak: SignedDuration,
}

#[derive(Debug, Clone, PartialEq)]
enum CanaryChoice {
    First(usize),
    Selected(Selector),
}

#[derive(Debug, Clone, PartialEq)]
struct Wave {
    size: Amount,
    soak: SignedDuration,
}

/// A number of nodes, or a share of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Amount {
    Nodes(usize),
    Percent(u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum OrderKey {
    Zone,
    Oldest,
    Newest,
    FewestBlockedPods,
    Label(String),
}

/// Why the policy does not let a node follow yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PolicyWait {
    /// Before this time no node is assigned.
    StartAfter(Timestamp),
    /// All windows are closed.
    Window {
        /// The one that opens next.
        name: String,
        /// When it opens.
        opens: Timestamp,
    },
    /// A query does not let nodes follow an earlier step.
    Analysis {
        /// The step.
        step: String,
        /// Name of the query.
        name: String,
        /// What it answered.
        why: String,
    },
    /// Nodes of an earlier step are not updated.
    Step {
        /// The step.
        step: String,
        /// Its nodes that are not updated and ready.
        nodes: Arc<NameList>,
    },
    /// The nodes of an earlier step are to work for some time.
    Soak {
        /// The step.
        step: String,
        /// When that time is over.
        until: Timestamp,
    },
    /// It is not known how long nodes of an earlier step have worked.
    UnknownSoak {
        /// The step.
        step: String,
        /// The nodes whose daemon does not say since when they rest.
        nodes: Arc<NameList>,
    },
}

impl fmt::Display for PolicyWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StartAfter(time) => write!(f, "the rollout policy starts at {time}"),
            Self::Window { name, opens } => {
                write!(
                    f,
                    "no window of the rollout policy is open: {name} opens at {opens}"
                )
            }
            Self::Analysis { step, name, why } => write!(
                f,
                "the rollout policy analyses {step} by the query {name}: {why}"
            ),
            Self::Step { step, nodes } => {
                write!(f, "{step} of the rollout policy come first: {nodes}")
            }
            Self::Soak { step, until } => {
                write!(f, "{step} of the rollout policy work until {until} first")
            }
            Self::UnknownSoak { step, nodes } => write!(
                f,
                "{step} of the rollout policy do not say since when they are updated: {nodes}"
            ),
        }
    }
}

impl RolloutPolicy {
    /// Queries that must pass before nodes follow others.
    pub fn analysis(&self) -> &[Analysis] {
        &self.analysis
    }

    /// Whether it asks how many pods of a node may not be evicted.
    pub fn needs_blocked_pods(&self) -> bool {
        self.order.contains(&OrderKey::FewestBlockedPods)
    }

    /// Whether a halted rollout is reverted.
    pub(crate) const fn returns(&self) -> bool {
        self.returns
    }

    /// When nodes are passed over.
    pub(crate) const fn quarantine(&self) -> Option<&Quarantine> {
        self.quarantine.as_ref()
    }

    /// Most bytes a second that a node fetches before its turn.
    pub(crate) const fn prefetch_bytes_per_second(&self) -> Option<NonZeroU64> {
        self.prefetch_bytes_per_second
    }

    /// How many nodes may fail before the rollout is halted, of `size`; none where the pool's
    /// budget decides.
    pub(crate) fn may_fail(&self, size: usize) -> Option<usize> {
        self.halt_above.map(|amount| amount.of(size))
    }

    /// What each node waits for by this policy, and when that may change by time alone. Nodes that
    /// are not named may go.
    pub(crate) fn gate(
        &self,
        target: &str,
        members: &[&NodeView],
        facts: &PolicyFacts,
        now: Timestamp,
    ) -> (BTreeMap<String, PolicyWait>, Option<Timestamp>) {
        let all = |wait: PolicyWait, names: &mut dyn Iterator<Item = &NodeView>| {
            let waits = names.map(|node| (node.name.clone(), wait.clone()));
            waits.collect::<BTreeMap<_, _>>()
        };
        if let Some(start) = self.start_after.filter(|start| *start > now) {
            let wait = PolicyWait::StartAfter(start);
            return (all(wait, &mut members.iter().copied()), Some(start));
        }
        if let Some((name, opens)) = self.closed_until(now) {
            let wait = PolicyWait::Window { name, opens };
            return (all(wait, &mut members.iter().copied()), Some(opens));
        }
        let mut steps = self.steps(target, members, facts).into_iter();
        while let Some(step) = steps.next() {
            let wait = step.wait(target, now);
            let wait = wait.or_else(|| self.analyse(&step, facts, now));
            let Some(wait) = wait else {
                continue;
            };
            let wakes = match &wait {
                PolicyWait::Soak { until, .. } => Some(*until),
                PolicyWait::Analysis { .. } => now.checked_add(analysis::REPEAT).ok(),
                PolicyWait::StartAfter(_)
                | PolicyWait::Window { .. }
                | PolicyWait::Step { .. }
                | PolicyWait::UnknownSoak { .. } => None,
            };
            return (all(wait, &mut steps.flat_map(|later| later.nodes)), wakes);
        }
        (BTreeMap::new(), None)
    }

    /// The window that opens next, and when, if none is open.
    fn closed_until(&self, now: Timestamp) -> Option<(String, Timestamp)> {
        let last = self.windows.last()?;
        match next_opening(&self.windows, now) {
            Some(opening) => (opening.opens > now).then_some((opening.name, opening.opens)),
            None => Some((last.name.clone(), Timestamp::MAX)),
        }
    }

    /// The first query that does not let nodes follow a step that is over.
    fn analyse(&self, step: &Step<'_>, facts: &PolicyFacts, now: Timestamp) -> Option<PolicyWait> {
        self.analysis.iter().find_map(|query| {
            Some(PolicyWait::Analysis {
                step: step.name.clone(),
                name: query.name.clone(),
                why: query.fault(&facts.answers, now)?,
            })
        })
    }

    /// All members, each in its step; no other node waits for those of the last step.
    fn steps<'a>(
        &self,
        target: &str,
        members: &[&'a NodeView],
        facts: &PolicyFacts,
    ) -> Vec<Step<'a>> {
        let mut left = members.to_vec();
        // Pods come and go; the nodes that were assigned stay in their step.
        let is_later =
            |node: &NodeView| self.needs_blocked_pods() && !node.status.is_assigned_to(target);
        left.sort_by_cached_key(|node| (is_later(node), self.rank(node, facts)));
        let size = members.len();
        let mut steps = Vec::new();
        if let Some(canaries) = &self.canaries {
            let nodes = match &canaries.who {
                CanaryChoice::First(count) => take(&mut left, *count),
                CanaryChoice::Selected(selector) => {
                    let is_canary = |node: &&NodeView| selector.matches(&node.labels);
                    let nodes = left
                        .iter()
                        .copied()
                        .filter(|node| is_canary(node))
                        .collect();
                    left.retain(|node| !is_canary(node));
                    nodes
                }
            };
            steps.push(Step {
                name: CANARIES.to_owned(),
                nodes,
                soak: canaries.soak,
            });
        }
        for (wave, number) in self.waves.iter().zip(1_usize..) {
            let count = match wave.size {
                Amount::Nodes(nodes) => nodes,
                // Rounded up, so that no wave of a small pool is empty.
                Amount::Percent(percent) => {
                    size.saturating_sub(percentage(100_u32.saturating_sub(percent), size))
                }
            };
            steps.push(Step {
                name: format!("the nodes of wave {number}"),
                nodes: take(&mut left, count),
                soak: wave.soak,
            });
        }
        steps.push(Step {
            name: "the others".to_owned(),
            nodes: left,
            soak: SignedDuration::ZERO,
        });
        steps
    }

    /// Where a node stands in the order. But for its blocked pods, that does not change while the
    /// node is updated.
    pub(crate) fn rank(&self, node: &NodeView, facts: &PolicyFacts) -> impl Ord + use<> {
        const DEFAULT: [OrderKey; 2] = [OrderKey::Zone, OrderKey::Oldest];
        let order = if self.order.is_empty() {
            &DEFAULT[..]
        } else {
            &self.order
        };
        let ranks: Vec<Rank> = order.iter().map(|key| key.rank(node, facts)).collect();
        (ranks, node.name.clone())
    }
}

/// The first nodes, taken away.
fn take<'a>(left: &mut Vec<&'a NodeView>, count: usize) -> Vec<&'a NodeView> {
    let rest = left.split_off(count.min(left.len()));
    std::mem::replace(left, rest)
}

/// Nodes that go together, and before those of later steps.
struct Step<'a> {
    name: String,
    nodes: Vec<&'a NodeView>,
    soak: SignedDuration,
}

impl Step<'_> {
    /// What later steps wait for; none if it is over.
    fn wait(&self, target: &str, now: Timestamp) -> Option<PolicyWait> {
        let names = |is_listed: &dyn Fn(&NodeView) -> bool| {
            let listed = self.nodes.iter().filter(|node| is_listed(node));
            Arc::new(NameList::new(listed.map(|node| node.name.as_str())))
        };
        let step = || self.name.clone();
        // One that is quarantined is passed over.
        let is_over = |node: &NodeView| {
            node.is_quarantined() || (node.status.is_updated(target) && node.is_ready())
        };
        let late = names(&|node| !is_over(node));
        if !late.is_empty() {
            return Some(PolicyWait::Step {
                step: step(),
                nodes: late,
            });
        }
        if self.soak.is_zero() {
            return None;
        }
        let unknown = names(&|node| !node.is_quarantined() && rests_since(node).is_none());
        if !unknown.is_empty() {
            return Some(PolicyWait::UnknownSoak {
                step: step(),
                nodes: unknown,
            });
        }
        let last = self
            .nodes
            .iter()
            .filter(|node| !node.is_quarantined())
            .filter_map(|node| rests_since(node))
            .max()?;
        let until = last.checked_add(self.soak).unwrap_or(Timestamp::MAX);
        (until > now).then(|| PolicyWait::Soak {
            step: step(),
            until,
        })
    }
}

/// Since when a node rests in its configuration.
fn rests_since(node: &NodeView) -> Option<Timestamp> {
    let since = node.status.since.as_ref().and_then(Reading::known)?;
    (node.status.phase() == Some(PhaseName::Idle)).then_some(*since)
}

/// A value by which nodes are ordered; what has none comes last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Count(usize),
    Text(String),
    Time(Timestamp),
    Reversed(Reverse<Timestamp>),
    Absent,
}

impl OrderKey {
    fn rank(&self, node: &NodeView, facts: &PolicyFacts) -> Rank {
        let text = |text: Option<&str>| text.map(|text| Rank::Text(text.to_owned()));
        let rank = match self {
            Self::Zone => text(node.zone()),
            Self::Label(key) => text(node.labels.get(key).map(String::as_str)),
            Self::FewestBlockedPods => {
                let blocked = facts.blocked_pods.get(&node.name);
                Some(Rank::Count(blocked.copied().unwrap_or_default()))
            }
            Self::Oldest => node.created.map(Rank::Time),
            Self::Newest => node.created.map(|time| Rank::Reversed(Reverse(time))),
        };
        rank.unwrap_or(Rank::Absent)
    }
}

impl Amount {
    /// How many nodes of `size` it is, rounded down.
    fn of(self, size: usize) -> usize {
        match self {
            Self::Nodes(nodes) => nodes,
            Self::Percent(percent) => percentage(percent, size),
        }
    }
}

#[cfg(test)]
mod tests;
