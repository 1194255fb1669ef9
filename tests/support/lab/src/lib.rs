//! The lab: real parts on one machine, and the logs by which an observer judges what happened on
//! them.
//!
//! It knows nothing of what it tests: neither its crates nor the steps that it takes, but for
//! `cluster::apply`, which brings objects into the cluster. Everything blocks, and all of it needs
//! root but the reading of logs.
//!
//! - `tree`: the operating system, and commits made from it
//! - `image`, `registry`: those commits as container images, and which host fetched them when
//! - `place`: where one run's things live, and how they go with it; `network`, `disk`, `cgroup` are
//!   what it is made of; `inotify`, `ports`: what it shares with others on the machine;
//!   `outpost`: a place in its network without a host
//! - `host`: a systemd on a deployment, in namespaces; programs on it as a DaemonSet's container
//! - `vm`: a machine under qemu, with firmware, boot loader and kernel
//! - `control_plane`: a real one of Kubernetes
//! - `manifest`: objects from files, and how they get there
//! - `workload`: the DaemonSet or Deployment among them
//! - `audit`: its log as typed events
//! - `wait`: until something is so
//! - `skipped`: what a run did not prove

pub mod audit;
mod cgroup;
pub mod control_plane;
mod disk;
pub mod host;
pub mod image;
mod inotify;
pub mod manifest;
mod network;
mod outpost;
mod place;
mod ports;
pub mod registry;
mod skipped;
pub mod tree;
mod upstream;
pub mod vm;
pub mod wait;
pub mod workload;

use std::time::Duration;

pub use prebuilt::cache;
pub(crate) use prebuilt::program;

pub use self::outpost::Outpost;
pub use self::place::Lab;
pub use self::ports::free_address;
pub use self::skipped::skipped;
pub use self::upstream::upstream_data;

/// How long may take what an idle machine does within seconds. Only something broken takes as long,
/// so that a test waits for its result and for no more; several suites on two cores make all of it
/// slow.
pub const PATIENCE: Duration = Duration::from_mins(3);
