//! The version operator against a real API server: a release of three components is applied run
//! level by run level, reported on ClusterVersion, resumed after a kill, and kept without writes.
//!
//! - `env`, `payload`: the cluster and the release
//! - `faults`: what breaks around the version operator
//! - `first`: the first release of a cluster
//! - `machine_config`: run level 80 with the real controller
//! - `preflight`: the pools of another release are rendered ahead
//! - `record`: the progress record
//! - `replaced`: Jobs that cannot be changed, and fields that a release drops
//! - `scraped`: metrics over HTTPS
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "helpers of tests, and their own files"
)]

mod env;
mod faults;
mod first;
mod machine_config;
mod payload;
mod preflight;
mod record;
mod replaced;
mod scraped;

use anyhow::{Context as _, Result};
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use lab::audit::{Event, Verb};
use lab::wait;
use serde_json::json;
use testbed::objects;

use crate::env::{Cluster, is_write};
use crate::payload::{COMPONENTS, IMAGE, INCLUDED, Payload, VERSION};

/// Percentage that `Progressing` says.
fn percent(message: &str) -> Result<usize> {
    let text = message
        .split('(')
        .nth(1)
        .and_then(|rest| rest.split('%').next());
    Ok(text
        .with_context(|| format!("no percentage in {message}"))?
        .parse()?)
}

/// The percentage does not fall over a restart, counts what is included and ends at all of it; a
/// pass with nothing to do writes nothing. Rows 1, 2 and 5 of `docs/reference/known-weaknesses.md`,
/// "Version operator".
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary"]
async fn a_release_is_applied_run_level_by_run_level_and_then_left_alone() -> Result<()> {
    let cluster = Cluster::start("levels", 4).await?;
    let mut process = cluster.run()?;
    for (number, (_, component)) in COMPONENTS.into_iter().enumerate() {
        let named = format!("the cluster operator {component} is not available");
        cluster.until_condition("Progressing", &named).await?;
        if number == 1 {
            // Killed in the middle. The next one is held up earlier than this one was, and says no
            // less than it.
            let before = cluster.report_old_and_read(component).await?;
            drop(process);
            cluster.report("alpha", "4.1.0").await?;
            process = cluster.run()?;
            let again = cluster
                .until_condition("Progressing", "waiting on alpha")
                .await?;
            assert!(percent(&again)? >= before, "{again} after {before} %");
            cluster.report("alpha", VERSION).await?;
            let waiting = format!("waiting on {component}");
            cluster.until_condition("Progressing", &waiting).await?;
        } else {
            cluster.report_old_and_read(component).await?;
        }
        // Nothing of a later run level is there.
        for (_, later) in COMPONENTS.iter().skip(number + 1) {
            assert!(
                cluster.maps.get_opt(later).await?.is_none(),
                "{later} before {component}"
            );
            assert!(
                cluster.operators.get_opt(later).await?.is_none(),
                "{later} before {component}"
            );
        }
        cluster.report(component, VERSION).await?;
    }
    cluster
        .until_condition("Progressing", "Cluster version is 4.2.0")
        .await?;
    cluster
        .until_condition("Available", "Done applying 4.2.0")
        .await?;
    cluster.until_condition("Failing", "False").await?;
    cluster
        .until_condition("RetrievedUpdates", "NoChannel")
        .await?;
    let status = cluster.status().await?;
    let history: Vec<String> = status
        .history
        .iter()
        .map(|entry| {
            format!(
                "{} {} {}",
                entry.version,
                entry.state,
                entry.completion_time.is_some()
            )
        })
        .collect();
    assert_eq!(history, ["4.2.0 Completed true", "4.1.0 Completed true"]);
    assert_eq!(status.observed_generation, 1);
    assert!(!status.version_hash.is_empty());

    in_order(&cluster.events()?).context("the order of writes")?;
    percentage_never_falls(&cluster)?;
    applied_as_asked(&cluster).await?;
    idle_pass_writes_nothing(&cluster).await?;

    put_back_and_said(&cluster).await?;
    drop(process);
    kept_in_part(&cluster).await
}

impl Cluster {
    /// Reports the old version, and waits until that is waited for. The percentage then.
    async fn report_old_and_read(&self, component: &str) -> Result<usize> {
        self.report(component, "4.1.0").await?;
        let message = self
            .until_condition("Progressing", &format!("waiting on {component}"))
            .await?;
        assert!(
            message.contains(&format!(" of {INCLUDED} done")),
            "{message}"
        );
        self.until_condition("Failing", "False").await?;
        percent(&message)
    }
}

