//! MachineConfigNode: what one node is assigned and how far it is, in the form of conditions.

#![expect(
    clippy::duplicated_attributes,
    reason = "each printer column has a type; the lint does not know that they are nested"
)]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::condition::words;
use crate::{Condition, raw};

/// Placeholder of `spec.configVersion.desired` and `spec.pool.name` before the node was assigned
/// anything.
pub const NOT_YET_SET: &str = "not-yet-set";

/// Reason of a condition whose phase was not entered yet.
pub const NOT_YET_OCCURRED: &str = "NotYetOccurred";

/// What a node is assigned.
///
/// Shape: the object's name is `node.name`.
/// Source: `machineconfignodes.machineconfiguration.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfigNode",
    status = "MachineConfigNodeStatus",
    derive = "PartialEq",
    doc = "MachineConfigNode describes how far the update of one node is.",
    printcolumn(name = "PoolName", type_ = "string", json_path = ".spec.pool.name"),
    printcolumn(
        name = "DesiredConfig",
        type_ = "string",
        json_path = ".spec.configVersion.desired"
    ),
    printcolumn(
        name = "CurrentConfig",
        type_ = "string",
        json_path = ".status.configVersion.current"
    ),
    printcolumn(
        name = "Updated",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Updated\")].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "UpdatePrepared",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"UpdatePrepared\")].status"
    ),
    printcolumn(
        name = "UpdateExecuted",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"UpdateExecuted\")].status"
    ),
    printcolumn(
        name = "UpdatePostActionComplete",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"UpdatePostActionComplete\")].status"
    ),
    printcolumn(
        name = "UpdateComplete",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"UpdateComplete\")].status"
    ),
    printcolumn(
        name = "Resumed",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Resumed\")].status"
    ),
    printcolumn(
        name = "UpdatedFilesAndOS",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"AppliedFilesAndOS\")].status"
    ),
    printcolumn(
        name = "CordonedNode",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Cordoned\")].status"
    ),
    printcolumn(
        name = "DrainedNode",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Drained\")].status"
    ),
    printcolumn(
        name = "RebootedNode",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"RebootedNode\")].status"
    ),
    printcolumn(
        name = "UncordonedNode",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Uncordoned\")].status"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigNodeSpec {
    /// Configuration that the node is to reach.
    pub config_version: DesiredVersion,
    /// The node.
    pub node: ObjectName,
    /// The pool it belongs to.
    pub pool: ObjectName,
    /// Image that the node is to reach; absent outside of image mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_image: Option<DesiredImage>,
}

/// Name of a configuration to reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DesiredVersion {
    /// Name of a rendered MachineConfig, or [`NOT_YET_SET`].
    #[schemars(length(max = 253))]
    pub desired: String,
}

/// An image to reach.
///
/// Source: openshift/api, `MachineConfigNodeSpecConfigImage`; upstream's definition has it with the
/// feature gate `ImageModeStatusReporting`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DesiredImage {
    /// Pull spec, by digest.
    #[schemars(length(min = 1, max = 447))]
    pub desired_image: String,
}

/// Name of a node or a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectName {
    /// The name.
    #[schemars(length(max = 253))]
    pub name: String,
}

/// How far a node is.
///
/// Source: `machineconfignodes.machineconfiguration.openshift.io`, `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigNodeStatus {
    /// Phases of the update and what holds about the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition<NodeConditionType>>,
    /// Configuration in force, and the one being applied once it was found compatible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_version: Option<ConfigVersion>,
    /// Images in force and being applied; absent outside of image mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_image: Option<ConfigImage>,
    /// Releases kept on the node; belongs to another controller and is kept as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw::object")]
    pub internal_release_image: Option<Value>,
    /// Differences from the configuration that cannot be applied to a running node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["fieldPath"]))]
    pub irreconcilable_changes: Vec<IrreconcilableChange>,
    /// Generation of the object that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,
    /// Pinned image sets and their generations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pinned_image_sets: Vec<PinnedImageSetStatus>,
}

