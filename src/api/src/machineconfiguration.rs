//! Group `machineconfiguration.openshift.io`, version `v1`: configurations, pools and nodes.
//!
//! - [`annotation`], [`label`]: keys on nodes, configurations and pools
//! - [`node_state`]: what a node's daemon says about itself
//! - [`machine_config`], [`machine_config_pool`], [`machine_config_node`], [`controller_config`]: the
//!   objects

pub mod annotation;
pub mod controller_config;
pub mod label;
pub mod machine_config;
pub mod machine_config_node;
pub mod machine_config_pool;
pub mod node_state;

pub use controller_config::{ControllerConfig, ControllerConfigSpec, ControllerConfigStatus};
pub use machine_config::{MachineConfig, MachineConfigSpec};
pub use machine_config_node::{MachineConfigNode, MachineConfigNodeSpec, MachineConfigNodeStatus};
pub use machine_config_pool::{MachineConfigPool, MachineConfigPoolSpec, MachineConfigPoolStatus};
pub use node_state::NodeState;

/// Name of the group.
pub const GROUP: &str = "machineconfiguration.openshift.io";

/// Namespace in which the group's components run and keep their leases.
pub const NAMESPACE: &str = "openshift-machine-config-operator";
