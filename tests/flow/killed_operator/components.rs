//! The operators of a release's components, played; and whether their run levels were kept.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lab::audit::Event;
use serde_json::json;
use testbed::objects;

use crate::env::{Cluster, WELL, is_write};
use crate::payload::COMPONENTS;

impl Cluster {
    /// Updates the cluster to `4.2.<update>` by version operators that are killed one after
    /// another. `life` prepares each one, and returns how long it lives. A last one completes the
    /// update. Nothing is skipped, and the order is kept.
    pub(crate) async fn update_by(
        &mut self,
        update: usize,
        lives: usize,
        mut life: impl FnMut(&mut Self, usize) -> Duration,
    ) -> Result<()> {
        let version = format!("4.2.{update}");
        self.payload.rewrite(&version)?;
        // Another image is another release.
        self.image = format!("registry.example/release@sha256:{update}{update}");
        let before = self.events()?.len();
        let operators = self.play_operators(&version);
        for number in 0..lives {
            let length = life(self, number);
            let process = self.run()?;
            tokio::time::sleep(length).await;
            drop(process);
        }
        let process = self.run()?;
        let done = format!("Cluster version is {version}");
        self.until_condition("Progressing", &done).await?;
        drop(process);
        operators.abort();
        for (_, component) in COMPONENTS {
            let data = self.maps.get(component).await?.data.unwrap_or_default();
            ensure!(
                data["version"] == version,
                "update {update}: {component} was skipped"
            );
        }
        let events = self.events()?;
        in_order(&events[before..], &version).with_context(|| format!("update {update}"))
    }

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
