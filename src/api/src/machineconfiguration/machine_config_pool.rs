//! MachineConfigPool: nodes that share a configuration, how many of them may be out at once, and
//! how far they are.

#![expect(
    clippy::duplicated_attributes,
    reason = "each printer column has a type; the lint does not know that they are nested"
)]

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::{self, Listed, words};
use crate::{ConditionStatus, IntOrString, nullable};

/// What a pool selects and how it may be rolled.
///
/// Source: `machineconfigpools.machineconfiguration.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfigPool",
    status = "MachineConfigPoolStatus",
    shortname = "mcp",
    derive = "PartialEq",
    derive = "Default",
    doc = "MachineConfigPool selects nodes and the MachineConfigs that are rendered for them.",
    printcolumn(
        name = "Config",
        type_ = "string",
        json_path = ".status.configuration.name"
    ),
    printcolumn(
        name = "Updated",
        type_ = "string",
        description = "Whether all nodes run the pool's configuration.",
        json_path = ".status.conditions[?(@.type==\"Updated\")].status"
    ),
    printcolumn(
        name = "Updating",
        type_ = "string",
        description = "Whether at least one node is not updated yet.",
        json_path = ".status.conditions[?(@.type==\"Updating\")].status"
    ),
    printcolumn(
        name = "Degraded",
        type_ = "string",
        description = "Whether a node failed, or the configuration cannot be rendered or rolled out.",
        json_path = ".status.conditions[?(@.type==\"Degraded\")].status"
    ),
    printcolumn(
        name = "MachineCount",
        type_ = "number",
        description = "Nodes in the pool.",
        json_path = ".status.machineCount"
    ),
    printcolumn(
        name = "ReadyMachineCount",
        type_ = "number",
        description = "Updated nodes that are ready.",
        json_path = ".status.readyMachineCount"
    ),
    printcolumn(
        name = "UpdatedMachineCount",
        type_ = "number",
        description = "Nodes that run the pool's configuration.",
        json_path = ".status.updatedMachineCount"
    ),
    printcolumn(
        name = "DegradedMachineCount",
        type_ = "number",
        description = "Nodes that report Degraded or Unreconcilable.",
        json_path = ".status.degradedMachineCount"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigPoolSpec {
    /// The rendered configuration that nodes are to reach. Owned by the render controller.
    #[serde(default, skip_serializing_if = "Configuration::is_empty")]
    pub configuration: Configuration,
    /// Selects the MachineConfigs that are rendered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_config_selector: Option<LabelSelector>,
    /// Nodes that may be out of service at once: a number, or a percentage of the pool such as
    /// `10%`. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Selects the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// Stream of OS images; absent: the cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_image_stream: Option<NamedReference>,
    /// Whether no node is given a new configuration. A node already told finishes.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub paused: bool,
    /// Sets of images to keep on the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pinned_image_sets: Vec<NamedReference>,
}

/// A rendered configuration and what it was made from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Configuration {
    /// The rendered MachineConfig; only its name is set.
    #[serde(flatten)]
    pub reference: ObjectReference,
    /// The MachineConfigs it was rendered from.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    pub source: Vec<ObjectReference>,
}

impl Configuration {
    /// Name of the rendered MachineConfig; nothing before the first rendering.
    pub fn name(&self) -> Option<&str> {
        self.reference
            .name
            .as_deref()
            .filter(|name| !name.is_empty())
    }

    /// Whether it names nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Reference to an object of a kind that the field says, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedReference {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// How far a pool is.
///
/// Source: `machineconfigpools.machineconfiguration.openshift.io`, `status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigPoolStatus {
    /// Certificates that the nodes hold, and when they expire.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    pub cert_expirys: Vec<CertificateExpiry>,
    /// What holds about the pool.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub conditions: Vec<PoolCondition>,
    /// The configuration that all nodes run; follows `spec.configuration` once the last of them is
    /// updated.
    #[serde(default, skip_serializing_if = "Configuration::is_empty")]
    pub configuration: Configuration,
    /// Nodes that report `Degraded` or `Unreconcilable`.
    #[serde(default)]
    pub degraded_machine_count: i32,
    /// Nodes in the pool.
    #[serde(default)]
    pub machine_count: i32,
    /// Generation of the pool that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Stream of OS images that all nodes run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_image_stream: Option<NamedReference>,
    /// How far other synchronizers of the pool's nodes are.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["poolSynchronizerType"]))]
    pub pool_synchronizers_status: Vec<PoolSynchronizerStatus>,
    /// Updated nodes that are ready.
    #[serde(default)]
    pub ready_machine_count: i32,
    /// Nodes that are out of service, or on their way.
    #[serde(default)]
    pub unavailable_machine_count: i32,
    /// Nodes that run the pool's configuration.
    #[serde(default)]
    pub updated_machine_count: i32,
}

