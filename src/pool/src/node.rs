//! A Node as this crate sees it, parsed once.
//!
//! - `protobuf`: how much of it is read

mod protobuf;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::BuildHasher;

use api::machineconfiguration::{NodeHold, NodeStatus, annotation, label};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use prost::bytes::Bytes;
use prost::{DecodeError, Message as _};

/// What is read of a Node.
///
/// Source: Node object; its annotations as [`NodeStatus`] reads them.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeView {
    pub name: String,
    /// Version of the object that was read; a write that carries it fails if the object has changed
    /// since.
    pub resource_version: String,
    /// Unique id; a node deleted and made again under its name has another.
    pub uid: String,
    /// When the object was made.
    pub created: Option<Timestamp>,
    /// Whether the object is being deleted.
    pub is_deleted: bool,
    pub labels: BTreeMap<String, String>,
    /// Taints, in the object's order.
    pub taints: Vec<Taint>,
    /// What its annotations say of its update.
    pub status: NodeStatus,
    /// The configuration that provisioning wrote, until the labels of its custom pool are set.
    pub initial_config: Option<String>,
    /// The configuration that the machine was installed with.
    pub first_config: Option<String>,
    /// Why it cannot take work; empty when it is ready.
    pub unready: Vec<Unready>,
    /// What it could not be drained for within the limit, as the annotation says it.
    pub quarantined: Option<String>,
    /// Why a person keeps it out of the rollout, if one does.
    pub hold: Option<NodeHold>,
    /// The certificates that the controller announced on it.
    pub certificates: Option<String>,
    /// Version of its kubelet, as that reports it (`v1.34.2`); empty where it does not.
    pub kubelet_version: String,
}

/// Why a node cannot take work.
///
/// Source: `status.conditions` and `spec.unschedulable` of the Node, as upstream's node controller
/// reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unready {
    /// `Ready` is not `True`, or the kubelet has not reported it.
    NotReady,
    /// `DiskPressure` is not `False`.
    DiskPressure,
    /// `NetworkUnavailable` is not `False`.
    NetworkUnavailable,
    Unschedulable,
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotReady => "not ready",
            Self::DiskPressure => "under disk pressure",
            Self::NetworkUnavailable => "without network",
            Self::Unschedulable => "cordoned",
        })
    }
}

impl NodeView {
    /// Reads a Node in its protobuf form.
    ///
    /// # Errors
    /// The bytes are no such message.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let node = protobuf::Node::decode(bytes)?;
        Ok(Self::parse(node.into()))
    }

    /// Reads of a Node in that form its name, its version, and a hash of 64 bits of the rest:
    /// different content collides with probability 2⁻⁶⁴.
    ///
    /// # Errors
    /// The bytes are no such message.
    pub fn head(
        bytes: &[u8],
        hasher: &impl BuildHasher,
    ) -> Result<(String, String, u64), DecodeError> {
        protobuf::head(bytes, hasher)
    }

    pub fn parse(node: Node) -> Self {
        let metadata = node.metadata;
        let annotations = metadata.annotations.unwrap_or_default();
        let is_labelled = annotations.contains_key(annotation::CUSTOM_POOL_LABELS_APPLIED);
        let first_config = annotations.get(annotation::FIRST_PIVOT_CONFIG);
        let quarantined = annotations.get(annotation::QUARANTINED).cloned();
        let certificates = annotations.get(annotation::CERTIFICATES).cloned();
        let hold = annotations.get(annotation::HOLD).cloned().map(NodeHold);
        let first_config = first_config.filter(|config| !config.is_empty()).cloned();
        Self {
            status: NodeStatus::read(&annotations),
            initial_config: first_config.clone().filter(|_| !is_labelled),
            first_config,
            quarantined,
            hold,
            certificates,
            unready: unready(node.spec.as_ref(), node.status.as_ref()),
            kubelet_version: node
                .status
                .and_then(|status| status.node_info)
                .map(|info| info.kubelet_version)
                .unwrap_or_default(),
            taints: node.spec.and_then(|spec| spec.taints).unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            created: metadata.creation_timestamp.map(|time| time.0),
            is_deleted: metadata.deletion_timestamp.is_some(),
            labels: metadata.labels.unwrap_or_default(),
        }
    }

    /// Whether both are alike but for the version: a kubelet's heartbeat changes nothing that is
    /// read.
    pub fn has_same_content(&self, other: &Self) -> bool {
        let Self {
            name,
            resource_version: _,
            uid,
            created,
            is_deleted,
            labels,
            taints,
            status,
            initial_config,
            first_config,
            unready,
            quarantined,
            hold,
            certificates,
            kubelet_version,
        } = self;
        *name == other.name
            && *uid == other.uid
            && *created == other.created
            && *is_deleted == other.is_deleted
            && *labels == other.labels
            && *taints == other.taints
            && *status == other.status
            && *initial_config == other.initial_config
            && *first_config == other.first_config
            && *unready == other.unready
            && *quarantined == other.quarantined
            && *hold == other.hold
            && *certificates == other.certificates
            && *kubelet_version == other.kubelet_version
    }

    /// Whether it runs Windows; such nodes are never managed.
    pub fn is_windows(&self) -> bool {
        is_windows(&self.labels)
    }

    /// Whether a label makes it a member of the control plane.
    pub fn is_control_plane(&self) -> bool {
        label::is_control_plane(self.labels.keys())
    }

    pub fn zone(&self) -> Option<&str> {
        self.labels.get(label::ZONE).map(String::as_str)
    }

    /// Whether it can take work.
    pub fn is_ready(&self) -> bool {
        self.unready.is_empty()
    }

    /// Whether the rollout passes it over: it could not be drained, and an administrator has not
    /// uncordoned it since. It runs its pods, and is asked for nothing.
    pub fn is_quarantined(&self) -> bool {
        self.quarantined.is_some()
            && self.unready == [Unready::Unschedulable]
            && !self.status.has_pending_target()
    }

    /// Whether it counts against the pool's budget: not ready, or an update is under way.
    ///
    /// The assignment counts, not the daemon's report: a node is out of service from its
    /// assignment.
    pub fn is_out_of_service(&self) -> bool {
        !self.is_ready() || (!self.status.is_done() && !self.status.is_failing())
    }
}

pub(crate) fn is_windows(labels: &BTreeMap<String, String>) -> bool {
    labels.get(label::OS).is_some_and(|os| os == "windows")
}

fn unready(
    spec: Option<&k8s_openapi::api::core::v1::NodeSpec>,
    status: Option<&k8s_openapi::api::core::v1::NodeStatus>,
) -> Vec<Unready> {
    let conditions = status
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    let of = |r#type: &str| {
        conditions
            .iter()
            .find(|condition| condition.type_ == r#type)
            .map(|condition| condition.status.as_str())
    };
    let mut unready = Vec::new();
    if of("Ready") != Some("True") {
        unready.push(Unready::NotReady);
    }
    if of("DiskPressure").is_some_and(|status| status != "False") {
        unready.push(Unready::DiskPressure);
    }
    if of("NetworkUnavailable").is_some_and(|status| status != "False") {
        unready.push(Unready::NetworkUnavailable);
    }
    if spec.and_then(|spec| spec.unschedulable) == Some(true) {
        unready.push(Unready::Unschedulable);
    }
    unready
}

#[cfg(test)]
mod tests;
