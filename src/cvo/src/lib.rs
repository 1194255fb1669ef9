//! The version operator: applies the release that it belongs to and reports on ClusterVersion.
//!
//! Decisions are values in, values out; requests are in `hands`, `reconcile` and `payload`.
//!
//! - [`cli`], [`process`], [`version`]: the command line, one process, its build
//! - [`payload`]: the files of a release in a directory
//! - [`builder`]: how a manifest becomes an object, and what is waited for
//! - [`engine`]: one pass over a release
//! - [`hands`]: requests, and what is remembered of their answers
//! - [`failure`]: why a release is not applied, one cause or several
//! - [`progress`], [`report`]: how much is applied, and what the engine has come to
//! - [`validation`], [`history`], [`status`]: what ClusterVersion asks for, and its status
//! - [`watches`], [`reconcile`]: the controller

pub mod builder;
pub mod cli;
pub mod engine;
pub mod failure;
pub mod hands;
pub mod history;
pub mod payload;
pub mod process;
pub mod progress;
pub mod reconcile;
pub mod report;
pub mod status;
pub mod validation;
pub mod version;
pub mod watches;