/// Each component's first write comes after the report by which the run level before it ended.
fn in_order(events: &[Event]) -> Result<()> {
    let mut level_done = None;
    for (_, component) in COMPONENTS {
        let is_of = |event: &&Event| {
            let name = event.object.as_ref().map(|object| object.name.as_str());
            name == Some(component)
        };
        let first = events
            .iter()
            .filter(is_of)
            .find(|event| is_write(event) && event.succeeded());
        let first = first.with_context(|| format!("no write of {component}"))?;
        if let Some(done) = level_done {
            assert!(
                first.received > done,
                "{component}: {} before {done}",
                first.received
            );
        }
        let says_version = |event: &&Event| {
            let version = event
                .request
                .as_ref()
                .and_then(|body| body.pointer("/status/versions/0/version"));
            !is_write(event) && version == Some(&json!(VERSION))
        };
        let reported = events.iter().filter(is_of).find(says_version);
        level_done = Some(
            reported
                .with_context(|| format!("no report of {component}"))?
                .received,
        );
    }
    Ok(())
}

/// Of all messages, over a restart too.
fn percentage_never_falls(cluster: &Cluster) -> Result<()> {
    let events = cluster.events()?;
    let mut percentages = Vec::new();
    for event in events
        .iter()
        .filter(|event| is_write(event) && event.succeeded())
    {
        let body = event
            .request
            .as_ref()
            .filter(|_| event.concerns("config.openshift.io", "clusterversions"));
        let conditions = body.and_then(|body| body.pointer("/status/conditions")?.as_array());
        for message in conditions
            .into_iter()
            .flatten()
            .filter_map(|one| one["message"].as_str())
        {
            if message.contains("% complete)") {
                percentages.push(percent(message)?);
            }
        }
    }
    // Each of the three components was waited for.
    assert!(
        percentages.is_sorted() && percentages.len() >= COMPONENTS.len(),
        "{percentages:?}"
    );
    Ok(())
}

async fn applied_as_asked(cluster: &Cluster) -> Result<()> {
    let own = cluster.maps.get("own").await?;
    assert_eq!(own.data.clone().unwrap_or_default()["image"], IMAGE);
    let owner = own.owner_references().first().context("no owner")?.clone();
    assert_eq!(
        (owner.kind.as_str(), owner.name.as_str()),
        ("ClusterVersion", "version")
    );
    // Created only: an administrator's stays. Not for this cluster: never made. Deleted: gone.
    let once = cluster.maps.get("once").await?.data.unwrap_or_default();
    assert_eq!(once["a"], "administrator's");
    assert!(cluster.maps.get_opt("other").await?.is_none());
    assert!(cluster.maps.get_opt("removed").await?.is_none());
    let operator = cluster.operators.get("alpha").await?;
    let related = operator.status.unwrap_or_default().related_objects;
    assert_eq!(related[0].resource, "namespaces");
    Ok(())
}

/// Two passes over a cluster in its state: no write, and at most one list of a kind in each.
async fn idle_pass_writes_nothing(cluster: &Cluster) -> Result<()> {
    // The first pass of this process has to read what it applied before.
    let settled = cluster.passes()? + 2;
    cluster.until_passes(settled).await?;
    let before = cluster.events()?.len();
    cluster.until_passes(settled + 2).await?;
    let events = cluster.events()?;
    let since: Vec<&Event> = events
        .iter()
        .skip(before)
        .filter(|event| event.user_agent.starts_with("cvo/"))
        .collect();
    let writes: Vec<&&Event> = since.iter().filter(|event| is_write(event)).collect();
    assert!(writes.is_empty(), "{writes:#?}");
    let lists = since
        .iter()
        .filter(|event| event.verb == Verb::List && event.concerns("", "configmaps"));
    let lists = lists.count();
    assert!(
        (1..=3).contains(&lists),
        "{lists} lists of ConfigMaps in two passes"
    );
    Ok(())
}

/// One malformed manifest fails, and the rest of the release that is there is kept as it is.
async fn kept_in_part(cluster: &Cluster) -> Result<()> {
    let file = "0000_10_alpha_03_bad.yaml";
    cluster.payload.write_text(file, "a: b: c")?;
    let process = cluster.run()?;
    let message = cluster
        .until_condition("Failing", "UpdatePayloadIntegrity")
        .await?;
    assert!(message.contains(file), "{message}");
    put_back(cluster).await?;
    cluster.until_condition("Available", "True").await?;
    let status = cluster.status().await?;
    assert_eq!(status.desired.version, VERSION);
    assert_eq!(status.history[0].state.to_string(), "Completed");
    drop(process);
    cluster.payload.remove(file)?;
    let process = cluster.run()?;
    cluster
        .until_condition("Progressing", "Cluster version is 4.2.0")
        .await?;
    drop(process);
    Ok(())
}

/// What others change is put back.
async fn put_back(cluster: &Cluster) -> Result<()> {
    let change = json!({ "data": { "level": "changed" } });
    objects::merge(&cluster.maps, "beta", &change).await?;
    let read = async || Ok(cluster.maps.get("beta").await?.data.unwrap_or_default());
    wait::until_so("the level", read, |data| data["level"] == "20").await?;
    Ok(())
}

