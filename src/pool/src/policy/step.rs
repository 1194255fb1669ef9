//! Nodes that go together, and when those of later steps follow them.

use std::sync::Arc;

use api::machineconfiguration::Target;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{PolicyGate, PolicyWait};
use crate::list::NameList;
use crate::node::NodeView;

/// Nodes that go together, and before those of later steps.
pub(crate) struct Step<'a> {
    pub(super) name: String,
    pub(super) nodes: Vec<&'a NodeView>,
    pub(super) soak: SignedDuration,
    /// Whether it proves the configuration, so that it is not over without a node.
    pub(super) needs_nodes: bool,
}

/// When a controller first saw all nodes of a step work in the target: its own observation, by its
/// own clock. The steps before it are over.
///
/// Shape: it is a part of the claim ([`crate::claim::RoundClaim`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepSeen {
    /// The target, as text.
    pub config: String,
    /// Number of the step, from 0.
    pub step: usize,
    pub since: Timestamp,
}

impl StepSeen {
    /// Whether it is of this target. One of the future was written before the clock was set back:
    /// it would hold the rollout until then.
    pub(super) fn is_of(&self, target: &Target, now: Timestamp) -> bool {
        Target::parse(&self.config).as_ref() == Some(target) && self.since <= now
    }
}

impl Step<'_> {
    /// What later steps wait for before this one works; none if it does.
    pub(super) fn wait(&self, target: &Target) -> Option<PolicyWait> {
        if self.nodes.is_empty() && self.needs_nodes {
            return Some(PolicyWait::NoCanary);
        }
        let late = self.nodes.iter();
        let late = late.filter(|node| !node.status.is_updated(target) || !node.is_ready());
        let late: Vec<String> = late.map(|node| named(node)).collect();
        let late = NameList::new(late.iter().map(String::as_str));
        (!late.is_empty()).then(|| PolicyWait::Step {
            step: self.name.clone(),
            nodes: Arc::new(late),
        })
    }
}

/// A node that others wait for; one on hold waits for a person.
fn named(node: &NodeView) -> String {
    match &node.hold {
        Some(_) => format!("{} (on hold)", node.name),
        None => node.name.clone(),
    }
}

impl PolicyGate {
    /// What later steps wait for while this one works; none if it has for long enough. One that was
    /// not seen before begins now.
    pub(super) fn soak(
        &mut self,
        step: &Step<'_>,
        number: usize,
        target: &Target,
        now: Timestamp,
    ) -> Option<PolicyWait> {
        if step.soak.is_zero() {
            return None;
        }
        let since = match &self.seen {
            Some(seen) if seen.step > number => return None,
            Some(seen) if seen.step == number => seen.since,
            Some(_) | None => {
                self.seen = Some(StepSeen {
                    config: target.to_string(),
                    step: number,
                    since: now,
                });
                now
            }
        };
        let until = since.checked_add(step.soak).unwrap_or(Timestamp::MAX);
        (until > now).then(|| PolicyWait::Soak {
            step: step.name.clone(),
            until,
        })
    }
}

#[cfg(test)]
mod tests;
