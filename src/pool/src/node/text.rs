//! The text of a Node, read narrowly.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::{ClusterResourceScope, Metadata, Resource};
use serde::{Deserialize, Deserializer};

/// A Node of which only what [`NodeView`](super::NodeView) needs is read. The rest, images and
/// managed fields above all, is nine tenths of the text; it is passed over, because each heartbeat
/// of each kubelet brings it again.
#[derive(Debug, Clone, PartialEq)]
pub struct NarrowNode(pub Node);

impl Resource for NarrowNode {
    type Scope = ClusterResourceScope;

    const API_VERSION: &'static str = <Node as Resource>::API_VERSION;
    const GROUP: &'static str = <Node as Resource>::GROUP;
    const KIND: &'static str = <Node as Resource>::KIND;
    const URL_PATH_SEGMENT: &'static str = <Node as Resource>::URL_PATH_SEGMENT;
    const VERSION: &'static str = <Node as Resource>::VERSION;
}

impl Metadata for NarrowNode {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}

impl<'de> Deserialize<'de> for NarrowNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::deserialize(deserializer)?;
        let metadata = text.metadata;
        let metadata = ObjectMeta {
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            creation_timestamp: metadata.creation_timestamp,
            labels: metadata.labels,
            annotations: metadata.annotations,
            ..ObjectMeta::default()
        };
        let spec = text.spec.map(|spec| NodeSpec {
            taints: spec.taints,
            unschedulable: spec.unschedulable,
            ..NodeSpec::default()
        });
        let conditions = text.status.and_then(|status| status.conditions);
        let status = conditions.map(|conditions| NodeStatus {
            conditions: Some(conditions.into_iter().map(ConditionText::read).collect()),
            ..NodeStatus::default()
        });
        Ok(Self(Node {
            metadata,
            spec,
            status,
        }))
    }
}

#[derive(Deserialize)]
struct Text {
    metadata: MetadataText,
    spec: Option<SpecText>,
    status: Option<StatusText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataText {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct SpecText {
    taints: Option<Vec<Taint>>,
    unschedulable: Option<bool>,
}

#[derive(Deserialize)]
struct StatusText {
    conditions: Option<Vec<ConditionText>>,
}

#[derive(Deserialize)]
struct ConditionText {
    r#type: String,
    status: String,
}

impl ConditionText {
    fn read(self) -> NodeCondition {
        NodeCondition {
            type_: self.r#type,
            status: self.status,
            ..NodeCondition::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::node::NodeView;

    #[test]
    fn a_node_read_narrowly_has_the_view_of_the_whole() {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "a", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": "2026-11-21T19:00:00Z", "labels": { "kubernetes.io/os": "windows" },
                "annotations": {
                    "machineconfiguration.openshift.io/currentConfig": "rendered-1",
                    "machineconfiguration.openshift.io/firstPivotConfig": "rendered-0",
                },
                "managedFields": [{ "manager": "kubelet", "fieldsV1": { "f:status": { "f:images": {} } } }],
            },
            "spec": {
                "unschedulable": true, "providerID": "none",
                "taints": [{ "key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "2026-11-21T19:00:00Z" }],
            },
            "status": {
                "conditions": [
                    { "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-21T19:00:00Z" },
                    { "type": "DiskPressure", "status": "Unknown" },
                ],
                "images": [{ "names": ["x"], "sizeBytes": 1 }],
            },
        });
        for node in [node, json!({ "metadata": { "name": "bare" } })] {
            let text = node.to_string();
            let whole: Node = serde_json::from_str(&text).unwrap();
            let NarrowNode(narrow) = serde_json::from_str(&text).unwrap();
            assert_eq!(NodeView::parse(narrow), NodeView::parse(whole));
        }
    }

    #[test]
    fn what_is_no_node_is_an_error() {
        for text in ["[]", "{}", r#"{"metadata": {"labels": 1}}"#] {
            serde_json::from_str::<NarrowNode>(text).unwrap_err();
        }
    }
}
