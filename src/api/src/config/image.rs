//! Image: which registries the cluster uses, and how.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{nullable, raw};

/// Name of the only object that counts.
pub const NAME: &str = "cluster";

/// Settings of images and registries.
///
/// Shape: only `registrySources` is read here; the rest belongs to others and is kept as written.
/// Source: `images.config.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Image",
    status = "ImageStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Image holds the cluster's settings of images and registries."
)]
#[serde(rename_all = "camelCase")]
pub struct ImageSpec {
    /// ConfigMap with certificates of registries.
    #[serde(
        default,
        rename = "additionalTrustedCA",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "raw::object")]
    pub additional_trusted_ca: Option<Value>,
    /// Registries from which users may import.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_registries_for_import: Vec<RegistryLocation>,
    /// Names of the registry of the cluster, as others reach it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_registry_hostnames: Vec<String>,
    /// `Legacy` or `PreserveOriginal`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image_stream_import_mode: String,
    /// How nodes use registries.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub registry_sources: RegistrySources,
}

/// A registry from which users may import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryLocation {
    /// Its host, and its port.
    pub domain_name: String,
    /// Whether it may be reached without TLS.
    #[serde(default)]
    pub insecure: bool,
}

/// How nodes use registries.
///
/// Shape: an entry is a registry, a repository, or `*.` and a domain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrySources {
    /// The only ones that images come from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub allowed_registries: Vec<String>,
    /// Those that no image comes from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub blocked_registries: Vec<String>,
    /// Where images with short names are looked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub container_runtime_search_registries: Vec<String>,
    /// Those without TLS, or with an unknown certificate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub insecure_registries: Vec<String>,
}

/// Written by the image registry's operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageStatus {
    /// Names of the registry of the cluster, as others reach it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_registry_hostnames: Vec<String>,
    /// `Legacy` or `PreserveOriginal`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image_stream_import_mode: String,
    /// Name of the registry inside the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub internal_registry_hostname: String,
}
