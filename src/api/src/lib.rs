//! The words of the system: Kubernetes types, annotation and label keys, node states and conditions.
//!
//! They follow the objects of OpenShift's machine-config operator, so that existing objects, clients and dashboards keep working.
//! It must not know: clients, files, clocks, or what any of these objects cause. Types and their reading and printing only.
//!
//! - [`annotation`], [`label`]: keys on nodes, configurations and pools
//! - [`node_state`]: what a node's daemon says about itself
//! - [`condition`]: status of a condition, and enums that keep what they do not know
//! - [`int_or_string`]: a number or a text, as `maxUnavailable` is written
//! - [`machine_config`], [`machine_config_pool`], [`machine_config_node`], [`controller_config`]: the objects of [`GROUP`], version `v1`
//! - [`machine_configuration`]: the cluster's settings, in `operator.openshift.io/v1`
//! - [`crds`]: the CustomResourceDefinitions made from these types; bin `crdgen` writes them to `deploy/crds`

pub mod annotation;
pub mod condition;
pub mod controller_config;
pub mod crds;
pub mod int_or_string;
pub mod label;
pub mod machine_config;
pub mod machine_config_node;
pub mod machine_config_pool;
pub mod machine_configuration;
pub mod node_state;
mod nullable;
mod raw;

pub use condition::{Condition, ConditionStatus};
pub use controller_config::{ControllerConfig, ControllerConfigSpec, ControllerConfigStatus};
pub use int_or_string::IntOrString;
pub use machine_config::{MachineConfig, MachineConfigSpec};
pub use machine_config_node::{MachineConfigNode, MachineConfigNodeSpec, MachineConfigNodeStatus};
pub use machine_config_pool::{MachineConfigPool, MachineConfigPoolSpec, MachineConfigPoolStatus};
pub use machine_configuration::{
    MachineConfiguration, MachineConfigurationSpec, MachineConfigurationStatus,
};
pub use node_state::NodeState;

/// API group of configurations, pools and nodes.
pub const GROUP: &str = "machineconfiguration.openshift.io";

/// Namespace in which the components run and keep their leases.
pub const NAMESPACE: &str = "openshift-machine-config-operator";
