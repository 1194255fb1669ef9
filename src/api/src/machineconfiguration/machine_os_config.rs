//! MachineOSConfig: an OS image that is built for a pool.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::machine_config_pool::NamedReference;
use crate::condition::Condition;
use crate::nullable;

/// Type of the condition that says why no image is built from the object as it is. Ours, not
/// upstream's.
pub const REFUSED: &str = "Refused";

/// What is built for a pool, with which credentials, and where it is pushed to.
///
/// Shape: the object has the name of its pool; the API demands it.
/// Source: `machineosconfigs.machineconfiguration.openshift.io`, `spec`. The definition is
/// upstream's, unmodified.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineOSConfig",
    plural = "machineosconfigs",
    status = "MachineOsConfigStatus",
    schema = "disabled",
    derive = "PartialEq",
    doc = "MachineOSConfig has OS images built for a pool."
)]
#[serde(rename_all = "camelCase")]
pub struct MachineOsConfigSpec {
    /// The pool.
    pub machine_config_pool: NamedReference,
    /// What builds.
    pub image_builder: ImageBuilder,
    /// Secret of [`super::NAMESPACE`] with which the base image is pulled; absent, the pull secret
    /// of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_image_pull_secret: Option<NamedReference>,
    /// Secret of [`super::NAMESPACE`] with which the image is pushed.
    pub rendered_image_push_secret: NamedReference,
    /// Where the image is pushed to, with a tag.
    pub rendered_image_push_spec: String,
    /// What people add to the image, by architecture; at most four.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    pub container_file: Vec<ContainerFile>,
}

/// What builds images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageBuilder {
    /// `Job`, the only one there is.
    pub image_builder_type: String,
}

/// The part of a Containerfile that people write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerFile {
    /// `NoArch`, `AMD64`, `ARM64`, `PPC64LE` or `S390X`; absent, `NoArch`: for all that have none
    /// of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containerfile_arch: Option<String>,
    /// Its text, at most 4096 characters.
    #[serde(default)]
    pub content: String,
}

/// How far the image of a pool is.
///
/// Source: `machineosconfigs.machineconfiguration.openshift.io`, `status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineOsConfigStatus {
    /// What holds about it.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    pub conditions: Vec<Condition<String>>,
    /// The image that was built last, by digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_image_pull_spec: Option<String>,
    /// The build for this generation and the pool's configuration.
    #[serde(
        default,
        rename = "machineOSBuild",
        skip_serializing_if = "Option::is_none"
    )]
    pub machine_os_build: Option<BuildReference>,
    /// Generation that the build was chosen for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Reference to an object by group, resource and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildReference {
    /// API group; empty for the core's.
    pub group: String,
    /// Plural name of the kind.
    pub resource: String,
    /// Namespace, where the kind has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
}
