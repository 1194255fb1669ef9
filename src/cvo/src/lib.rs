//! The version operator: applies the release that it belongs to and reports on ClusterVersion.
//!
//! What is decided is in `version-update`: values in, values out. Here requests are made.
//!
//! - [`cli`], [`process`]: the command line, one process
//! - [`payload`]: the files of a release in a directory
//! - [`engine`]: one pass over a release
//! - [`requests`], `request_failure`: requests, and what one that failed means
//! - [`applied`]: what was applied of each object
//! - [`verifier`], `outbound`: whether another release is signed; requests to servers outside
//! - [`node_registries`]: signatures beside images, where nodes pull these from
//! - [`retrieval`], [`retrieval_job`]: how another release comes to this program's disk
//! - [`job`]: a Job of this program, to its end
//! - [`render_job`], [`rehearsal`]: what would fail of another release, before anything is changed
//! - [`metrics`], [`authorities`], [`events`]: what dashboards read, who may read it, what is said
//!   in events
//! - [`watches`], [`reconcile`]: the controller

pub mod applied;
pub mod authorities;
pub mod cli;
pub mod engine;
pub mod events;
pub mod job;
pub mod metrics;
pub mod node_registries;
mod outbound;
pub mod payload;
pub mod process;
pub mod reconcile;
pub mod rehearsal;
pub mod render_job;
mod request_failure;
pub mod requests;
pub mod retrieval;
pub mod retrieval_job;
pub mod verifier;
pub mod watches;
#[cfg(test)]
mod zeros;
