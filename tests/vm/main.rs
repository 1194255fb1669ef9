//! Updates of a machine: its power is cut, its target does not boot, its target is no node.
//!
//! - `machine`: a machine with the program under test
//! - `power_cut`: cut at ten points of an update
//! - `bad_target`: targets that have to be left
//! - `enforcing`: a machine whose kernel enforces SELinux
//!
//! Emulated: a boot takes half a minute.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]
#![expect(clippy::print_stderr, reason = "a run of minutes prints how far it is")]

mod bad_target;
#[expect(
    dead_code,
    reason = "those of a host in namespaces, of which a machine needs few"
)]
#[path = "../mcd-os/configs.rs"]
mod configs;
mod enforcing;
mod machine;
mod power_cut;
