//! The version operator, killed and run by the other release in the middle of updates.

use std::time::Duration;

use anyhow::{Result, ensure};
use rand::{Rng as _, SeedableRng as _};

use crate::env::Cluster;
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
        // Each of the releases begins every other update.
        let life = |cluster: &mut Cluster, turn: usize| {
            cluster.programs = Some(releases[(update + turn) % 2].programs.clone());
            Duration::from_millis(random.gen_range(0..LIFE_MS))
        };
        cluster.update_by(update, CHANGES, life).await?;
        let version = format!("4.2.{update}");
        let history = cluster.status().await?.history;
        let states: Vec<_> = history.iter().map(|entry| entry.version.as_str()).collect();
        ensure!(
            states.first() == Some(&version.as_str()) && history.len() == update + 2,
            "update {update}: the history has {states:?}"
        );
    }
    Ok(())
}
