//! Assignments that were claimed and may not be visible on their nodes yet.
//!
//! The order of reads and guarded writes keeps the budget, without a clock and without trust in the
//! lease: see `docs/protocols/round.md` and `docs/decisions/0007-rounds-are-claimed.md`.

use std::collections::BTreeMap;

use api::machineconfiguration::annotation;
use serde::{Deserialize, Serialize};

use crate::node::NodeView;

/// The claim in a pool's annotation [`annotation::ROUND`].
///
/// Shape: JSON, `{"target": "rendered-…", "nodes": {"<name>": "<resourceVersion>"}}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundClaim {
    /// Configuration that the nodes are assigned.
    pub target: String,
    /// The nodes, each with the version of the object that the decision read.
    pub nodes: BTreeMap<String, String>,
}

impl RoundClaim {
    /// Reads the annotation of a pool. Absent or in another format: an empty claim.
    pub fn read(annotations: Option<&BTreeMap<String, String>>) -> Self {
        annotations
            .and_then(|annotations| annotations.get(annotation::ROUND))
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// Whether a controller that claimed this node may still assign it.
    pub fn is_outstanding(&self, node: &NodeView) -> bool {
        self.nodes
            .get(&node.name)
            .is_some_and(|version| *version == node.resource_version)
    }

    /// The annotation's value.
    pub fn to_annotation(&self) -> String {
        // A map of strings always serializes.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod annotation_tests {
    use super::*;

    #[test]
    fn a_printed_claim_reads_as_the_same() {
        let claim = RoundClaim {
            target: "rendered-worker-2".to_owned(),
            nodes: BTreeMap::from([("a".to_owned(), "17".to_owned())]),
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
