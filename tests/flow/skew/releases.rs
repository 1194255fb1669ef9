//! The version operator, killed and run by the other release in the middle of updates.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rand::{Rng as _, SeedableRng as _};

use crate::components::in_order;
use crate::env::Cluster;
use crate::payload::COMPONENTS;
use crate::releases;

/// Updates, and changes of the program in each.
const UPDATES: usize = 6;
const CHANGES: usize = 6;

/// A life is at most so long, in milliseconds: an update takes about as long if no one waits.
const LIFE_MS: u64 = 1_500;

/// Of the lengths of lives; another number, another run.
const SEED: u64 = 37;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary, and the programs of the last release"]
async fn an_update_goes_on_whichever_operator_applies_it() -> Result<()> {
    let releases = releases()?;
    let mut random = rand::rngs::StdRng::seed_from_u64(SEED);
    let mut cluster = Cluster::start("skew", 4).await?;
    for update in 0..UPDATES {
        let version = format!("4.2.{update}");
        cluster.payload.rewrite(&version)?;
        // Another image is another release.
        cluster.image = format!("registry.example/release@sha256:{update}{update}");
        let before = cluster.events()?.len();
        let operators = cluster.play_operators(&version);
        // Each of them begins every other update.
        for turn in 0..CHANGES {
            cluster.programs = Some(releases[(update + turn) % 2].programs.clone());
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
        let history = cluster.status().await?.history;
        let states: Vec<_> = history.iter().map(|entry| entry.version.as_str()).collect();
        ensure!(
            states.first() == Some(&version.as_str()) && history.len() == update + 2,
            "update {update}: the history has {states:?}"
        );
    }
    Ok(())
}
