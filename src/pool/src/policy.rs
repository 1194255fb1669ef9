//! The steps of a rollout: when it starts, which nodes go before others, and how long these work
//! until the others follow.
//!
//! All of it is computed each time from the policy, the nodes, the time and one observation: when a
//! controller first saw the nodes of a step work in their configuration. What nodes write about
//! that themselves does not count.
//!
//! - `field`: the value of a field, or why the policy cannot be followed
//! - `parsing`: a policy is read from its object
//! - `step`: nodes that go together, and when they are done
//! - `analysis`: queries between the steps
//! - `quarantine`: nodes that cannot be drained
//! - `prefetch`: how fast nodes fetch before their turn

mod analysis;
mod field;
mod parsing;
mod prefetch;
mod quarantine;
mod step;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use api::machineconfiguration::Target;
use jiff::{SignedDuration, Timestamp};

use crate::budget::percentage;
use crate::list::NameList;
use crate::node::NodeView;
use crate::recurrence::{RecurringWindow, next_opening};
use crate::selector::Selector;

pub use self::analysis::{Analysis, QueryAnswer, QueryAnswers};
pub use self::field::{InvalidPolicy, PolicyFault};
pub(crate) use self::quarantine::Quarantine;
pub use self::quarantine::SeenDrains;
use self::step::Step;
pub use self::step::StepSeen;

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
    pinned_image_pulls: Option<Amount>,
}

/// What a policy asks for beside the nodes; set by who can ask.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PolicyFacts {
    /// How many pods of a node no PodDisruptionBudget lets go now; absent, none.
    pub blocked_pods: BTreeMap<String, usize>,
    /// What the queries of the analysis answered.
    pub answers: QueryAnswers,
    /// When drains were first seen.
    pub drains: SeenDrains,
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
    Window {
        /// The one that opens next.
        name: String,
        opens: Timestamp,
    },
    /// A query does not let nodes follow an earlier step.
    Analysis {
        step: String,
        name: String,
        why: String,
    },
    /// Nodes of an earlier step are not updated.
    Step {
        step: String,
        /// Its nodes that are not updated and ready.
        nodes: Arc<NameList>,
    },
    /// The nodes of an earlier step are to work for some time.
    Soak {
        step: String,
        /// When that time is over.
        until: Timestamp,
    },
    /// The selector of the canaries selects no node of the pool.
    NoCanary,
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
            Self::NoCanary => f.write_str(
                "spec.canaries.nodeSelector of the rollout policy selects no node of the pool",
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

    /// How many nodes of `size` pull pinned images at once, at least 1.
    pub fn pinned_image_pulls(&self, size: usize) -> usize {
        let limit = self.pinned_image_pulls.map(|amount| amount.of(size));
        limit.map_or(usize::MAX, |limit| limit.max(1))
    }

    /// How many nodes may fail before the rollout is halted, of `size`; none where the pool's
    /// budget decides.
    pub(crate) fn may_fail(&self, size: usize) -> Option<usize> {
        self.halt_above.map(|amount| amount.of(size))
    }

    /// What each node waits for by this policy. `seen` is the step that a controller saw work last.
    pub(crate) fn gate(
        &self,
        target: &Target,
        members: &[&NodeView],
        facts: &PolicyFacts,
        seen: Option<&StepSeen>,
        now: Timestamp,
    ) -> PolicyGate {
        let all = |wait: &PolicyWait, nodes: &[&NodeView]| {
            let waits = nodes.iter().map(|node| (node.name.clone(), wait.clone()));
            waits.collect::<BTreeMap<_, _>>()
        };
        let current = seen.filter(|seen| seen.is_of(target, now)).cloned();
        let mut gate = PolicyGate {
            seen: current,
            ..PolicyGate::default()
        };
        let closed = match self.start_after.filter(|start| *start > now) {
            Some(start) => Some((PolicyWait::StartAfter(start), start)),
            None => self
                .closed_until(now)
                .map(|(name, opens)| (PolicyWait::Window { name, opens }, opens)),
        };
        if let Some((wait, opens)) = closed {
            gate.waits = all(&wait, members);
            gate.wakes = Some(opens);
            return gate;
        }
        let steps = self.steps(target, members, facts);
        for (number, step) in steps.iter().enumerate() {
            let later = steps.iter().skip(number.saturating_add(1));
            let later: Vec<&NodeView> = later.flat_map(|later| later.nodes.clone()).collect();
            let goes = |node: &NodeView| !node.status.is_assigned_to(target);
            let waits = |node: &NodeView| goes(node) && !node.is_quarantined();
            if !later.iter().any(|node| waits(node) && node.hold.is_none()) {
                // Nothing waits for this step, so that nothing is to be remembered of it.
                return gate;
            }
            let wait = step
                .wait(target)
                .or_else(|| gate.soak(step, number, target, now));
            let Some(wait) = wait.or_else(|| self.analyse(step, facts, now)) else {
                continue;
            };
            if step.nodes.iter().any(|node| goes(node))
                && gate.seen.as_ref().is_some_and(|seen| seen.step >= number)
            {
                // Another node takes part in the step: it restarts.
                gate.seen = None;
            }
            gate.wakes = match &wait {
                PolicyWait::Soak { until, .. } => Some(*until),
                PolicyWait::Analysis { .. } => now.checked_add(analysis::REPEAT).ok(),
                PolicyWait::StartAfter(_)
                | PolicyWait::Window { .. }
                | PolicyWait::Step { .. }
                | PolicyWait::NoCanary => None,
            };
            gate.waits = all(&wait, &later);
            return gate;
        }
        gate
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
        target: &Target,
        members: &[&'a NodeView],
        facts: &PolicyFacts,
    ) -> Vec<Step<'a>> {
        // A node that is given up proves nothing: the next one of the order takes its place.
        let (given_up, mut left): (Vec<&NodeView>, Vec<&NodeView>) =
            members.iter().partition(|node| node.is_quarantined());
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
                    let lost = given_up.iter().filter(|node| is_canary(node)).count();
                    let (nodes, others) = left.into_iter().partition(is_canary);
                    left = others;
                    [nodes, take(&mut left, lost)].concat()
                }
            };
            steps.push(Step {
                name: CANARIES.to_owned(),
                nodes,
                soak: canaries.soak,
                needs_nodes: true,
            });
        }
        // A wave is filled with nodes that may go. A node on hold is for people to release: the
        // waves behind it do not wait for them, as they do for a canary, which is to prove
        // something.
        let is_held = |node: &&NodeView| node.hold.is_some() && !node.status.is_assigned_to(target);
        let (held, mut left): (Vec<&NodeView>, Vec<&NodeView>) =
            left.into_iter().partition(is_held);
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
                needs_nodes: false,
            });
        }
        steps.push(Step {
            name: "the others".to_owned(),
            nodes: [left, held, given_up].concat(),
            soak: SignedDuration::ZERO,
            needs_nodes: false,
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

/// What nodes wait for by a policy.
#[derive(Debug, Default)]
pub(crate) struct PolicyGate {
    /// What each node waits for. Nodes that are not named may go.
    pub(crate) waits: BTreeMap<String, PolicyWait>,
    /// When that may change by time alone.
    pub(crate) wakes: Option<Timestamp>,
    /// The step that was seen to work last, to be remembered.
    pub(crate) seen: Option<StepSeen>,
}

/// The first nodes, taken away.
fn take<'a>(left: &mut Vec<&'a NodeView>, count: usize) -> Vec<&'a NodeView> {
    let rest = left.split_off(count.min(left.len()));
    std::mem::replace(left, rest)
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
