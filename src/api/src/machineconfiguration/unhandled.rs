//! Kinds that ask something of pools and that no program here handles, as far as that is read: to
//! say so, and to leave alone what another controller does.
//!
//! Their CustomResourceDefinitions are not ours; a cluster may lack them.

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
