//! How far the nodes of a pool are with its pinned image sets.

use api::machineconfiguration::MachineConfigPool;
use api::machineconfiguration::machine_config_pool::PoolSynchronizerStatus;
use pool::node::NodeView;
use pool::pins;
use serde::Serialize;

use crate::decide::blocks::first_line;

/// How many nodes a line names with their reasons.
const NAMED: usize = 3;

/// How far the nodes of a pool are with its pinned image sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PoolPinProgress {
    /// Names of the sets.
    sets: Vec<String>,
    /// Nodes of the pool, and those that have all images, as the controller counted them; none
    /// before it did.
    counts: Option<PinCounts>,
    /// Nodes that report why they do not have them.
    failed: Vec<NodePinFailure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct PinCounts {
    nodes: i64,
    pinned: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodePinFailure {
    name: String,
    why: String,
}

impl PoolPinProgress {
    /// None for a pool without sets.
    pub(super) fn of(pool: &MachineConfigPool, members: &[&NodeView]) -> Option<Self> {
        let sets = pool.spec.pinned_image_sets.iter();
        let sets: Vec<String> = sets.map(|set| set.name.clone()).collect();
        if sets.is_empty() {
            return None;
        }
        let status = pool.status.iter();
        let mut reported = status.flat_map(|status| &status.pool_synchronizers_status);
        let counts = reported
            .find(|it| it.pool_synchronizer_type == PoolSynchronizerStatus::PINNED_IMAGE_SETS)
            .map(|it| PinCounts {
                nodes: it.machine_count,
                pinned: it.updated_machine_count,
            });
        let failed = members.iter().filter_map(|node| {
            Some(NodePinFailure {
                name: node.name.clone(),
                why: pins::failure(node)?,
            })
        });
        let mut failed: Vec<NodePinFailure> = failed.collect();
        failed.sort_by(|one, other| one.name.cmp(&other.name));
        Some(Self {
            sets,
            counts,
            failed,
        })
    }

    /// Whether nodes lack images, or may do so.
    pub(super) fn is_under_way(&self) -> bool {
        let is_done = self
            .counts
            .is_some_and(|counts| counts.pinned >= counts.nodes);
        !is_done || self.has_failed()
    }

    /// Whether a node reports why it does not have them.
    pub(super) const fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Counts, then what nodes report: `3 of 5 nodes have them; w2: NoRoom: …`.
    pub(super) fn text(&self) -> String {
        let counts = self.counts.map_or_else(
            || "not counted by the controller yet".to_owned(),
            |counts| format!("{} of {} nodes have them", counts.pinned, counts.nodes),
        );
        let named = self.failed.iter().take(NAMED);
        let named = named.map(|failed| format!("{}: {}", failed.name, first_line(&failed.why)));
        let more = self.failed.len().saturating_sub(NAMED);
        let more = (more > 0).then(|| format!("and {more} more"));
        let parts: Vec<String> = std::iter::once(counts).chain(named).chain(more).collect();
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use api::machineconfiguration::annotation::{CURRENT_PINS, DESIRED_PINS, NOT_PINNED};
    use serde_json::{Value, json};

    use super::super::tests;
    use super::*;

    fn node(name: &str, annotations: &Value) -> NodeView {
        let node = json!({ "metadata": { "name": name, "annotations": annotations } });
        NodeView::parse(serde_json::from_value(node).unwrap())
    }

    fn progress(spec: &Value, status: &Value, nodes: &[NodeView]) -> Option<String> {
        let pool = tests::pool("worker", spec, status);
        let nodes: Vec<&NodeView> = nodes.iter().collect();
        PoolPinProgress::of(&pool, &nodes).map(|progress| progress.text())
    }

    #[test]
    fn nodes_that_report_a_reason_are_named_and_the_others_counted() {
        let sets = json!({ "pinnedImageSets": [{ "name": "edge" }] });
        let counts = json!({ "poolSynchronizersStatus": [{
            "poolSynchronizerType": "PinnedImageSets", "machineCount": 5, "updatedMachineCount": 3, "readyMachineCount": 3,
            "availableMachineCount": 5, "unavailableMachineCount": 0
        }] });
        assert_eq!(progress(&json!({}), &counts, &[]), None);
        let unseen = progress(&sets, &json!({}), &[]);
        assert_eq!(unseen.as_deref(), Some("not counted by the controller yet"));
        let failing = |name| {
            node(
                name,
                &json!({ DESIRED_PINS: "edge=2.aa", NOT_PINNED: "NoRoom: set edge lacks 5 bytes\nmore" }),
            )
        };
        let done = json!({ DESIRED_PINS: "edge=2.aa", CURRENT_PINS: "edge=2.aa", NOT_PINNED: "Failed: old" });
        let nodes = [failing("w2"), node("w1", &done)];
        assert_eq!(
            progress(&sets, &counts, &nodes).unwrap(),
            "3 of 5 nodes have them; w2: NoRoom: set edge lacks 5 bytes..."
        );
        let nodes = ["e", "d", "c", "b", "a"].map(failing);
        let text = progress(&sets, &counts, &nodes).unwrap();
        assert!(
            text.contains("; a: NoRoom") && text.ends_with("; and 2 more"),
            "{text}"
        );
    }
}
