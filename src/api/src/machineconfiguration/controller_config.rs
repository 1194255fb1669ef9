//! ControllerConfig: what the operator tells the controller about the cluster.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::condition::{Listed, words};
use crate::{ConditionStatus, nullable, raw};

/// Name of the only object that counts.
pub const NAME: &str = "machine-config-controller";

/// What the operator tells the controller.
///
/// Shape: `infra`, `dns`, `proxy` and `network` are objects of other groups and kept as they are
/// written. Required fields read as empty where an older operator left them out. Source:
/// `controllerconfigs.machineconfiguration.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "ControllerConfig",
    status = "ControllerConfigStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "ControllerConfig describes the cluster to the machine-config controller."
)]
#[serde(rename_all = "camelCase")]
pub struct ControllerConfigSpec {
    /// Certificates to trust besides those of the OS, PEM.
    #[serde(default)]
    #[schemars(required, schema_with = "raw::nullable_bytes")]
    pub additional_trust_bundle: Option<ByteString>,
    /// Pull spec of the OS image.
    #[serde(
        default,
        rename = "baseOSContainerImage",
        deserialize_with = "nullable::or_default"
    )]
    #[schemars(required)]
    pub base_os_container_image: String,
    /// Pull spec of the extensions' image.
    #[serde(
        default,
        rename = "baseOSExtensionsContainerImage",
        skip_serializing_if = "String::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    pub base_os_extensions_container_image: String,
    /// CA of the cloud's API, PEM.
    #[serde(default, rename = "cloudProviderCAData")]
    #[schemars(required, schema_with = "raw::nullable_bytes")]
    pub cloud_provider_ca_data: Option<ByteString>,
    /// Configuration of the cloud provider.
    #[serde(default)]
    #[schemars(required)]
    pub cloud_provider_config: String,
    /// Address of the cluster's DNS.
    #[serde(default, rename = "clusterDNSIP")]
    #[schemars(required)]
    pub cluster_dns_ip: String,
    /// The cluster's DNS object.
    #[serde(default)]
    #[schemars(required, schema_with = "raw::nullable_object")]
    pub dns: Option<Value>,
    /// Deprecated.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub etcd_discovery_domain: String,
    /// Certificates of image registries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_registry_bundle_data: Vec<ImageRegistryBundle>,
    /// Certificates of image registries, given by users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_registry_bundle_user_data: Vec<ImageRegistryBundle>,
    /// Images of the release by name.
    #[serde(default)]
    #[schemars(required)]
    pub images: BTreeMap<String, String>,
    /// The cluster's Infrastructure object.
    #[serde(default)]
    #[schemars(required, schema_with = "raw::nullable_object")]
    pub infra: Option<Value>,
    /// Pull secret of the registry inside the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw::nullable_bytes")]
    pub internal_registry_pull_secret: Option<ByteString>,
    /// `IPv4`, `IPv6`, `DualStack` or `DualStackIPv6Primary`.
    #[serde(default)]
    #[schemars(required)]
    pub ip_families: String,
    /// CA that signs what the API server shows the kubelets, PEM.
    #[serde(default, rename = "kubeAPIServerServingCAData")]
    #[schemars(required, schema_with = "raw::bytes")]
    pub kube_api_server_serving_ca_data: ByteString,
    /// Migration of the network.
    #[serde(default)]
    #[schemars(required, schema_with = "raw::nullable_object")]
    pub network: Option<Value>,
    /// Type of the network.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub network_type: String,
    /// Legacy form of the OS image.
    #[serde(
        default,
        rename = "osImageURL",
        skip_serializing_if = "String::is_empty"
    )]
    pub os_image_url: String,
    /// Deprecated in favour of `infra`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub platform: String,
    /// The cluster's proxy.
    #[serde(default)]
    #[schemars(required, schema_with = "raw::nullable_object")]
    pub proxy: Option<Value>,
    /// Where the pull secret of the cluster lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_secret: Option<ObjectReference>,
    /// Pull spec of the release.
    #[serde(default)]
    #[schemars(required)]
    pub release_image: String,
    /// CA of the config server, PEM.
    #[serde(default, rename = "rootCAData")]
    #[schemars(required, schema_with = "raw::bytes")]
    pub root_ca_data: ByteString,
}

impl ControllerConfigSpec {
    /// Topology of the control plane: `infra.status.controlPlaneTopology`.
    pub fn control_plane_topology(&self) -> Option<&str> {
        self.infra
            .as_ref()?
            .pointer("/status/controlPlaneTopology")?
            .as_str()
    }
}

/// Certificates for one registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageRegistryBundle {
    /// Name of the file: the registry's host, `..` before a port.
    pub file: String,
    /// The certificates, PEM.
    #[schemars(schema_with = "raw::bytes")]
    pub data: ByteString,
}

/// What the controller made of it.
///
/// Source: `controllerconfigs.machineconfiguration.openshift.io`, `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControllerConfigStatus {
    /// How far the template controller is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<ControllerConfigCondition>,
    /// Certificates found in the bundles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controller_certificates: Vec<ControllerCertificate>,
    /// Generation that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl ControllerConfigStatus {
    /// Whether the condition of that type is `True`.
    pub fn is_true(&self, r#type: &ControllerConfigConditionType) -> bool {
        self.conditions.iter().any(|condition| {
            condition.r#type == *r#type && condition.status == ConditionStatus::True
        })
    }
}

/// A condition of the ControllerConfig.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControllerConfigCondition {
    /// What it is about.
    pub r#type: ControllerConfigConditionType,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// When `status` last changed.
    #[serde(default)]
    #[schemars(required, extend("nullable" = true))]
    pub last_transition_time: Option<Time>,
    /// Why, for programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Listed for ControllerConfigCondition {
    type Type = ControllerConfigConditionType;

    fn r#type(&self) -> &ControllerConfigConditionType {
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
    /// Types of a ControllerConfig's conditions.
    pub enum ControllerConfigConditionType {
        /// Base configurations are being made.
        Running = "TemplateControllerRunning",
        /// Base configurations are made.
        Completed = "TemplateControllerCompleted",
        /// Base configurations cannot be made.
        Failing = "TemplateControllerFailing",
    }
}

/// A certificate found in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControllerCertificate {
    /// Subject.
    pub subject: String,
    /// Signer.
    pub signer: String,
    /// From when it is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    /// Until when it is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Time>,
    /// Bundle that it was found in.
    pub bundle_file: String,
}
