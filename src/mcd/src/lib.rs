//! The node daemon and its helper on the host.
//!
//! `mcd` watches, decides, drains and publishes ([`daemon`]); it never links libostree. `mcd-os`
//! ([`os`]) acts on the host, one shot at a time: the daemon runs it in units of the host,
//! `mcd pivot`, `mcd rollback` and `mcd status` beside themselves. They exchange what [`protocol`]
//! says.

mod by_hand;
#[cfg(feature = "node-daemon")]
pub mod daemon;
pub mod deployments;
#[cfg(feature = "node-daemon")]
pub mod first_boot;
#[cfg(feature = "node-daemon")]
pub mod host_check;
#[cfg(feature = "node-daemon")]
pub mod host_remove;
mod installed;
mod local_helper;
#[cfg(feature = "host-helper")]
pub mod os;
mod own_units;
pub mod pivot;
mod program;
pub mod protocol;
pub mod rollback;
pub mod status;
mod updaters;
