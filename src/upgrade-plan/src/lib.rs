//! What is decided about the managed upgrade of a cluster: values in, values out.
//!
//! It must not know: requests, files, clocks.
//!
//! - [`config`]: the operator's settings
//! - [`release_state`]: what a ClusterVersion says about an upgrade
//! - [`validation`], [`schedule`]: whether an upgrade may be followed, and when it starts
//! - [`plan`]: its steps, and when it ends, for people
//! - [`phase`]: the phases of an upgrade
//! - [`step`], [`history`]: the steps as data, and what they leave in the status
//! - [`hook`]: Jobs before and after steps
//! - [`pass`], [`walk`]: what a pass works on, and what it observes and does next
//! - [`window`]: how long an upgrade may wait for its gates
//! - [`commence`], [`upgradeable`]: what is written to ClusterVersion, and what speaks against it
//! - [`health`], [`node_view`]: whether the cluster is well, and how far its nodes are
//! - [`drain_help`]: help for drains that are stuck
//! - [`capacity`], [`silence`], [`notice`]: what is added, silenced and announced
//! - [`cloud_event`]: announcements as `CloudEvents`
//! - [`series`]: what metrics show of it
//! - [`fleet`]: upgrades that the fleet manager's policies ask for

pub mod capacity;
pub mod cloud_event;
pub mod commence;
pub mod config;
pub mod drain_help;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod fleet;
pub mod health;
pub mod history;
pub mod hook;
pub mod node_view;
pub mod notice;
pub mod pass;
pub mod phase;
pub mod plan;
pub mod release_state;
pub mod schedule;
pub mod series;
pub mod silence;
pub mod step;
pub mod upgradeable;
pub mod validation;
pub mod walk;
pub mod window;
#[cfg(test)]
mod zeros;
