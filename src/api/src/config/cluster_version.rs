//! ClusterVersion: which release a cluster runs, and which one it is to run.

#![expect(
    clippy::duplicated_attributes,
    reason = "each printer column has a type; the lint does not know that they are nested"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{ClusterCondition, ClusterConditionType, ConditionalUpdate, Release};
use crate::condition::{self, words};
use crate::nullable;

/// The only object that counts.
pub const NAME: &str = "version";

/// What a cluster is to run.
///
/// Source: `clusterversions.config.openshift.io`, `spec`.
#[derive(
    CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterVersion",
    status = "ClusterVersionStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "ClusterVersion is the release that a cluster runs.",
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.history[?(@.state==\"Completed\")].version"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status"
    ),
    printcolumn(
        name = "Progressing",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Progressing\")].status"
    ),
    printcolumn(
        name = "Since",
        type_ = "date",
        json_path = ".status.conditions[?(@.type==\"Progressing\")].lastTransitionTime"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Progressing\")].message"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersionSpec {
    /// UUID by which the update service counts clusters.
    #[serde(rename = "clusterID", default)]
    pub cluster_id: String,
    /// The release to update to; absent: the one that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_update: Option<Update>,
    /// Address of the update service; empty: the default one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub upstream: String,
    /// Channel whose releases are offered; empty: none are.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub channel: String,
    /// Parts of the release that may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<CapabilitiesSpec>,
    /// Objects that administrators manage themselves.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind", "group", "namespace", "name"]))]
    pub overrides: Vec<ComponentOverride>,
}

/// A release to update to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.architecture) && has(self.image) ? (self.architecture == \"\" || self.image == \"\") : true",
        "message": "cannot set both Architecture and Image"
    },
    {
        "rule": "has(self.architecture) && self.architecture != \"\" ? self.version != \"\" : true",
        "message": "Version must be set if Architecture is set"
    }
]))]
pub struct Update {
    /// `Multi`, to change to a release for several architectures.
    #[serde(default)]
    #[schemars(extend("enum" = ["Multi", ""]))]
    pub architecture: String,
    /// Version of the release.
    #[serde(default)]
    pub version: String,
    /// Pull spec of the release.
    #[serde(default)]
    pub image: String,
    /// Whether an update is made whose checks fail.
    #[serde(default)]
    pub force: bool,
    /// Risks that the administrator accepts. The default definition does not have the field, and
    /// the API server drops it there.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    #[schemars(skip)]
    pub accept_risks: Vec<AcceptedRisk>,
}

/// A risk that an administrator accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AcceptedRisk {
    /// Name of the risk.
    pub name: String,
}

/// Which optional parts of a release are on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapabilitiesSpec {
    /// A set; empty: `vCurrent`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = [
        "None", "v4.11", "v4.12", "v4.13", "v4.14", "v4.15", "v4.16", "v4.17", "v4.18", "vCurrent"
    ]))]
    pub baseline_capability_set: String,
    /// Capabilities beyond the set.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    #[schemars(schema_with = "capabilities")]
    pub additional_enabled_capabilities: Vec<String>,
}

fn capabilities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": { "type": "string", "enum": [
            "openshift-samples", "baremetal", "marketplace", "Console", "Insights", "Storage",
            "CSISnapshot", "NodeTuning", "MachineAPI", "Build", "DeploymentConfig",
            "ImageRegistry", "OperatorLifecycleManager", "CloudCredential", "Ingress",
            "CloudControllerManager", "OperatorLifecycleManagerV1",
        ] },
        "x-kubernetes-list-type": "atomic",
    })
}

/// An object that administrators manage themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ComponentOverride {
    /// Kind.
    pub kind: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Namespace; empty for objects without one.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Whether the object is left alone.
    pub unmanaged: bool,
}

/// What a cluster runs.
///
/// Source: `clusterversions.config.openshift.io`, `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersionStatus {
    /// The release that is applied.
    #[serde(default)]
    pub desired: Release,
    /// Releases that were applied, newest first.
    #[serde(default, deserialize_with = "nullable::or_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<HistoryEntry>,
    /// Generation of the spec that the status was made from.
    #[serde(default)]
    pub observed_generation: i64,
    /// Hash of the release's manifests.
    #[serde(default)]
    pub version_hash: String,
    /// Optional parts of the release.
    #[serde(default)]
    pub capabilities: CapabilitiesStatus,
    /// What holds about the cluster.
    #[serde(default, deserialize_with = "nullable::or_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<ClusterCondition>,
    /// Releases that the cluster may be updated to; `null` while none were read.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub available_updates: Option<Vec<Release>>,
    /// Releases that the cluster may be updated to unless a risk applies to it.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    #[schemars(length(max = 500), extend("x-kubernetes-list-type" = "atomic"))]
    pub conditional_updates: Vec<ConditionalUpdate>,
}

impl ClusterVersionStatus {
    /// The condition of that type.
    pub fn condition(&self, r#type: &ClusterConditionType) -> Option<&ClusterCondition> {
        condition::find(&self.conditions, r#type)
    }
}

words! {
    /// How far a release of the history came.
    pub enum HistoryState {
        /// All of it was applied once.
        Completed = "Completed",
        /// Some of it was applied.
        Partial = "Partial",
    }
}

/// A release that was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// How far it came.
    pub state: HistoryState,
    /// When it was accepted.
    pub started_time: Time,
    /// When it was completed, or replaced by the next one.
    pub completion_time: Option<Time>,
    /// Version; empty where it is not known.
    #[serde(default)]
    pub version: String,
    /// Pull spec.
    pub image: String,
    /// Whether its signature was verified.
    pub verified: bool,
    /// Checks that failed and were overridden.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub accepted_risks: String,
}

/// Optional parts of a release.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapabilitiesStatus {
    /// Those that are on.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    #[schemars(schema_with = "capabilities")]
    pub enabled_capabilities: Vec<String>,
    /// All that this program knows.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    #[schemars(schema_with = "capabilities")]
    pub known_capabilities: Vec<String>,
}