/// Configuration in force and the one being applied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigVersion {
    /// Name of the configuration in force; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub current: Option<String>,
    /// Name of the one being applied, moved only once it was found compatible.
    #[schemars(length(max = 253))]
    pub desired: String,
}

/// Image in force and the one being applied; at least one of them.
///
/// Source: openshift/api, `MachineConfigNodeStatusConfigImage`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ConfigImage {
    /// Pull spec of the image in force; absent where the OS is the one of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 447))]
    pub current_image: Option<String>,
    /// Pull spec of the one being applied, moved only once it was found compatible; absent on the
    /// way out of image mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 447))]
    pub desired_image: Option<String>,
}

/// One difference that cannot be applied to a running node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IrreconcilableChange {
    /// Path of the field in the Ignition config.
    #[schemars(length(min = 1, max = 70))]
    pub field_path: String,
    /// The difference, for people.
    #[schemars(length(min = 1, max = 4096))]
    pub diff: String,
}

/// How far one pinned image set is on the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinnedImageSetStatus {
    /// Name of the set.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Generation in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub current_generation: Option<i32>,
    /// Generation being applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub desired_generation: Option<i32>,
    /// Last generation that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub last_failed_generation: Option<i32>,
    /// Why it failed, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32768))]
    pub last_failed_generation_error: Option<String>,
}

words! {
    /// Types of a MachineConfigNode's conditions.
    pub enum NodeConditionType {
        /// The target was found compatible.
        UpdatePrepared = "UpdatePrepared",
        /// The update was carried out, up to the reboot.
        UpdateExecuted = "UpdateExecuted",
        /// Services were reloaded or the reboot was asked for.
        UpdatePostActionComplete = "UpdatePostActionComplete",
        /// The update is finished, the node schedulable again.
        UpdateComplete = "UpdateComplete",
        /// The node runs its desired configuration.
        Updated = "Updated",
        /// The daemon took up work after a start.
        Resumed = "Resumed",
        /// The node was cordoned; child of `UpdateExecuted`.
        Cordoned = "Cordoned",
        /// The node was drained; child of `UpdateExecuted`.
        Drained = "Drained",
        /// Files and OS were put in place; child of `UpdateExecuted`.
        AppliedFilesAndOS = "AppliedFilesAndOS",
        /// The node was uncordoned; child of `UpdateComplete`.
        Uncordoned = "Uncordoned",
        /// The node was rebooted.
        RebootedNode = "RebootedNode",
        /// The node failed.
        NodeDegraded = "NodeDegraded",
        /// Pinned images are being fetched.
        PinnedImageSetsProgressing = "PinnedImageSetsProgressing",
        /// Pinned images cannot be fetched.
        PinnedImageSetsDegraded = "PinnedImageSetsDegraded",
    }
}

impl NodeConditionType {
    /// The phase that this one is a part of.
    pub fn parent(&self) -> Option<Self> {
        match self {
            Self::Cordoned | Self::Drained | Self::AppliedFilesAndOS => Some(Self::UpdateExecuted),
            Self::Uncordoned => Some(Self::UpdateComplete),
            Self::UpdatePrepared
            | Self::UpdateExecuted
            | Self::UpdatePostActionComplete
            | Self::UpdateComplete
            | Self::Updated
            | Self::Resumed
            | Self::RebootedNode
            | Self::NodeDegraded
            | Self::PinnedImageSetsProgressing
            | Self::PinnedImageSetsDegraded
            | Self::Other(_) => None,
        }
    }

    /// Reason of this condition and of its parent while the phase is under way or done: parent and
    /// child, as `UpdateExecutedDrained`.
    ///
    /// Source: upstream's MachineConfigNode reporting.
    pub fn reason(&self) -> String {
        match self.parent() {
            Some(parent) => format!("{parent}{self}"),
            None => self.as_str().to_owned(),
        }
    }
}
