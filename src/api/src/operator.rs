//! Group `operator.openshift.io`: settings of the cluster's components.

pub mod content_source_policy;
pub mod machine_configuration;

pub use content_source_policy::{ImageContentSourcePolicy, RepositoryMirrors};
pub use machine_configuration::{
    MachineConfiguration, MachineConfigurationSpec, MachineConfigurationStatus,
};
