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

use anyhow::{Context as _, Result, ensure};
use rand::{Rng as _, SeedableRng as _};

use crate::components::in_order;
use crate::env::Cluster;
use crate::payload::COMPONENTS;

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
        let version = format!("4.2.{update}");
        cluster.payload.rewrite(&version)?;
        // Another image is another release.
        cluster.image = format!("registry.example/release@sha256:{update}{update}");
        let before = cluster.events()?.len();
        let operators = cluster.play_operators(&version);
        for _ in 0..KILLS {
            let process = cluster.run()?;
            tokio::time::sleep(Duration::from_millis(random.gen_range(0..LIFE_MS))).await;
            drop(process);
        }
        let process = cluster.run()?;
        let done = format!("Cluster version is {version}");
        cluster.until_condition("Progressing", &done).await?;
        drop(process);
        operators.abort();
        for (_, component) in COMPONENTS {
            let data = cluster.maps.get(component).await?.data.unwrap_or_default();
            ensure!(
                data["version"] == version,
                "update {update}: {component} was skipped"
            );
        }
        let events = cluster.events()?;
        in_order(&events[before..], &version).with_context(|| format!("update {update}"))?;
    }
    Ok(())
}
