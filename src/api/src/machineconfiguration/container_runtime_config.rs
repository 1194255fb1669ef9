//! ContainerRuntimeConfig: options of the container runtimes of pools.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kubelet_config::SettingStatus;
use crate::{IntOrString, nullable};

/// Options of the container runtimes of pools.
///
/// Source: `containerruntimeconfigs.machineconfiguration.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "ContainerRuntimeConfig",
    shortname = "ctrcfg",
    status = "SettingStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "ContainerRuntimeConfig sets options of the container runtimes of pools."
)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRuntimeConfigSpec {
    /// The options.
    #[serde(default, deserialize_with = "nullable::or_default")]
    #[schemars(required)]
    pub container_runtime_config: RuntimeOptions,
    /// Selects pools by their labels. Absent or empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_config_pool_selector: Option<LabelSelector>,
}

/// Options of a container runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeOptions {
    /// Where OCI artifacts are besides the runtime's own store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub additional_artifact_stores: Vec<AdditionalStore>,
    /// Where images are besides the runtime's own store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub additional_image_stores: Vec<AdditionalStore>,
    /// Where layers of images are besides the runtime's own store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), extend("x-kubernetes-list-type" = "atomic"))]
    pub additional_layer_stores: Vec<AdditionalStore>,
    /// `crun` or `runc`. Absent: `crun`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["crun", "runc"]))]
    pub default_runtime: String,
    /// `fatal`, `panic`, `error`, `warn`, `info`, `debug` or `trace`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log_level: String,
    /// Most bytes of a container's log, a quantity; negative for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_size_max: Option<IntOrString>,
    /// Most bytes of a container's writable layer, a quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay_size: Option<IntOrString>,
    /// Most processes of a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids_limit: Option<i64>,
}

/// A store that is only read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdditionalStore {
    /// Folder on the host.
    #[schemars(length(min = 1, max = 256))]
    pub path: String,
}
