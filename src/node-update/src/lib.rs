//! Thinking about an update of a node: compare, reject, plan, verify, and the node's state machine.
//!
//! It must not know: files, clocks, networks, async. Values in, values out.
//!
//! - [`certificates`]: what a cluster rotates under its nodes
//! - [`decode`]: from a MachineConfig to what it wants of a host
//! - [`diff`]: what differs between two MachineConfigs
//! - [`disruption`]: what a change does to a running node
//! - [`host_report`]: what `mcd host-check` and `mcd host-remove` print
//! - [`join_kubeconfig`]: the file by which a node joins its cluster
//! - [`late`]: what others wrote in `/etc` after a deployment was made from another
//! - [`mod@one_line`]: texts of others, as part of a reason
//! - `packages`: which packages of the OS a change needs
//! - [`paths`]: where a configuration may write, and what only an image brings
//! - [`phase`]: the node's state machine
//! - [`pins`]: images that a node pulls ahead and keeps
//! - [`plan`]: an update as data
//! - [`planner`]: from two configurations to a plan, or to rejections
//! - [`pull`]: how images are pulled, and what a target changes in it
//! - [`reconcile`]: whether one can follow another
//! - [`rejection`]: why one cannot, and which MachineConfig asks for it
//! - [`settings`]: what a cluster says about changes
//! - [`verify`]: what must hold on a host, and the judgement over what was observed
//! - [`well_known`]: names and paths on a host

pub mod certificates;
pub mod decode;
mod desired;
pub mod diff;
pub mod disruption;
mod early;
pub mod host_report;
pub mod join_kubeconfig;
mod kubelet;
pub mod late;
pub mod one_line;
mod packages;
pub mod paths;
pub mod phase;
pub mod pins;
pub mod plan;
pub mod planner;
pub mod pull;
pub mod reconcile;
pub mod rejection;
pub mod settings;
mod unit_settings;
pub mod verify;
pub mod well_known;

/// Kernel arguments, as a [`plan::Deploy`] names them.
pub use machineconfig::kargs;
