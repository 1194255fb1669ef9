//! Group `operator.openshift.io`, version `v1`: settings of the cluster's components.

pub mod machine_configuration;

pub use machine_configuration::{
    MachineConfiguration, MachineConfigurationSpec, MachineConfigurationStatus,
};
