//! The hands on a host: what an update does to files, accounts, units and deployments.
//!
//! It must not know: Kubernetes, clusters, networks, or why something is done. It takes decisions
//! (a [`node_update::plan::Plan`]) and acts on them, so that every act can run twice and be undone.
//!
//! - [`accounts`]: users, groups and passwords of a root
//! - [`boot_loader`]: how often it tries what it boots first
//! - [`execute`]: runs a stored plan, and takes it back
//! - [`files`]: files below a root, put in place whole or not at all
//! - [`journal`]: what is under way, stored before its first effect
//! - [`late`]: what changed too late to come along
//! - `ostree` (feature): deployments and images, by libostree
//! - [`observe`]: what is seen for the expectations of a configuration
//! - [`process`]: the one place that spawns
//! - [`systemd`]: units of the running system over D-Bus, unit files of one that does not run

pub mod accounts;
pub mod boot_loader;
pub mod execute;
pub mod files;
pub mod journal;
pub mod late;
pub mod observe;
#[cfg(feature = "ostree")]
pub mod ostree;
pub mod process;
pub mod systemd;
