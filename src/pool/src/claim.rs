//! Assignments that were claimed and may not be visible on their nodes yet.
//!
//! Guarded writes and the versions in the claim keep the budget, without a clock, without trust in
//! the lease, and with nodes that a watch delivers late: see `docs/protocols/round.md` and
//! `docs/decisions/0007-rounds-are-claimed.md`.

use std::collections::BTreeMap;

use api::machineconfiguration::annotation;
use serde::{Deserialize, Serialize};

use crate::node::NodeView;
use crate::policy::StepSeen;

/// The claim in a pool's annotation [`annotation::ROUND`].
///
/// Shape: JSON, `{"target": "rendered-…", "nodes": {"<name>": "<resourceVersion>"}}`, where a
/// target is one as text ([`Target`](api::machineconfiguration::Target)); and where a
/// rollout was reverted `"rejected": {"<pool>": "rendered-…"}`; where a step of a policy works,
/// `"seen": {"<pool>": {"config": "rendered-…", "step": 0, "since": "<RFC 3339>"}}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundClaim {
    /// What the nodes are assigned.
    pub target: String,
    /// The nodes, each with the version of the object that the decision read.
    pub nodes: BTreeMap<String, String>,
    /// Targets of which the rollout was halted and is reverted, by pool. It outlives the
    /// failures, which end when their nodes return.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rejected: BTreeMap<String, String>,
    /// The step of the rollout policy that was seen to work last, by pool: a restart of the
    /// controller does not restart its time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seen: BTreeMap<String, StepSeen>,
}

/// What the claim says about a node that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimState {
    /// It is not claimed, or its object has changed since: the object says what came of the claim.
    Settled,
    /// It was claimed in the version that was read. Its assignment may be written at any moment,
    /// by any controller.
    Outstanding,
    /// It was claimed in a version that has not been read yet. The version that was read is too old
    /// to decide anything.
    Ahead,
}

impl RoundClaim {
    /// Reads the annotation of a pool. Absent or in another format: an empty claim.
    pub fn read(annotations: Option<&BTreeMap<String, String>>) -> Self {
        annotations
            .and_then(|annotations| annotations.get(annotation::ROUND))
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// What it says about a node.
    pub fn state_of(&self, node: &NodeView) -> ClaimState {
        match self.nodes.get(&node.name) {
            Some(version) if *version == node.resource_version => ClaimState::Outstanding,
            Some(version) if is_newer(version, &node.resource_version) => ClaimState::Ahead,
            _ => ClaimState::Settled,
        }
    }

    /// Whether a claim that follows this one must keep the node's entry: its assignment may still
    /// be written, or the node has not come back to service. A controller whose watch is late
    /// counts the node by this entry.
    pub fn must_keep(&self, node: &NodeView) -> bool {
        self.nodes.contains_key(&node.name)
            && (self.state_of(node) != ClaimState::Settled || !node.status.is_done())
    }

    pub fn to_annotation(&self) -> String {
        // A map of strings always serializes.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Whether the version `one` is newer than `other`.
///
/// Source: resource versions of one resource are decimal and comparable (KEP-5504). Others, which
/// no Kubernetes sends, never are.
fn is_newer(one: &str, other: &str) -> bool {
    matches!((one.parse::<u128>(), other.parse::<u128>()), (Ok(one), Ok(other)) if one > other)
}

#[cfg(test)]
mod annotation_tests {
    use super::*;

    #[test]
    fn a_printed_claim_reads_as_the_same() {
        let claim = RoundClaim {
            target: "rendered-worker-2".to_owned(),
            nodes: BTreeMap::from([("a".to_owned(), "17".to_owned())]),
            rejected: BTreeMap::from([("worker".to_owned(), "rendered-worker-1".to_owned())]),
            seen: BTreeMap::from([(
                "worker".to_owned(),
                StepSeen {
                    config: "rendered-worker-2".to_owned(),
                    step: 1,
                    since: crate::fixture::NOW,
                },
            )]),
        };
        let annotations = BTreeMap::from([(annotation::ROUND.to_owned(), claim.to_annotation())]);
        assert_eq!(RoundClaim::read(Some(&annotations)), claim);
    }

    #[test]
    fn annotations_in_another_format_claim_nothing() {
        for text in ["", "7", "{}", "[1]"] {
            let annotations = BTreeMap::from([(annotation::ROUND.to_owned(), text.to_owned())]);
            assert_eq!(
                RoundClaim::read(Some(&annotations)),
                RoundClaim::default(),
                "{text}"
            );
        }
        assert_eq!(RoundClaim::read(None), RoundClaim::default());
    }
}

#[cfg(test)]
mod tests;
