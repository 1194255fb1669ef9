//! Changes of a node, as the audit log shows them: what was asked for, until it was done. Pure.

use api::machineconfiguration::{NodeState, annotation};
use jiff::Timestamp;
use lab::audit::nodes::NodeSnapshot;

/// One change of one node, from the write of its new `desiredConfig` to the write that says Done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Name of the configuration.
    pub(crate) config: String,
    /// When `desiredConfig` was written.
    pub(crate) assigned: Timestamp,
    /// When `state` Done with `currentConfig` was.
    pub(crate) done: Timestamp,
}

impl Change {
    /// Milliseconds it took.
    pub(crate) fn ms(&self) -> f64 {
        ms(self.assigned, self.done)
    }
}

/// All changes that a node has done, in order, given its states in order. One that was replaced by
/// another target before it was done is none.
pub(crate) fn changes(history: &[NodeSnapshot]) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut desired = "";
    let mut assigned = None;
    for state in history {
        let value = |key| state.annotations.get(key).map_or("", String::as_str);
        if value(annotation::DESIRED_CONFIG) != desired {
            desired = value(annotation::DESIRED_CONFIG);
            assigned = Some(state.at);
        }
        let is_done = value(annotation::CURRENT_CONFIG) == desired
            && value(annotation::STATE) == NodeState::Done.as_str();
        if let Some(assigned) = assigned.take_if(|_| is_done && !desired.is_empty()) {
            let config = desired.to_owned();
            changes.push(Change {
                config,
                assigned,
                done: state.at,
            });
        }
    }
    changes
}

/// Milliseconds between two moments.
pub(crate) fn ms(from: Timestamp, until: Timestamp) -> f64 {
    until.duration_since(from).as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lab::audit::Version;

    use super::*;

    fn state(version: u64, desired: &str, current: &str, word: &str) -> NodeSnapshot {
        NodeSnapshot {
            version: Version(version),
            at: Timestamp::from_millisecond(1_800_000_000_000 + version.cast_signed()).unwrap(),
            user: String::new(),
            is_unschedulable: false,
            is_ready: true,
            annotations: BTreeMap::from([
                (annotation::DESIRED_CONFIG.to_owned(), desired.to_owned()),
                (annotation::CURRENT_CONFIG.to_owned(), current.to_owned()),
                (annotation::STATE.to_owned(), word.to_owned()),
            ]),
        }
    }

    #[test]
    fn a_change_lasts_from_the_wish_to_done() {
        let history = [
            state(1, "a", "a", "Done"),
            state(5, "b", "a", "Done"),
            state(10, "b", "a", "Working"),
            state(405, "b", "b", "Done"),
            state(500, "b", "b", "Done"),
            state(600, "c", "b", "Working"),
            state(700, "d", "b", "Working"),
            state(950, "d", "d", "Done"),
            state(999, "e", "d", "Degraded"),
        ];
        let changes = changes(&history);
        let brief: Vec<_> = changes
            .iter()
            .map(|change| (change.config.as_str(), change.ms()))
            .collect();
        assert_eq!(brief, [("a", 0.0), ("b", 400.0), ("d", 250.0)]);
    }

    #[test]
    fn a_node_that_is_asked_for_nothing_has_done_nothing() {
        assert_eq!(changes(&[state(1, "", "", "Done")]), []);
    }
}
