//! The managed upgrade operator: upgrades a cluster on a date, by steps of which the gates fail
//! closed.
//!
//! It upgrades nothing itself: it sets the release of ClusterVersion, waits for what the version
//! operator and the nodes do, and adds and removes what makes that bearable.
//!
//! Decisions, values in and values out:
//! - [`config`]: the operator's settings
//! - [`release_state`]: what a ClusterVersion says about an upgrade
//! - [`validation`], [`schedule`]: whether an upgrade may be followed, and when it starts
//! - [`plan`]: its steps, and when it ends, for people
//! - [`phase`]: the phases of an upgrade
//! - [`step`], [`history`]: the steps as data, and what they leave in the status
//! - [`hook`]: Jobs before and after steps
//! - [`window`]: how long an upgrade may wait for its gates
//! - [`commence`], [`upgradeable`]: what is written to ClusterVersion, and what speaks against it
//! - [`health`], [`node_view`]: whether the cluster is well, and how far its nodes are
//! - [`node_keeper`]: help for drains that are stuck
//! - [`capacity`], [`silence`], [`notice`]: what is added, silenced and announced
//! - [`cloud_event`]: announcements as `CloudEvents`
//! - [`fleet`]: upgrades that the fleet manager's policies ask for
//!
//! Hands around them:
//! - [`cli`], [`process`]: the command line, one process
//! - `architecture`: the architecture of the cluster
//! - `watches`, `requests`: what is watched, and each request to the API server
//! - [`monitoring`]: requests to Prometheus, Alertmanager and other servers
//! - [`reconcile`]: the UpgradeConfig observed, its phase decided, its steps run
//! - [`metrics`]: the operator's metrics

mod architecture;
pub mod capacity;
pub mod cli;
pub mod cloud_event;
pub mod commence;
pub mod config;
#[cfg(test)]
mod fixture;
pub mod fleet;
pub mod health;
pub mod history;
pub mod hook;
pub mod metrics;
pub mod monitoring;
pub mod node_keeper;
pub mod node_view;
pub mod notice;
pub mod phase;
pub mod plan;
pub mod process;
pub mod reconcile;
pub mod release_state;
mod requests;
pub mod schedule;
pub mod silence;
pub mod step;
pub mod upgradeable;
pub mod validation;
mod watches;
pub mod window;
#[cfg(test)]
mod zeros;
