//! Programs of the last release beside those under test, in both directions, changed in the middle
//! of what they do.
//!
//! - `pools`: controller, daemons, helper and definitions, changed while a pool rolls
//! - `nodes`: daemon and helper, changed in each phase of a node's update
//! - `releases`: the version operator, changed while it applies a release
//! - `kubelets`: kubelets that are older than the API server
//! - `both_hops`: two minor releases of the control plane, and one reboot of each older worker
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "helpers of tests, and their own files"
)]

mod both_hops;
#[path = "../killed_operator/components.rs"]
mod components;
#[path = "../version_operator/env.rs"]
#[expect(dead_code, reason = "the version operator's own suite uses all of it")]
mod env;
#[path = "../interrupted/hold.rs"]
mod hold;
mod kubelets;
mod nodes;
#[path = "../version_operator/payload.rs"]
#[expect(dead_code, reason = "the version operator's own suite uses all of it")]
mod payload;
mod pools;
#[path = "../update_cluster/release.rs"]
mod release;
mod releases;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use jiff::Timestamp;
use testbed::{Cluster, Programs};

/// The programs of one release, and its custom resource definitions.
struct Release {
    name: &'static str,
    programs: Programs,
    definitions: PathBuf,
}

/// That before, and that under test.
fn releases() -> Result<[Release; 2]> {
    let last = Programs::of_last_release()?;
    let last = Release {
        name: "last",
        definitions: last.folder().join("deploy/crds"),
        programs: last,
    };
    let this = Release {
        name: "this",
        definitions: testbed::workspace().join("deploy/crds"),
        programs: Programs::built()?,
    };
    Ok([last, this])
}

/// Judges what was recorded since by the laws that hold in any run.
fn judge(cluster: &Cluster, since: Timestamp) -> Result<()> {
    let breaches = cluster.record()?.judge(since);
    let found: Vec<_> = breaches.iter().map(ToString::to_string).collect();
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}
