//! FeatureGate: which features of the cluster's components are on.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{nullable, raw};

/// Name of the only object that counts.
pub const NAME: &str = "cluster";

/// Which set of features is asked for.
///
/// Source: `featuregates.config.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "FeatureGate",
    status = "FeatureGateStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "FeatureGate says which features of the cluster's components are on."
)]
#[serde(rename_all = "camelCase")]
pub struct FeatureGateSpec {
    /// Features by name, of the set `CustomNoUpgrade`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw::nullable_object")]
    pub custom_no_upgrade: Option<Value>,
    /// Name of the set; empty: the default.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub feature_set: String,
}

/// Which features are on, by version.
///
/// Source: `featuregates.config.openshift.io`, `status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeatureGateStatus {
    /// What the writer reports of itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "raw::objects")]
    pub conditions: Vec<Value>,
    /// Features of each version.
    #[serde(default, deserialize_with = "nullable::or_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
    pub feature_gates: Vec<VersionFeatures>,
}

/// Features of a version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VersionFeatures {
    /// Those that are off.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub disabled: Vec<NamedFeature>,
    /// Those that are on.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub enabled: Vec<NamedFeature>,
    /// Version of the release.
    pub version: String,
}

/// A feature.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedFeature {
    /// Its name.
    pub name: String,
}