impl MachineConfigPoolStatus {
    /// The condition of that type.
    pub fn condition(&self, r#type: &PoolConditionType) -> Option<&PoolCondition> {
        condition::find(&self.conditions, r#type)
    }
}

/// Certificate of a bundle, and when it expires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CertificateExpiry {
    /// Bundle in which the certificate lies.
    pub bundle: String,
    /// Subject of the certificate.
    pub subject: String,
    /// From when it is no longer valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<Time>,
}

/// Counters of one synchronizer of a pool's nodes; the only type upstream has is `PinnedImageSets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolSynchronizerStatus {
    /// What is synchronized.
    pub pool_synchronizer_type: String,
    /// Nodes concerned.
    #[schemars(range(min = 0))]
    pub machine_count: i64,
    /// Of these, those synchronized.
    #[schemars(range(min = 0))]
    pub updated_machine_count: i64,
    /// Of these, those ready.
    #[schemars(range(min = 0))]
    pub ready_machine_count: i64,
    /// Of these, those available.
    #[schemars(range(min = 0))]
    pub available_machine_count: i64,
    /// Of these, those not available.
    #[schemars(range(min = 0))]
    pub unavailable_machine_count: i64,
    /// Last generation applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

impl PoolSynchronizerStatus {
    /// The only type that there is.
    pub const PINNED_IMAGE_SETS: &str = "PinnedImageSets";
}

/// A condition of a pool. Older than `metav1.Condition`: `reason` may be empty,
/// `lastTransitionTime` may be null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolCondition {
    /// What it is about.
    #[serde(default)]
    pub r#type: PoolConditionType,
    /// Whether it holds.
    #[serde(default)]
    pub status: ConditionStatus,
    /// When `status` last changed.
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub last_transition_time: Option<Time>,
    /// Why, for programs; often empty.
    #[serde(default)]
    pub reason: PoolConditionReason,
    /// Why, for people.
    #[serde(default)]
    pub message: String,
}

impl Listed for PoolCondition {
    type Type = PoolConditionType;

    fn r#type(&self) -> &PoolConditionType {
        &self.r#type
    }

    fn status(&self) -> ConditionStatus {
        self.status
    }

    fn keep_transition_time(&mut self, present: &Self) {
        self.last_transition_time
            .clone_from(&present.last_transition_time);
    }
}

words! {
    /// Types of a pool's conditions.
    pub enum PoolConditionType {
        /// All nodes run the pool's configuration and are ready.
        Updated = "Updated",
        /// Nodes are being updated, or wait for it.
        Updating = "Updating",
        /// Any of node, render, rollout and image build is degraded.
        Degraded = "Degraded",
        /// A node reports that it failed.
        NodeDegraded = "NodeDegraded",
        /// The configuration cannot be rendered.
        RenderDegraded = "RenderDegraded",
        /// The pool cannot be rolled as it is written, or its rollout stopped after failures. Ours,
        /// not upstream's.
        RolloutDegraded = "RolloutDegraded",
        /// The rendering waits for an object, or nodes wait for their turn; the message names them
        /// and what they wait for. Ours, not upstream's.
        Waiting = "Waiting",
        /// The pool asks for something that nothing handles; the message names it. Absent until it
        /// first does. Ours, not upstream's.
        Unsupported = "Unsupported",
        /// `spec.paused` is set; the message says by whom. Absent until it first is. Ours, not
        /// upstream's.
        Paused = "Paused",
        /// Kubelets of the pool's nodes would be too old for the next minor release of the API
        /// server; the message names them. Absent until there are some. Ours, not upstream's.
        KubeletSkew = "KubeletSkew",
        /// The pool's OS image cannot be built. Owned by the builder.
        ImageBuildDegraded = "ImageBuildDegraded",
        /// Nodes do not have their pinned images for another reason than time, or it is not
        /// determined which sets the pool has. It does not make the pool `Degraded`.
        PinnedImageSetsDegraded = "PinnedImageSetsDegraded",
        /// A synchronizer fails.
        PoolSynchronizerDegraded = "PoolSynchronizerDegraded",
    }
}

