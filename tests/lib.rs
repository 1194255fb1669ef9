//! Suites that cross crates, and what they share. The lab itself is in `support/`.
//!
//! - [`bare`]: hosts without one
//! - [`cluster`]: a cluster of real parts
//! - [`logs`]: where runs leave their logs
//! - [`observer`]: judges what happened in a run
//! - [`plan`]: plans without a daemon

pub mod bare;
pub mod cluster;
pub mod logs;
pub mod observer;
pub mod plan;