/// What becomes of changes by others, of an operator that fails, and of another release.
async fn put_back_and_said(cluster: &Cluster) -> Result<()> {
    put_back(cluster).await?;

    // An operator that fails is reported, and the release stays.
    let degraded = json!({ "conditions": [] });
    objects::set_status(&cluster.operators, "gamma", &degraded).await?;
    let message = cluster
        .until_condition("Progressing", "Error while reconciling 4.2.0")
        .await?;
    assert!(
        message.ends_with("the cluster operator gamma is not available"),
        "{message}"
    );
    cluster.until_condition("Available", "True").await?;
    cluster.report("gamma", VERSION).await?;
    cluster
        .until_condition("Progressing", "Cluster version is 4.2.0")
        .await?;

    // Another release is refused by name, and this one goes on.
    let desired = json!({ "spec": { "desiredUpdate": { "image": "registry.example/release@sha256:3", "version": "4.3.0" } } });
    cluster.change(&desired).await?;
    let message = cluster
        .until_condition("ReleaseAccepted", "False RetrievePayload")
        .await?;
    assert!(
        message.contains("version=\"4.3.0\"") && message.contains("verification is not possible"),
        "{message}"
    );
    cluster
        .until_condition("Progressing", "Cluster version is 4.2.0")
        .await?;
    Ok(())
}

/// A malformed manifest is an error of the payload, and one that the API server rejects is tried
/// three times in its pass. Rows 18 and 20 of `docs/reference/known-weaknesses.md`, "Version
/// operator".
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary"]
async fn bad_manifests_end_in_a_condition_that_names_the_file() -> Result<()> {
    // A pass lasts long enough for a manifest to be tried three times.
    let cluster = Cluster::start("bad", 15).await?;
    let file = "0000_10_alpha_03_bad.yaml";
    let map = |name: &str| {
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": name, "namespace": "default",
        "annotations": { "include.release.openshift.io/self-managed-high-availability": "true" }
    } })
    };
    let mut unclear = map("unclear");
    unclear["metadata"]["annotations"]["release.openshift.io/delete"] = json!("yes");
    for (text, expected) in [
        ("a: b: c".to_owned(), "line 1"),
        (unclear.to_string(), "invalid delete annotation"),
    ] {
        cluster.payload.write_text(file, &text)?;
        let process = cluster.run()?;
        let message = cluster.until_condition("ReleaseAccepted", expected).await?;
        assert!(
            message.starts_with("False LoadPayload: Loading payload failed"),
            "{message}"
        );
        assert!(message.contains("0000_10_alpha_03_bad.yaml"), "{message}");
        cluster
            .until_condition("Failing", "UpdatePayloadIntegrity")
            .await?;
        let message = cluster
            .until_condition("Progressing", "Unable to apply")
            .await?;
        assert!(
            message.contains("the contents of the update are invalid"),
            "{message}"
        );
        drop(process);
    }
    // None of it was applied.
    assert!(cluster.maps.get_opt("alpha").await?.is_none());

    // One that only the API server rejects stops its component, and is reported with its file.
    cluster.payload.write(file, &Payload::rejected())?;
    let process = cluster.run()?;
    let message = cluster
        .until_condition("Failing", "UpdatePayloadResourceInvalid")
        .await?;
    assert!(
        message.contains(file) && message.contains("Not_A_Name"),
        "{message}"
    );
    let log = cluster.log()?;
    assert!(log.matches("trying again").count() >= 2, "{log}");
    cluster
        .until_condition("Progressing", "some cluster configuration is invalid")
        .await?;
    assert!(cluster.maps.get_opt("beta").await?.is_none());
    drop(process);

    // Nor is one whose kind the API server does not know.
    let mut unknown = map("gadget");
    unknown["apiVersion"] = json!("example.com/v1");
    unknown["kind"] = json!("Gadget");
    cluster.payload.write(file, &unknown)?;
    let process = cluster.run()?;
    let message = cluster
        .until_condition("Failing", "UpdatePayloadResourceTypeMissing")
        .await?;
    assert!(
        message.contains(file) && message.contains("gadget \"default/gadget\""),
        "{message}"
    );
    cluster
        .until_condition(
            "Progressing",
            "a required extension is not available to update",
        )
        .await?;
    drop(process);

    // Without it the release goes on.
    cluster.payload.remove(file)?;
    let process = cluster.run()?;
    cluster
        .until_condition("Progressing", "the cluster operator alpha is not available")
        .await?;
    cluster
        .until_condition("ReleaseAccepted", "True PayloadLoaded")
        .await?;
    drop(process);
    cluster
        .maps
        .delete("alpha", &DeleteParams::default())
        .await?;
    Ok(())
}
