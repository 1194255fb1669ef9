//! Thinking about MachineConfigs: parse, merge, name, compare, plan, verify, and the node's state machine.
//!
//! It must not know: files, clocks, networks, async. Values in, values out.
//!
//! - [`certificates`]: what a cluster rotates under its nodes
//! - [`diff`]: what differs between two MachineConfigs
//! - [`disruption`]: what a change does to a running node
//! - [`ignition`]: Ignition configurations, read and validated
//! - [`kargs`]: kernel arguments
//! - [`merge`]: a child configuration over its parent
//! - [`name`]: what a rendered configuration is called
//! - [`phase`]: the node's state machine
//! - [`plan`]: an update as data
//! - [`planner`]: from two configurations to a plan, or to the reasons against it
//! - [`reconcile`]: whether one can follow another
//! - [`render`]: the MachineConfigs of a pool made one
//! - [`spec`]: a MachineConfig, read
//! - [`verify`]: what must hold on a host, and the judgement over what was observed

pub mod certificates;
pub mod diff;
pub mod disruption;
pub mod ignition;
pub mod kargs;
pub mod merge;
pub mod name;
mod paths;
pub mod phase;
pub mod plan;
pub mod planner;
pub mod reconcile;
pub mod render;
pub mod spec;
pub mod verify;
mod wanted;

#[cfg(test)]
mod arbitrary;
