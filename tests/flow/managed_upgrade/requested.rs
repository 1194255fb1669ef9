//! Requests that cannot be followed, and requests by image.

use anyhow::{Result, ensure};
use jiff::Timestamp;
use lab::wait;
use serde_json::json;

use crate::env::{Cluster, NEW};
use crate::registry;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary, prometheus and prometheus-alertmanager"]
async fn what_cannot_be_followed_is_named_and_a_change_before_the_start_is_followed() -> Result<()>
{
    let mut cluster = Cluster::start("invalid").await?;
    cluster.settings("scale: {timeOut: soon}").await?;
    let _process = cluster.run()?;
    cluster.schedule(NEW, 3600).await?;
    cluster
        .until_condition("OperatorConfigValid", "field scale.timeOut")
        .await?;
    cluster.settings("steps: {OSD: [Dance]}").await?;
    cluster
        .until_condition(
            "OperatorConfigValid",
            "field steps.OSD[0]: unknown step \"Dance\"",
        )
        .await?;
    cluster.settings("").await?;
    cluster
        .until_condition("OperatorConfigValid", "True")
        .await?;
    let spec = |at: &str, version: &str| {
        json!({
            "type": "OSD", "upgradeAt": at, "PDBForceDrainTimeout": 30,
            "desired": { "version": version, "channel": "stable-4.16" },
        })
    };
    let far = "2099-01-01T00:00:00Z";
    for (at, version, expected) in [
        (
            "soon",
            NEW,
            "False spec.upgradeAt: \"soon\" is no time by RFC 3339",
        ),
        (
            "2025-01-01T00:00:00Z",
            NEW,
            "False spec.upgradeAt: 2025-01-01T00:00:00Z is",
        ),
        (
            far,
            "4.16.9",
            "version 4.16.9 not found in clusterversion available",
        ),
        (
            far,
            "4.16.2",
            "downgrades to desired version 4.16.2 from 4.16.3 are unsupported",
        ),
    ] {
        cluster.ask_for(spec(at, version)).await?;
        cluster
            .until_condition("UpgradeConfigValid", expected)
            .await?;
    }
    // No server is there.
    let digest = "a".repeat(64);
    let nowhere = format!("127.0.0.1:1/openshift/release@sha256:{digest}");
    for (image, expected) in [
        (
            "q.io/openshift/release:4.16.4",
            "False spec.desired.image: \"q.io/openshift/release:4.16.4\" names no digest",
        ),
        (
            nowhere.as_str(),
            "False spec.desired.image: image 127.0.0.1:1/openshift/release@sha256:",
        ),
    ] {
        let mut by_image = spec(far, NEW);
        by_image["desired"] = json!({ "image": image });
        cluster.ask_for(by_image).await?;
        cluster
            .until_condition("UpgradeConfigValid", expected)
            .await?;
    }
    let failed = "upgradeoperator_upgradeconfig_validation_failed == 1";
    cluster.until_series(failed, 1).await?;
    ensure!(
        cluster.desired_version().await?.is_none(),
        "an invalid upgrade was started"
    );
    cluster.schedule(NEW, 0).await?;
    cluster
        .until_condition("ComputeCapacityReserved", "0 of 1 machines ready")
        .await?;
    // Another version takes its place, as the cluster is not changed yet.
    cluster.ask_for(spec(far, "4.16.9")).await?;
    cluster.until_phase(NEW, "Failed").await?;
    cluster.has_own_machine_sets()?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary, prometheus, prometheus-alertmanager and docker-registry"]
async fn an_image_says_its_version_and_is_what_the_cluster_is_asked_for() -> Result<()> {
    let mut cluster = Cluster::start("image").await?;
    let (older, older_registry) = registry::serve(&cluster.dir, "4.16.2")?;
    cluster.settings("").await?;
    let process = cluster.run()?;
    let now = Timestamp::from_second(Timestamp::now().as_second())?;
    let by_image = |image: &str| {
        json!({
            "type": "OSD", "upgradeAt": now.to_string(), "PDBForceDrainTimeout": 30,
            "desired": { "image": image },
        })
    };
    cluster.ask_for(by_image(&older)).await?;
    let refused = "False spec.desired.image: downgrades to desired version 4.16.2 from 4.16.3";
    cluster
        .until_condition("UpgradeConfigValid", refused)
        .await?;
    drop((older_registry, process));
    let (image, _registry) = registry::serve(&cluster.dir, NEW)?;
    let _process = cluster.run()?;
    cluster.ask_for(by_image(&image)).await?;
    let spec = cluster.until_spec(NEW).await?;
    ensure!(spec["desired"]["image"] == image.as_str(), "{spec}");
    let read = async || Ok(cluster.versions.get("version").await?.spec.desired_update);
    wait::until_so("ClusterVersion to ask for the image", read, |update| {
        update.as_ref().is_some_and(|update| update.image == image)
    })
    .await?;
    cluster.complete().await?;
    cluster.until_phase(NEW, "Upgraded").await?;
    let name = api::upgrade::upgrade_config::NAME;
    let status = cluster.upgrades.get(name).await?.status;
    let history = status.unwrap_or_default().history;
    ensure!(history.len() == 1, "{history:?}");
    Ok(())
}
