//! The node daemon and its helper on the host.
//!
//! `mcd` watches, decides, drains and publishes ([`daemon`]); it never links libostree. `mcd-os` acts on the host, one shot at a time.

mod beside;
#[cfg(feature = "node-daemon")]
pub mod daemon;
pub mod deployments;
#[cfg(feature = "host-helper")]
pub mod helper;
pub mod pivot;
pub mod status;
