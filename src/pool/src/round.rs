//! Assignments that were claimed and may not be visible on their nodes yet.
//!
//! The order of reads and guarded writes keeps the budget, without a clock and without trust in the
//! lease: see `docs/protocols/round.md` and `docs/decisions/0007-rounds-are-claimed.md`.

use std::collections::BTreeMap;

use api::annotation;
use serde::{Deserialize, Serialize};

use crate::node::NodeView;

/// The claim in a pool's annotation [`annotation::ROUND`].
///
/// Shape: JSON, `{"target": "rendered-…", "nodes": {"<name>": "<resourceVersion>"}}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Configuration that the nodes are told.
    pub target: String,
    /// The nodes, each with the version of the object that the decision read.
    pub nodes: BTreeMap<String, String>,
}

impl Round {
    /// Reads the annotation of a pool. Nothing claimed, or nothing that we wrote: an empty round.
    pub fn read(annotations: Option<&BTreeMap<String, String>>) -> Self {
        annotations
            .and_then(|annotations| annotations.get(annotation::ROUND))
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// Whether somebody who claimed this node may still tell it.
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
    fn printing_and_reading_give_back_the_same() {
        let round = Round {
            target: "rendered-worker-2".to_owned(),
            nodes: BTreeMap::from([("a".to_owned(), "17".to_owned())]),
        };
        let annotations = BTreeMap::from([(annotation::ROUND.to_owned(), round.to_annotation())]);
        assert_eq!(Round::read(Some(&annotations)), round);
    }

    #[test]
    fn what_others_wrote_claims_nothing() {
        for text in ["", "7", "{}", "[1]"] {
            let annotations = BTreeMap::from([(annotation::ROUND.to_owned(), text.to_owned())]);
            assert_eq!(Round::read(Some(&annotations)), Round::default(), "{text}");
        }
        assert_eq!(Round::read(None), Round::default());
    }
}

#[cfg(test)]
mod tests;
