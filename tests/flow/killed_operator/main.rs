//! The version operator killed a hundred times in the middle of updates: each update converges,
//! nothing is skipped, and nothing is applied before its run level. Judged by the audit log.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "helpers of tests, and their own files"
)]

mod components;
#[path = "../version_operator/env.rs"]
#[expect(dead_code, reason = "the version operator's own suite uses all of it")]
mod env;
#[path = "../version_operator/payload.rs"]
#[expect(dead_code, reason = "the version operator's own suite uses all of it")]
mod payload;

use std::time::Duration;

use anyhow::Result;
use rand::{Rng as _, SeedableRng as _};

use crate::env::Cluster;

/// Updates, and kills in each.
const UPDATES: usize = 10;
const KILLS: usize = 10;

/// A life is at most so long, in milliseconds: an update takes about as long if no one waits.
const LIFE_MS: u64 = 1_500;

/// Of the lengths of lives; another number, another run.
const SEED: u64 = 18;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary"]
async fn killed_version_operator_skips_nothing_and_keeps_the_order() -> Result<()> {
    let mut random = rand::rngs::StdRng::seed_from_u64(SEED);
    let mut cluster = Cluster::start("killed", 4).await?;
    for update in 0..UPDATES {
        let life = |_: &mut Cluster, _| Duration::from_millis(random.gen_range(0..LIFE_MS));
        cluster.update_by(update, KILLS, life).await?;
    }
    Ok(())
}
