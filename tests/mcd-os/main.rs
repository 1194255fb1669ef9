//! `mcd-os`, `mcd pivot`, `mcd status` and `mcd host-…` on real hosts, without a cluster.
//!
//! Each test makes a host of its own and takes it down. They need root, the lab's tree, and the
//! programs that `make binaries` leaves in `target/slipway`, or a directory named by
//! `SLIPWAY_BINARIES`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod configs;
mod derived;
mod env;
mod host_verbs;
mod images;
mod live;
mod pivot;
mod policy;
mod refusals;
mod registries;
mod rollback;
mod update;
