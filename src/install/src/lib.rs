//! What installs and removes Slipway on a cluster: values in, values out.
//!
//! It must not know: requests, files, clocks, terminals.
//!
//! - [`adoption`]: what is taken over from OpenShift's operators, and restored
//! - [`cluster_version`]: the first one, and whether its release is applied
//! - [`component`]: what can be installed apart
//! - [`manifests`]: the objects of a version, as a release brings them
//! - [`order`]: which objects come before which
//! - [`record`]: what the cluster keeps of an installation
//! - [`rival`]: operators of OpenShift that do the same work
//! - [`survey`]: what was seen of cluster and nodes
//! - [`finding`], [`plan`]: what is missing, and what is applied
//! - [`host_pod`]: pods that check hosts, or clean them
//! - [`workload`]: whether programs run
//! - [`removal`]: what is removed, and what stays

#![warn(missing_docs)]

pub mod adoption;
pub mod cluster_version;
pub mod component;
pub mod finding;
pub mod host_pod;
pub mod manifests;
pub mod order;
pub mod plan;
pub mod record;
pub mod removal;
pub mod rival;
pub mod survey;
pub mod workload;
