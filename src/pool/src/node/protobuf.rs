//! A Node in the API server's protobuf form, read narrowly.
//!
//! Source: `generated.proto` of `k8s.io/api/core/v1` and of `k8s.io/apimachinery/pkg/apis/meta/v1`.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use prost::Message;
use prost::bytes::Bytes;

/// Of a Node only what [`NodeView`](super::NodeView) needs. The rest, images and managed fields
/// above all, is nine tenths of it; it is passed over, because each heartbeat of each kubelet
/// brings it again.
#[derive(Message)]
pub(super) struct Node {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    spec: Option<NodeSpec>,
    #[prost(message, optional, tag = "3")]
    status: Option<NodeStatus>,
}

#[derive(Message)]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(message, optional, tag = "8")]
    creation_timestamp: Option<Time>,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    annotations: BTreeMap<String, String>,
}

#[derive(Message)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Message)]
struct NodeSpec {
    #[prost(bool, tag = "4")]
    unschedulable: bool,
    #[prost(message, repeated, tag = "5")]
    taints: Vec<Taint>,
}

#[derive(Message)]
struct Taint {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
    #[prost(string, tag = "3")]
    effect: String,
    #[prost(message, optional, tag = "4")]
    time_added: Option<Time>,
}

#[derive(Message)]
struct NodeStatus {
    #[prost(message, repeated, tag = "4")]
    conditions: Vec<NodeCondition>,
}

#[derive(Message)]
struct NodeCondition {
    #[prost(string, tag = "1")]
    r#type: String,
    #[prost(string, tag = "2")]
    status: String,
}

/// Of a Node what [`Node`] has, and whether it has changed. Nothing is copied but name and version.
#[derive(Message)]
pub(super) struct NodeHead {
    #[prost(message, optional, tag = "1")]
    metadata: Option<MetadataHead>,
    #[prost(bytes = "bytes", tag = "2")]
    spec: Bytes,
    #[prost(message, optional, tag = "3")]
    status: Option<StatusHead>,
}

#[derive(Message)]
struct MetadataHead {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "bytes", tag = "5")]
    uid: Bytes,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(bytes = "bytes", tag = "8")]
    creation_timestamp: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "11")]
    labels: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "12")]
    annotations: Vec<Bytes>,
}

#[derive(Message, Hash)]
struct StatusHead {
    #[prost(message, repeated, tag = "4")]
    conditions: Vec<ConditionHead>,
}

#[derive(Message, Hash)]
struct ConditionHead {
    #[prost(bytes = "bytes", tag = "1")]
    r#type: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    status: Bytes,
}

impl NodeHead {
    /// Name, version, and a number that is another one where anything else differs that [`Node`]
    /// reads.
    pub(super) fn read(self, hasher: &impl BuildHasher) -> (String, String, u64) {
        let metadata = self.metadata.unwrap_or_default();
        let content = hasher.hash_one((
            &metadata.uid,
            &metadata.creation_timestamp,
            &metadata.labels,
            &metadata.annotations,
            &self.spec,
            &self.status,
        ));
        (metadata.name, metadata.resource_version, content)
    }
}

impl From<Node> for core::Node {
    fn from(node: Node) -> Self {
        let spec = node.spec.map(|spec| core::NodeSpec {
            unschedulable: Some(spec.unschedulable),
            taints: Some(spec.taints.into_iter().map(Taint::read).collect()),
            ..core::NodeSpec::default()
        });
        let status = node.status.map(|status| core::NodeStatus {
            conditions: Some(
                status
                    .conditions
                    .into_iter()
                    .map(NodeCondition::read)
                    .collect(),
            ),
            ..core::NodeStatus::default()
        });
        let metadata = node.metadata.unwrap_or_default();
        Self {
            metadata: meta::ObjectMeta {
                name: Some(metadata.name),
                uid: Some(metadata.uid),
                resource_version: Some(metadata.resource_version),
                creation_timestamp: metadata.creation_timestamp.and_then(Time::read),
                labels: Some(metadata.labels),
                annotations: Some(metadata.annotations),
                ..meta::ObjectMeta::default()
            },
            spec,
            status,
        }
    }
}

impl Time {
    /// None where it is out of the range of years that are written with four digits.
    fn read(self) -> Option<meta::Time> {
        Timestamp::new(self.seconds, self.nanos)
            .ok()
            .map(meta::Time)
    }
}

impl Taint {
    fn read(self) -> core::Taint {
        core::Taint {
            key: self.key,
            value: Some(self.value).filter(|value| !value.is_empty()),
            effect: self.effect,
            time_added: self.time_added.and_then(Time::read),
        }
    }
}

impl NodeCondition {
    fn read(self) -> core::NodeCondition {
        core::NodeCondition {
            type_: self.r#type,
            status: self.status,
            ..core::NodeCondition::default()
        }
    }
}

#[cfg(test)]
mod tests;
