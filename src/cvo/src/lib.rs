//! The version operator: applies the release that it belongs to and reports on ClusterVersion.
//!
//! Decisions are values in, values out; requests are in `hands`, `reconcile`, `payload`, `outbound`,
//! `verifier`, `retrieval` and the jobs.
//!
//! - [`cli`], [`process`]: the command line, one process
//! - [`payload`]: the files of a release in a directory
//! - [`builder`]: how a manifest becomes an object, and what is waited for
//! - [`engine`]: one pass over a release
//! - [`hands`]: requests, and what is remembered of their answers
//! - [`failure`]: why a release is not applied, one cause or several
//! - [`progress`], [`report`]: how much is applied, and what the engine has come to
//! - [`validation`], [`history`], [`status`]: what ClusterVersion asks for, and its status
//! - [`dropped`]: objects that a release before had
//! - [`overrides`]: what an administrator takes from the release, and for how long
//! - [`verifier`], `outbound`: whether another release is signed; requests to servers outside
//! - [`retrieval`], [`retrieval_job`]: how another release comes to this program's disk
//! - [`job`]: a Job of this program, to its end
//! - [`precondition`], [`upgradeable`]: what speaks against another release
//! - [`preflight`], [`render_job`], [`rehearsal`]: what would fail of another release, before
//!   anything is changed
//! - [`advice`], [`risk`], [`alert`]: which updates the service advises, and which risks apply
//! - [`metrics`], [`authorities`], [`events`]: what dashboards read, who may read it, what is said
//!   in events
//! - [`watches`], [`reconcile`]: the controller

pub mod advice;
pub mod alert;
pub mod authorities;
pub mod builder;
pub mod cli;
pub mod dropped;
pub mod engine;
pub mod events;
pub mod failure;
pub mod hands;
pub mod history;
pub mod job;
pub mod metrics;
mod outbound;
pub mod overrides;
pub mod payload;
pub mod precondition;
pub mod preflight;
pub mod process;
pub mod progress;
pub mod reconcile;
pub mod rehearsal;
pub mod render_job;
pub mod report;
pub mod retrieval;
pub mod retrieval_job;
pub mod risk;
pub mod status;
pub mod upgradeable;
pub mod validation;
pub mod verifier;
pub mod watches;
#[cfg(test)]
mod zeros;
