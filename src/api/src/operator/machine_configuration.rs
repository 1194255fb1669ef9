//! MachineConfiguration: the cluster's settings of the machine-config system, of which the node
//! disruption policy matters here.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::condition::words;
use crate::{Condition, raw};

/// Name of the only object that counts.
pub const NAME: &str = "cluster";

/// Settings.
///
/// Shape: fields that belong to controllers other than ours are kept as they are written.
/// Source: `machineconfigurations.operator.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operator.openshift.io",
    version = "v1",
    kind = "MachineConfiguration",
    status = "MachineConfigurationStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "MachineConfiguration holds the cluster's settings of the machine-config system."
)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigurationSpec {
    /// Which age of boot images blocks an upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw::object")]
    pub boot_image_skew_enforcement: Option<Value>,
    /// How many failed revisions are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_revision_limit: Option<i32>,
    /// Any new text forces a redeployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_redeployment_reason: Option<String>,
    /// Irreconcilable changes that are let through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irreconcilable_validation_overrides: Option<IrreconcilableValidationOverrides>,
    /// Verbosity of the components: `Normal`, `Debug`, `Trace`, `TraceAll`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<String>,
    /// Machine resources whose boot images are kept up to date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw::object")]
    pub managed_boot_images: Option<Value>,
    /// `Managed`, `Unmanaged`, `Force`, `Removed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub management_state: Option<String>,
    /// What a change does to a node, by path, unit and for SSH keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_disruption_policy: Option<NodeDisruptionPolicy>,
    /// Configuration derived from observation; kept as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw::nullable_object")]
    pub observed_config: Option<Value>,
    /// Verbosity of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_log_level: Option<String>,
    /// How many successful revisions are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded_revision_limit: Option<i32>,
    /// Unsupported overrides; kept as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw::nullable_object")]
    pub unsupported_config_overrides: Option<Value>,
}

/// Irreconcilable changes that are let through.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IrreconcilableValidationOverrides {
    /// Of `Disks`, `FileSystems`, `Raid`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    pub storage: Vec<String>,
}

/// What a change does to a node. In `spec` as a user wrote it; in `status` with the defaults laid
/// under it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeDisruptionPolicy {
    /// By path of the file, or of a directory above it; the longest wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"]))]
    pub files: Vec<FilePolicySpec>,
    /// For changes of SSH keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sshkey: Option<SshKeyPolicy>,
    /// By name of the unit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub units: Vec<UnitPolicySpec>,
}

/// What a change of a file does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilePolicySpec {
    /// Path of the file or of a directory.
    pub path: String,
    /// What is done, in order.
    #[schemars(length(max = 10))]
    pub actions: Vec<PolicyAction>,
}

/// What a change of a unit does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnitPolicySpec {
    /// Name of the unit.
    pub name: String,
    /// What is done, in order.
    #[schemars(length(max = 10))]
    pub actions: Vec<PolicyAction>,
}

/// What a change of SSH keys does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SshKeyPolicy {
    /// What is done, in order.
    #[schemars(length(max = 10))]
    pub actions: Vec<PolicyAction>,
}

/// One action. `Reload` and `Restart` name a service, the others nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyAction {
    /// What is done.
    pub r#type: PolicyActionType,
    /// Service to reload; only for `Reload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload: Option<PolicyService>,
    /// Service to restart; only for `Restart`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<PolicyService>,
}

/// A service of systemd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyService {
    /// Full name, as `crio.service`.
    #[schemars(length(max = 255))]
    pub service_name: String,
}

/// What an action does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PolicyActionType {
    /// Reboots the node; stands alone.
    Reboot,
    /// Drains the node.
    Drain,
    /// Reloads a service.
    Reload,
    /// Restarts a service.
    Restart,
    /// Reloads systemd's units.
    DaemonReload,
    /// Nothing; stands alone.
    None,
    /// Drains unless the change is harmless, then reloads CRI-O. Only in `status`, for the
    /// registries' configuration.
    Special,
}

/// What the operator made of the settings.
///
/// Source: `machineconfigurations.operator.openshift.io`, `status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigurationStatus {
    /// Belongs to the operator's boot-image controller; kept as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw::object")]
    pub boot_image_skew_enforcement_status: Option<Value>,
    /// What holds about the settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition<MachineConfigurationConditionType>>,
    /// Belongs to the operator's boot-image controller; kept as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw::object")]
    pub managed_boot_images_status: Option<Value>,
    /// The policies in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_disruption_policy_status: Option<NodeDisruptionPolicyStatus>,
    /// Generation of the object that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The policies in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDisruptionPolicyStatus {
    /// The defaults, overlaid by the user's entries of equal path or name.
    #[serde(default)]
    pub cluster_policies: NodeDisruptionPolicy,
}

words! {
    /// What a condition of a MachineConfiguration is about.
    pub enum MachineConfigurationConditionType {
        /// `spec.nodeDisruptionPolicy` cannot be followed. Slipway's own.
        NodeDisruptionPolicyDegraded = "NodeDisruptionPolicyDegraded",
        /// Fields of `spec` have no effect, because nothing handles them. Slipway's own.
        Unsupported = "Unsupported",
        /// Belongs to the operator's boot-image controller.
        BootImageUpdateDegraded = "BootImageUpdateDegraded",
        /// Belongs to the operator's boot-image controller.
        BootImageUpdateProgressing = "BootImageUpdateProgressing",
    }
}
