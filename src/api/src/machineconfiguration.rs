//! Group `machineconfiguration.openshift.io`, version `v1`: configurations, pools and nodes.
//!
//! - [`annotation`], [`label`]: keys on nodes, configurations and pools
//! - [`drain_lease`]: who removes pods from a node in the daemon's place
//! - [`node_state`], [`phase_name`]: how far a node is, as its daemon reports it
//! - [`node_status`]: the one reading of a Node's annotations
//! - [`target`]: what a node is assigned
//! - [`node_hold`]: a node that is kept out of the rollout
//! - [`pin_list`]: which pinned images a node is to have, as its annotations say
//! - `machine_config`, `machine_config_pool`, `machine_config_node`, `controller_config`,
//!   `kubelet_config`, `container_runtime_config`, `os_image_stream`, `pinned_image_set`,
//!   `machine_os_config`, `machine_os_build`: the objects (feature `crds`)
//! - `tls_profile`: what of TLS a server takes (feature `crds`)

pub mod annotation;
#[cfg(feature = "crds")]
pub mod container_runtime_config;
#[cfg(feature = "crds")]
pub mod controller_config;
pub mod drain_lease;
#[cfg(feature = "crds")]
pub mod kubelet_config;
pub mod label;
#[cfg(feature = "crds")]
pub mod machine_config;
#[cfg(feature = "crds")]
pub mod machine_config_node;
#[cfg(feature = "crds")]
pub mod machine_config_pool;
#[cfg(feature = "crds")]
pub mod machine_os_build;
#[cfg(feature = "crds")]
pub mod machine_os_config;
pub mod node_hold;
pub mod node_state;
pub mod node_status;
#[cfg(feature = "crds")]
pub mod os_image_stream;
pub mod phase_name;
pub mod pin_list;
#[cfg(feature = "crds")]
pub mod pinned_image_set;
pub mod target;
#[cfg(feature = "crds")]
pub mod tls_profile;

#[cfg(feature = "crds")]
pub use container_runtime_config::{
    AdditionalStore, ContainerRuntimeConfig, ContainerRuntimeConfigSpec, RuntimeOptions,
};
#[cfg(feature = "crds")]
pub use controller_config::{ControllerConfig, ControllerConfigSpec, ControllerConfigStatus};
pub use drain_lease::DrainLease;
#[cfg(feature = "crds")]
pub use kubelet_config::{
    KubeletConfig, KubeletConfigSpec, SettingCondition, SettingConditionType, SettingStatus,
};
#[cfg(feature = "crds")]
pub use machine_config::{MachineConfig, MachineConfigSpec};
#[cfg(feature = "crds")]
pub use machine_config_node::{MachineConfigNode, MachineConfigNodeSpec, MachineConfigNodeStatus};
#[cfg(feature = "crds")]
pub use machine_config_pool::{MachineConfigPool, MachineConfigPoolSpec, MachineConfigPoolStatus};
#[cfg(feature = "crds")]
pub use machine_os_build::{
    BuildConditionType, BuildHold, BuildPhase, MachineOSBuild, MachineOsBuildSpec,
    MachineOsBuildStatus,
};
#[cfg(feature = "crds")]
pub use machine_os_config::{MachineOSConfig, MachineOsConfigSpec, MachineOsConfigStatus};
pub use node_hold::NodeHold;
pub use node_state::NodeState;
pub use node_status::{DRAIN_OVERDUE, NodeStatus};
#[cfg(feature = "crds")]
pub use os_image_stream::{AvailableStream, OSImageStream};
pub use phase_name::PhaseName;
pub use pin_list::{NotPinned, NotPinnedReason, PinList, PinStamp};
#[cfg(feature = "crds")]
pub use pinned_image_set::{PinnedImageRef, PinnedImageSet, PinnedImageSetSpec};
pub use target::Target;
#[cfg(feature = "crds")]
pub use tls_profile::TlsSecurityProfile;

/// Name of the group.
pub const GROUP: &str = "machineconfiguration.openshift.io";

/// Namespace in which the group's components run and keep their leases.
pub const NAMESPACE: &str = "openshift-machine-config-operator";
