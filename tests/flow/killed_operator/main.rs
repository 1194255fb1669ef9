//! The version operator killed a hundred times in the middle of updates: each update converges,
//! nothing is skipped, and nothing is applied before its run level. Judged by the audit log.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "helpers of tests, and their own files"
)]

#[path = "../version_operator/env.rs"]
#[expect(dead_code, reason = "the version operator's own suite uses all of it")]
mod env;
#[path = "../version_operator/payload.rs"]
#[expect(dead_code, reason = "the version operator's own suite uses all of it")]
mod payload;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lab::audit::Event;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;
use testbed::objects;

use crate::env::{Cluster, WELL, is_write};
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

impl Cluster {
    /// Plays the operators of all components: each reports a version once its ConfigMap has it.
    fn play_operators(&self, version: &str) -> tokio::task::JoinHandle<()> {
        const PAUSE: Duration = Duration::from_millis(100);
        let (operators, maps) = (self.operators.clone(), self.maps.clone());
        let version = version.to_owned();
        tokio::spawn(async move {
            for (_, component) in COMPONENTS {
                loop {
                    tokio::time::sleep(PAUSE).await;
                    let map = maps.get_opt(component).await.ok().flatten();
                    let data = map.and_then(|map| map.data).unwrap_or_default();
                    let is_there = data.get("version") == Some(&version);
                    let report = objects::report(&operators, component, &version, &WELL);
                    if is_there && report.await.is_ok() {
                        break;
                    }
                }
            }
        })
    }
}

/// Nothing of a component is written before the operator of the run level before has reported the
/// version.
fn in_order(events: &[Event], version: &str) -> Result<()> {
    let is_of = |event: &Event, component: &str| {
        let object = event.object.as_ref();
        event.succeeded() && object.is_some_and(|object| object.name == component)
    };
    let is_report = |event: &Event| {
        let body = event.request.as_ref();
        let reported = body.and_then(|body| body.pointer("/status/versions/0/version"));
        !is_write(event) && reported == Some(&json!(version))
    };
    let mut level_done = None;
    for (_, component) in COMPONENTS {
        let own = || events.iter().filter(|event| is_of(event, component));
        // No version operator ran when they began: what is written is of this release.
        let first = own().find(|event| is_write(event));
        let first = first.with_context(|| format!("{component} was not written"))?;
        if let Some(done) = level_done {
            ensure!(first.received > done, "{component} before its run level");
        }
        let reported = own().find(|event| is_report(event));
        let reported = reported.with_context(|| format!("{component} did not report"))?;
        level_done = Some(reported.received);
    }
    Ok(())
}
