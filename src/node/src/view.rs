//! What is read of a Node: names, annotations, whether it takes pods, and whether its kubelet says
//! Ready.

use std::collections::BTreeMap;

use api::machineconfiguration::label;
use cluster::cache::is_newer;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

/// A Node as it was last read.
///
/// Shape: of the object's ten thousand bytes, the few that matter here; images, addresses and
/// managed fields are never kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// Whether a label gives it a role of the control plane.
    pub is_control_plane: bool,
    /// `spec.unschedulable`: cordoned.
    pub unschedulable: bool,
    /// The `Ready` condition, if there is one.
    pub ready: Option<Ready>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Whether its status is `True`.
    pub is_true: bool,
    /// `lastHeartbeatTime`: when the kubelet last reported it.
    pub heartbeat: Option<Timestamp>,
}

impl Node {
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// Whether a kubelet that reported after `since` says Ready. A Node stays Ready for a while
    /// after its kubelet is gone, so an older word says nothing.
    ///
    /// The API server keeps whole seconds, so the second of `since` itself counts: its next report
    /// may be half a minute away.
    pub fn is_ready_since(&self, since: Timestamp) -> bool {
        self.ready.as_ref().is_some_and(|ready| {
            let heartbeat = ready.heartbeat.map(Timestamp::as_second);
            ready.is_true && heartbeat.is_some_and(|heartbeat| heartbeat >= since.as_second())
        })
    }

    /// Whether `self` was read at the same state as `other` or a later one.
    ///
    /// Versions that do not compare, which no Kubernetes sends, count as later, so that a reader
    /// never gets stuck.
    pub fn is_as_new_as(&self, other: &Self) -> bool {
        !is_newer(&other.resource_version, &self.resource_version)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Wire {
            metadata,
            spec,
            status,
        } = Wire::deserialize(deserializer)?;
        let ready = status
            .conditions
            .into_iter()
            .find(|condition| condition.kind == "Ready")
            .map(|condition| Ready {
                is_true: condition.status == "True",
                heartbeat: condition.last_heartbeat_time,
            });
        Ok(Self {
            is_control_plane: label::is_control_plane(metadata.labels.keys()),
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            annotations: metadata.annotations,
            unschedulable: spec.unschedulable,
            ready,
        })
    }
}

#[derive(Deserialize)]
struct Wire {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
struct Spec {
    #[serde(default)]
    unschedulable: bool,
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    last_heartbeat_time: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(ready: &str, heartbeat: &str, version: &str) -> Node {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "n", "uid": "u", "resourceVersion": version, "annotations": {"a": "b"}, "labels": {"node-role.kubernetes.io/master": ""}},
            "spec": {"unschedulable": true, "podCIDR": "10.0.0.0/24"},
            "status": {"conditions": [
                {"type": "DiskPressure", "status": "False", "lastHeartbeatTime": heartbeat},
                {"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat},
            ], "images": [{"names": ["x"], "sizeBytes": 1}]},
        }))
        .unwrap()
    }

    #[test]
    fn a_whole_object_is_read_narrowly() {
        let node = node("True", "2026-11-21T19:00:00Z", "7");
        assert_eq!((node.name.as_str(), node.uid.as_str()), ("n", "u"));
        assert_eq!(node.annotation("a"), Some("b"));
        assert!(node.unschedulable && node.is_control_plane);
    }

    /// Pools and nodes that every reader of Nodes has to sort alike.
    const CASES: &str = include_str!("../../../tests/fixtures/placement.json");

    #[test]
    fn role_and_readiness_of_each_node_are_those_that_all_readers_tell() {
        let cases: serde_json::Value = serde_json::from_str(CASES).unwrap();
        for case in cases["nodes"].as_array().unwrap() {
            let node: Node = serde_json::from_value(case["object"].clone()).unwrap();
            let expected = &case["expected"];
            let is_unready = |why: &str| {
                expected["unready"]
                    .as_array()
                    .unwrap()
                    .contains(&json!(why))
            };
            let role = node.is_control_plane;
            assert_eq!(json!(role), expected["isControlPlane"], "{}", node.name);
            assert_eq!(node.unschedulable, is_unready("cordoned"), "{}", node.name);
            let is_ready = node.ready.is_some_and(|ready| ready.is_true);
            assert_eq!(is_ready, !is_unready("not ready"), "{}", node.name);
        }
    }

    #[test]
    fn a_bare_object_is_read() {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
        assert!(!node.unschedulable && !node.is_control_plane && node.ready.is_none());
    }

    #[test]
    fn an_old_word_of_the_kubelet_is_not_ready() {
        let since = "2026-11-21T18:59:59Z".parse().unwrap();
        assert!(node("True", "2026-11-21T19:00:00Z", "7").is_ready_since(since));
        assert!(!node("True", "2026-11-21T18:00:00Z", "7").is_ready_since(since));
        assert!(!node("Unknown", "2026-11-21T19:00:00Z", "7").is_ready_since(since));
    }

    #[test]
    fn a_word_of_the_same_second_is_ready() {
        let since = "2026-11-21T19:00:00.9Z".parse().unwrap();
        assert!(node("True", "2026-11-21T19:00:00Z", "7").is_ready_since(since));
        assert!(!node("True", "2026-11-21T18:59:59Z", "7").is_ready_since(since));
    }

    #[test]
    fn versions_compare_as_numbers() {
        let at = |version| node("True", "2026-11-21T19:00:00Z", version);
        assert!(at("10").is_as_new_as(&at("9")));
        assert!(!at("9").is_as_new_as(&at("10")));
        assert!(at("x").is_as_new_as(&at("10")));
    }
}
