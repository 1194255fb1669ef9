//! The progress record: what clients read of an update, over a restart.

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use lab::{PATIENCE, wait};
use release::progress::{KEY, NAME, NAMESPACE, ProgressRecord};

use crate::env::{Cluster, is_write};
use crate::payload::{COMPONENTS, VERSION};

impl Cluster {
    /// Waits until the record is as it should be.
    async fn until_recorded(
        &self,
        what: &str,
        is_it: impl Fn(&ProgressRecord) -> bool,
    ) -> Result<ProgressRecord> {
        let maps: Api<ConfigMap> = self.namespaced(NAMESPACE);
        wait::until(what, PATIENCE, async || {
            let Some(map) = maps.get_opt(NAME).await? else {
                return Ok(Err("none".to_owned()));
            };
            let text = map.data.unwrap_or_default().remove(KEY).context(KEY)?;
            let record = ProgressRecord::parse(&text)?;
            Ok(if is_it(&record) {
                Ok(record)
            } else {
                Err(text)
            })
        })
        .await
    }

    /// How often the record was written.
    fn records(&self) -> Result<usize> {
        let events = self.events()?;
        let is_record = |event: &&lab::audit::Event| {
            let name = event.object.as_ref().map(|object| object.name.as_str());
            is_write(event) && event.succeeded() && name == Some(NAME)
        };
        Ok(events.iter().filter(is_record).count())
    }
}

/// Since when the record says that an operator is waited for.
fn since(record: &ProgressRecord, operator: &str) -> Option<Timestamp> {
    let object = format!("clusteroperator \"{operator}\"");
    let wait = record.waits.iter().find(|wait| wait.object == object);
    wait.map(|wait| wait.since)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary"]
async fn record_says_what_is_done_and_waited_for_and_keeps_it_over_a_restart() -> Result<()> {
    let cluster = Cluster::start("record", 4).await?;
    let process = cluster.run()?;
    let begun = cluster
        .until_recorded("the record", |record| record.version == VERSION)
        .await?;
    cluster
        .until_condition("Progressing", "the cluster operator alpha is not available")
        .await?;
    cluster.report("alpha", VERSION).await?;
    let before = cluster
        .until_recorded("a wait for beta", |record| since(record, "beta").is_some())
        .await?;
    let state = |record: &ProgressRecord| -> Vec<(String, bool, bool)> {
        let steps = record.steps.iter().map(|step| {
            let (is_begun, is_ended) = (step.started.is_some(), step.ended.is_some());
            let place = format!("{} {}", step.run_level, step.component);
            (place, is_begun, is_ended)
        });
        steps.collect()
    };
    let step = |place: &str, is_begun, is_ended| (place.to_owned(), is_begun, is_ended);
    let expected = [
        step("90 own", true, true),
        step("10 alpha", true, true),
        step("20 beta", true, false),
        step("50 gamma", false, false),
    ];
    assert_eq!(state(&before), expected);
    assert_eq!(before.started, begun.started);
    drop(process);

    // The next process begins at the first manifest, and the record does not.
    let process = cluster.run()?;
    cluster
        .until_condition("Progressing", "the cluster operator beta is not available")
        .await?;
    cluster.report("beta", VERSION).await?;
    let after = cluster
        .until_recorded("a wait for gamma", |record| {
            since(record, "gamma").is_some()
        })
        .await?;
    assert_eq!(after.steps[..2], before.steps[..2]);
    assert_eq!(after.steps[2].started, before.steps[2].started);
    cluster.report("gamma", VERSION).await?;
    let done = cluster
        .until_recorded("the end", |record| record.completed.is_some())
        .await?;
    assert_eq!(done.waits, []);
    assert!(
        done.steps.iter().all(|step| step.earlier_secs.len() == 1),
        "{done:?}"
    );
    // Four steps, three waits, begin, end and the restart; not one a second.
    let records = cluster.records()?;
    assert!((3..=10).contains(&records), "{records} writes");
    // What is kept as it is is not recorded.
    let passes = cluster.passes()?;
    cluster.until_passes(passes + 2).await?;
    assert_eq!(cluster.records()?, records);
    assert_eq!(COMPONENTS.len() + 1, done.steps.len());
    drop(process);
    Ok(())
}
