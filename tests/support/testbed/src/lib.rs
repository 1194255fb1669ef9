//! What suites and tools run on: clusters and hosts of the lab's real parts, with the programs
//! under test.
//!
//! [`Testbed`] builds a [`Cluster`] from nodes, objects and components; a [`Component`] is a folder
//! of `deploy/`. [`HostLab`] is for hosts without a cluster.
//!
//! - [`config`]: MachineConfigs of suites
//! - [`files`]: directories by their bytes
//! - [`http`]: requests to servers of a run
//! - [`logs`]: where runs leave their logs
//! - [`objects`]: the cluster's objects, as an administrator writes and reads them
//! - [`plan`]: plans without a daemon
//! - [`single_host`]: the programs on a host without a cluster

#![expect(
    clippy::missing_errors_doc,
    reason = "an error ends the test, and says what failed"
)]

mod account;
mod alert_servers;
mod api_server;
mod authority;
mod builder;
mod certificates;
mod cluster;
mod component;
pub mod config;
mod config_server;
pub mod files;
mod host_lab;
pub mod http;
mod images;
pub mod logs;
mod monitoring;
mod monitors;
mod node_spec;
pub mod objects;
pub mod plan;
mod policies;
mod programs;
mod replace;
mod signing;
pub mod single_host;
mod slipway;
mod tls_door;
mod versioned_cluster;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use lab::wait::{until, until_blocking, until_so};

pub use self::alert_servers::{AlertServers, AlertSettings, Silence};
pub use self::api_server::{ApiServer, complete_release};
pub use self::authority::Authority;
pub use self::builder::Testbed;
pub use self::certificates::{RotatedVersions, VERSION};
pub use self::cluster::Cluster;
pub use self::component::{CONTROLLER, Component, DAEMON, OPERATOR};
pub use self::config_server::ConfigServer;
pub use self::host_lab::{HostLab, Image};
pub use self::monitoring::Monitoring;
pub use self::node_spec::{CONTROL_PLANE_POOL, NodeSpec};
pub use self::programs::Programs;
pub use self::signing::{ReleaseKey, SignatureServer, keyring};
pub use self::slipway::{Printed, slipway};
pub use self::versioned_cluster::VersionedCluster;

/// How long what starts on its own may take to be there.
pub const SOON: Duration = lab::PATIENCE;

/// How long an update of a node may take, a reboot included.
pub const DONE_WITHIN: Duration = SOON.saturating_mul(3);

/// The checkout.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}