impl Default for PoolConditionType {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

words! {
    /// Reasons of a pool's conditions.
    ///
    /// OpenShift's MCO leaves most reasons empty and puts a sentence with a count into that of
    /// `NodeDegraded`; that one is made with [`PoolConditionReason::nodes_degraded`], because
    /// clients show it.
    #[derive(Default)]
    pub enum PoolConditionReason {
        /// No reason given.
        #[default]
        Unset = "",
        /// `spec.maxUnavailable` is neither a number of nodes nor a percentage.
        InvalidMaxUnavailable = "InvalidMaxUnavailable",
        /// A selector of the pool cannot be read.
        InvalidSelector = "InvalidSelector",
        /// A selector of the pool is `{}` and would take everything.
        SelectingAll = "SelectingAll",
        /// A node matches more than one custom pool and belongs to none of them until that is
        /// solved.
        NodeInTwoPools = "NodeInTwoPools",
        /// Too many nodes failed on the pool's configuration; no other node is given it.
        RolloutHalted = "RolloutHalted",
        /// The pool's own OS image is not built; its nodes keep what they run.
        ImageMode = "ImageMode",
        /// The build of the pool's OS image failed.
        BuildFailed = "BuildFailed",
        /// The build of the pool's OS image was ended before its time.
        BuildInterrupted = "BuildInterrupted",
        /// No OS image can be built for the pool from its MachineOSConfig as it is.
        BuildRefused = "BuildRefused",
        /// The pool's OS image is being built.
        Building = "Building",
        /// The build of the pool's OS image is to start.
        BuildPending = "BuildPending",
        /// The pool's OS image is built.
        BuildSuccess = "BuildSuccess",
        /// The pool's configuration was edited, or made by another program; no node is given it.
        RenderedConfigChanged = "RenderedConfigChanged",
        /// The pool's rollout policy cannot be followed; no node is given a new configuration.
        InvalidRolloutPolicy = "InvalidRolloutPolicy",
        /// A custom pool leaves out the base of its nodes' role; no node is given a new
        /// configuration.
        MissingBase = "MissingBase",
        /// Nothing handles what the pool asks for.
        NotImplemented = "NotImplemented",
        /// No image is built for the pool any more.
        NoLayeredObjects = "NoLayeredObjects",
        /// The pool is not rendered until an object that it is made from is complete.
        NotRendered = "NotRendered",
        /// As many nodes are out as the budget allows.
        Budget = "Budget",
        /// The pool's rollout policy has nodes wait for a time or for other nodes.
        RolloutPolicy = "RolloutPolicy",
        /// The pool is paused.
        Paused = "Paused",
        /// Nodes are not ready, or cordoned.
        NodesNotReady = "NodesNotReady",
        /// A person stopped the pool, or the cluster.
        Stopped = "Stopped",
        /// A person keeps nodes out of the rollout.
        NodesOnHold = "NodesOnHold",
        /// Nodes could not be drained in time, and are passed over.
        NodesQuarantined = "NodesQuarantined",
        /// The API server does not take what nodes are to be told.
        NodesNotAssigned = "NodesNotAssigned",
        /// An update of the control plane alone paused the pool, and resumes it at its end.
        ControlPlaneOnly = "ControlPlaneOnly",
        /// Kubelets are older than the next minor release of the API server supports.
        ///
        /// Source: upstream's reason of `Upgradeable` on ClusterOperator `machine-config`.
        KubeletSkewUnsupported = "KubeletSkewUnsupported",
        /// The version of a kubelet, or of the API server, is not known.
        ///
        /// Source: as above.
        KubeletSkewUnchecked = "KubeletSkewUnchecked",
        /// Nodes report that they cannot pull or pin images.
        PrefetchFailed = "PrefetchFailed",
    }
}

impl PoolConditionReason {
    /// Reason of `NodeDegraded` when `count` nodes report it.
    ///
    /// Source: upstream's pool status.
    pub fn nodes_degraded(count: usize) -> Self {
        Self::Other(format!(
            "{count} nodes are reporting degraded status on sync"
        ))
    }
}
