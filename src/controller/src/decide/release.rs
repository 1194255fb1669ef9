//! How far the cluster is on its way to the controller's release.
//!
//! - [`images`]: what the release's `ConfigMap`s say, and what of it the ControllerConfig lacks
//! - [`daemons`]: whether the release's daemons run
//! - [`required`]: whether the pools are there that a release waits for
//! - [`steps`]: which step is next, and how far it is
//! - [`status`]: the status of the ClusterOperator
//! - [`streams`]: OSImageStream, and what of it is the release's

pub mod daemons;
pub mod images;
pub mod required;
pub mod status;
pub mod steps;
pub mod streams;
