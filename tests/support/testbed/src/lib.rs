//! What suites and tools run on: clusters and hosts of the lab's real parts, with the programs under test.
//!
//! - [`bare`]: hosts without a cluster
//! - [`cluster`]: a cluster of real parts
//! - [`logs`]: where runs leave their logs
//! - [`plan`]: plans without a daemon

pub mod bare;
pub mod cluster;
pub mod logs;
pub mod plan;
