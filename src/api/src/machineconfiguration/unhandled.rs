//! Kinds that ask something of pools and that no program here handles, as far as that is read: to
//! say so, and to leave alone what another controller does.
//!
//! Their CustomResourceDefinitions are not ours; a cluster may lack them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// What is read of a `MachineOSConfig`: nothing but its name, which is that of its pool.
///
/// Source: `machineosconfigs.machineconfiguration.openshift.io`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineOSConfig",
    plural = "machineosconfigs",
    schema = "disabled",
    doc = "MachineOSConfig asks for OS images that are built for a pool."
)]
pub struct MachineOSConfigSpec {}

/// What is read of a `MachineOSBuild`: nothing but its metadata, which names its pool.
///
/// Source: `machineosbuilds.machineconfiguration.openshift.io`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineOSBuild",
    plural = "machineosbuilds",
    schema = "disabled",
    doc = "MachineOSBuild is the build of an OS image for a pool."
)]
pub struct MachineOSBuildSpec {}

/// What is read of a `PinnedImageSet`: nothing but its labels, by which pools select it.
///
/// Source: `pinnedimagesets.machineconfiguration.openshift.io`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "PinnedImageSet",
    schema = "disabled",
    doc = "PinnedImageSet names images to keep on the nodes of pools."
)]
pub struct PinnedImageSetSpec {}

/// Which pools a `KubeletConfig` is for.
///
/// Source: `kubeletconfigs.machineconfiguration.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "KubeletConfig",
    status = "HandledStatus",
    schema = "disabled",
    doc = "KubeletConfig sets options of the kubelets of pools."
)]
#[serde(rename_all = "camelCase")]
pub struct KubeletConfigSpec {
    /// Selects pools by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_config_pool_selector: Option<LabelSelector>,
}

/// Which pools a `ContainerRuntimeConfig` is for.
///
/// Source: `containerruntimeconfigs.machineconfiguration.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "ContainerRuntimeConfig",
    status = "HandledStatus",
    schema = "disabled",
    doc = "ContainerRuntimeConfig sets options of the container runtime of pools."
)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRuntimeConfigSpec {
    /// Selects pools by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_config_pool_selector: Option<LabelSelector>,
}

/// Which generation of an object its controller has handled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HandledStatus {
    /// Generation that the status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
