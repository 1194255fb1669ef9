//! A Node as this crate sees it, parsed once.

use std::collections::BTreeMap;
use std::fmt;

use api::machineconfiguration::{NodeState, annotation, label};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};

/// What is read of a Node.
///
/// Shape: annotations that are absent or empty read as `None`.
/// Source: Node object; `machineconfiguration.openshift.io` annotations.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeView {
    /// Name.
    pub name: String,
    /// Version of the object that was read; a write that carries it fails if the object has changed since.
    pub resource_version: String,
    /// Unique id; a node deleted and made again under its name has another.
    pub uid: String,
    /// When the object was made.
    pub created: Option<Timestamp>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Taints, in the object's order.
    pub taints: Vec<Taint>,
    /// Configuration in force.
    pub current_config: Option<String>,
    /// Configuration that the node was assigned.
    pub desired_config: Option<String>,
    /// Layered image in force.
    pub current_image: Option<String>,
    /// Layered image that the node was assigned.
    pub desired_image: Option<String>,
    /// The state that its daemon reports.
    pub state: NodeState,
    /// The reason that its daemon reports.
    pub reason: String,
    /// What its daemon waits for.
    pub waits_for: Option<String>,
    /// Topology of the control plane as the daemon reads it.
    pub topology: Option<String>,
    /// The configuration that provisioning wrote, until the labels of its custom pool are set.
    pub initial_config: Option<String>,
    /// Why it cannot take work; empty when it is ready.
    pub unready: Vec<Unready>,
}

/// Why a node cannot take work.
///
/// Source: `status.conditions` and `spec.unschedulable` of the Node, as upstream's node controller reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unready {
    /// `Ready` is not `True`, or the kubelet has not reported it.
    NotReady,
    /// `DiskPressure` is not `False`.
    DiskPressure,
    /// `NetworkUnavailable` is not `False`.
    NetworkUnavailable,
    /// Cordoned.
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
    /// Reads a Node.
    pub fn parse(node: Node) -> Self {
        let metadata = node.metadata;
        let mut annotations = metadata.annotations.unwrap_or_default();
        let is_labelled = annotations.contains_key(annotation::CUSTOM_POOL_LABELS_APPLIED);
        let mut take = |key: &str| annotations.remove(key).filter(|value| !value.is_empty());
        let state = take(annotation::STATE);
        Self {
            current_config: take(annotation::CURRENT_CONFIG),
            desired_config: take(annotation::DESIRED_CONFIG),
            current_image: take(annotation::CURRENT_IMAGE),
            desired_image: take(annotation::DESIRED_IMAGE),
            state: NodeState::read(state.as_deref()),
            reason: take(annotation::REASON).unwrap_or_default(),
            waits_for: take(annotation::WAITS_FOR),
            topology: take(annotation::CONTROL_PLANE_TOPOLOGY),
            initial_config: take(annotation::FIRST_PIVOT_CONFIG).filter(|_| !is_labelled),
            unready: unready(node.spec.as_ref(), node.status.as_ref()),
            taints: node.spec.and_then(|spec| spec.taints).unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            created: metadata.creation_timestamp.map(|time| time.0),
            labels: metadata.labels.unwrap_or_default(),
        }
    }

    /// Whether it runs Windows; such nodes are never managed.
    pub fn is_windows(&self) -> bool {
        self.labels.get(label::OS).is_some_and(|os| os == "windows")
    }

    /// Failure domain.
    pub fn zone(&self) -> Option<&str> {
        self.labels.get(label::ZONE).map(String::as_str)
    }

    /// Whether it can take work.
    pub fn is_ready(&self) -> bool {
        self.unready.is_empty()
    }

    /// Whether its daemon reports Done in the assigned configuration and image.
    pub fn is_done(&self) -> bool {
        self.current_config.is_some() && !self.has_pending_target() && self.state == NodeState::Done
    }

    /// Whether it was assigned a configuration or image that is not in force.
    pub fn has_pending_target(&self) -> bool {
        self.current_config != self.desired_config || self.current_image != self.desired_image
    }

    /// Whether the update to its assignment failed. It runs its previous configuration and can get
    /// another assignment.
    pub fn is_failing(&self) -> bool {
        self.current_config != self.desired_config && self.state.is_failed()
    }

    /// Whether it counts against the pool's budget: not ready, or an update is under way.
    ///
    /// The assignment counts, not the daemon's report: a node is out of service from its assignment.
    pub fn is_out_of_service(&self) -> bool {
        !self.is_ready() || (!self.is_done() && !self.is_failing())
    }

    /// Whether it was assigned exactly `target`, and no layered image.
    pub fn is_assigned_to(&self, target: &str) -> bool {
        self.desired_config.as_deref() == Some(target) && self.desired_image.is_none()
    }

    /// Whether it runs exactly `target`, verified.
    pub fn is_updated(&self, target: &str) -> bool {
        self.is_done() && self.is_assigned_to(target)
    }
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
