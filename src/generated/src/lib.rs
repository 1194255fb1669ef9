//! The MachineConfigs that other objects ask for: observed objects in; MachineConfigs, finalizers
//! and what is wrong out.
//!
//! It must not know: files, clocks, networks, async. Values in, values out.
//!
//! - [`pools`]: what is read of a pool
//! - [`latency`]: how often workers report
//! - [`naming`]: which MachineConfigs an object has, by name
//! - [`node_settings`]: settings that all nodes share
//! - [`object`]: a generated MachineConfig, and the status of the object behind it
//! - [`features`]: feature gates of the kubelet
//! - [`kubelet`]: options of kubelets, by KubeletConfigs
//! - [`registries`]: image settings and mirrors
//! - [`runtime`]: options of container runtimes, by ContainerRuntimeConfigs
//! - [`templates`]: base configurations of the roles
//! - [`tls`]: a TLS security profile in the kubelet's words

pub mod features;
pub mod kubelet;
pub mod latency;
pub mod naming;
pub mod node_settings;
pub mod object;
pub mod pools;
pub mod registries;
pub mod runtime;
pub mod templates;
pub mod tls;

#[cfg(test)]
mod zeros;
