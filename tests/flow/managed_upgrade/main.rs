//! The managed upgrade operator against a real API server, Prometheus and Alertmanager: an upgrade
//! on a date, held by its gates, killed and resumed, withdrawn, deleted in the middle, and
//! requested in ways that cannot be followed. The test plays version operator, nodes and machine
//! API.
//!
//! - `env`: the cluster
//! - `fleet`: a fleet manager
//! - `receiver`: takes CloudEvents
//! - `registry`: has a release image
//! - `requested`: requests that cannot be followed, and requests by image
//! - `withdrawn`: upgrades that their administrator withdraws
#![expect(
    clippy::disallowed_methods,
    reason = "helpers of tests write files of their own"
)]

mod env;
mod fleet;
mod receiver;
mod registry;
mod requested;
mod withdrawn;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lab::{PATIENCE, wait};
use serde_json::json;

use crate::env::{Cluster, NEW, OLD};
use crate::fleet::{Fleet, Mood, TOKEN};
use crate::receiver::Receiver;

const PLANE: &str = "Silence for OSD control plane upgrade to version 4.16.4";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary, prometheus and prometheus-alertmanager"]
async fn an_upgrade_waits_for_its_gates_and_leaves_nothing_behind() -> Result<()> {
    let mut cluster = Cluster::start("flow").await?;
    let receiver = Receiver::start(2)?;
    let url = format!("cloudEvents: {{url: '{}'}}", receiver.url);
    cluster.settings(&url).await?;
    cluster.fire(Some("EtcdDown")).await?;
    cluster.schedule(NEW, 5).await?;
    let process = cluster.run()?;
    let gate = "ClusterHealthyBeforeUpgrade";
    cluster
        .until_condition(gate, "False critical alert(s) firing: EtcdDown")
        .await?;
    let failed = "upgradeoperator_healthcheck_failed{reason=\"critical_alerts_firing\"} == 1";
    cluster.until_series(failed, 1).await?;
    ensure!(
        cluster.desired_version().await?.is_none(),
        "the gate did not hold the upgrade"
    );
    ensure!(
        cluster.silences()?.is_empty(),
        "alerts are silenced behind a closed gate"
    );
    cluster.fire(None).await?;

    let capacity = "MachineSet worker-a-upgrade: 0 of 1 machines ready";
    cluster
        .until_condition("ComputeCapacityReserved", capacity)
        .await?;
    cluster.add_machine().await?;
    cluster.until_asked().await?;
    cluster.until_silences(&[PLANE]).await?;
    // Events are sent beside the upgrade: those of a killed operator may be lost.
    cluster.until_event("StateControlPlaneStartedSL").await?;
    drop(process);

    // The control plane is done while the operator is away.
    cluster.pool(2, 0).await?;
    cluster.complete().await?;
    let _process = cluster.run()?;
    let workers = |count| {
        format!(
            "Silence for OSD worker node upgrade to version 4.16.4 with remaining {count} nodes"
        )
    };
    cluster.until_silences(&[&workers(2)]).await?;
    cluster
        .until_condition("WorkerNodesUpgraded", "pool worker: 0 of 2 updated")
        .await?;
    cluster.pool(2, 1).await?;
    cluster.until_silences(&[&workers(1)]).await?;
    cluster.pool(2, 2).await?;
    let machine = "extra machines are there: worker-a-upgrade-x";
    cluster
        .until_condition("ComputeCapacityRemoved", machine)
        .await?;
    cluster.has_own_machine_sets()?;
    cluster.remove_machine()?;
    cluster
        .until_condition("CompletedNotificationSent", "True")
        .await?;
    cluster.until_phase(NEW, "Upgraded").await?;
    cluster.until_silences(&[]).await?;
    let open: Vec<String> = cluster.conditions().await?;
    let open: Vec<&String> = open
        .iter()
        .filter(|condition| !condition.contains("=True "))
        .collect();
    ensure!(open.is_empty(), "{open:?}");
    let expected = [
        "StateCompleted",
        "StateControlPlaneFinishedSL",
        "StateControlPlaneStartedSL",
        "StateStarted",
        "StateWorkerPlaneFinishedSL",
    ];
    for reason in expected {
        cluster.until_event(reason).await?;
    }
    let reasons = cluster.event_reasons().await?;
    ensure!(reasons == expected, "{reasons:?}");
    // The first was refused twice, and the operator was killed in between: each has one id.
    let mut states = receiver.until(expected.len()).await?;
    states.sort();
    ensure!(states == expected, "{states:?}");
    cluster
        .until_series(
            "upgradeoperator_upgrade_completed_timestamp{version=\"4.16.4\"}",
            1,
        )
        .await?;
    cluster
        .until_series("upgradeoperator_upgrade_result{stream=\"z\"} == 1", 1)
        .await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary, prometheus and prometheus-alertmanager"]
async fn the_fleet_managers_policy_is_followed_and_told_while_it_can_be_read() -> Result<()> {
    let mut cluster = Cluster::start("fleet").await?;
    let fleet = Fleet::start()?;
    let source = format!(
        "configManager: {{source: OCM, ocmBaseUrl: '{}/'}}, upgradeType: OSD, \
         featureGate: {{enabled: [ServiceLogNotification]}}",
        fleet.url
    );
    cluster.settings(&source).await?;
    cluster.pull_secret(TOKEN).await?;
    // A policy that asks for nothing new is refused like any other UpgradeConfig.
    fleet.plan(OLD, 10)?;
    let process = cluster.run()?;
    let spec = cluster.until_spec(OLD).await?;
    let expected = json!({
        "type": "OSD", "upgradeAt": spec["upgradeAt"], "PDBForceDrainTimeout": 30,
        "capacityReservation": true, "desired": { "version": OLD, "channel": "stable-4.16" }
    });
    ensure!(spec == expected, "{spec}");
    let why = format!("desired version {OLD} matches the current version {OLD}");
    cluster.until_condition("UpgradeConfigValid", &why).await?;
    drop(process);

    // Another policy takes its place with the next reading, at the latest at its start; nothing
    // starts while the fleet manager cannot be read.
    fleet.plan(NEW, 10)?;
    let process = cluster.run()?;
    cluster.until_spec(NEW).await?;
    cluster.until_phase(NEW, "Pending").await?;
    fleet.be(Mood::Broken);
    cluster
        .until_condition("ConfigSourceRead", "500 Internal Server Error")
        .await?;
    fleet.be(Mood::Lying);
    cluster.until_condition("ConfigSourceRead", "EOF").await?;
    ensure!(
        cluster.desired_version().await?.is_none(),
        "it started unread"
    );
    fleet.be(Mood::Well);
    wait::until("the upgrade", PATIENCE, async || {
        cluster.play().await?;
        let conditions = cluster.conditions().await?;
        let is_done = |condition: &String| condition.starts_with("CompletedNotificationSent=True");
        Ok(if conditions.iter().any(is_done) {
            Ok(())
        } else {
            Err(conditions.join("\n"))
        })
    })
    .await?;
    let (states, logs) = fleet.received()?;
    ensure!(states == ["started", "completed"], "{states:?}");
    let expected = [
        "Cluster is starting with control and worker plane upgrade",
        "Cluster has finished control plane upgrade",
        "Cluster has finished with worker plane upgrade",
    ];
    ensure!(logs == expected, "{logs:?}");
    drop(process);
    // A policy that is completed asks for nothing: its UpgradeConfig goes.
    let _process = cluster.run()?;
    cluster.until_gone().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary, prometheus and prometheus-alertmanager"]
async fn servers_of_alerts_that_are_away_hold_an_upgrade_and_a_closed_window_ends_it() -> Result<()>
{
    let mut cluster = Cluster::start("away").await?;
    cluster.settings("upgradeWindow: {timeOut: 1}").await?;
    cluster.servers.stop_prometheus();
    cluster.schedule(NEW, 0).await?;
    let process = cluster.run()?;
    let gate = "ClusterHealthyBeforeUpgrade";
    let unknown = "False cannot tell which alerts fire: cannot read http://";
    cluster.until_condition(gate, unknown).await?;
    // It is there, and has scraped nothing: the operator, which it would scrape, is away.
    drop(process);
    cluster.servers.start_prometheus().await?;
    let _process = cluster.run()?;
    cluster.until_condition(gate, "True").await?;
    cluster.servers.stop_alertmanager();
    cluster
        .until_condition("ComputeCapacityReserved", "0 of 1 machines ready")
        .await?;
    cluster.add_machine().await?;
    cluster
        .until_condition(
            "ControlPlaneMaintenanceWindowCreated",
            "False cannot read http://",
        )
        .await?;
    ensure!(
        cluster.desired_version().await?.is_none(),
        "the cluster was changed without a silence"
    );
    // The window closes, and what cannot be cleaned up is reported until it can.
    cluster
        .until_condition("FailedUpgrade", "False cannot read http://")
        .await?;
    cluster.servers.start_alertmanager().await?;
    cluster.until_condition("FailedUpgrade", "True").await?;
    cluster.until_phase(NEW, "Failed").await?;
    cluster.has_own_machine_sets()?;
    ensure!(
        cluster.desired_version().await?.is_none(),
        "an upgrade that failed changed the cluster"
    );
    cluster
        .until_series("upgradeoperator_upgrade_window_breached == 1", 1)
        .await?;
    let reasons = cluster.event_reasons().await?;
    ensure!(reasons == ["StateFailed", "StateStarted"], "{reasons:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary, prometheus and prometheus-alertmanager"]
async fn an_operator_that_is_killed_after_each_write_resumes_its_upgrade() -> Result<()> {
    let cluster = Cluster::start("killed").await?;
    cluster.settings("").await?;
    cluster.schedule(NEW, 0).await?;
    let mut steps = BTreeSet::new();
    let mut status = cluster.status().await?;
    let mut lives = 0;
    while status.pointer("/history/0/phase") != Some(&json!("Upgraded")) {
        lives += 1;
        ensure!(lives < 150, "it does not end: {status}");
        let process = cluster.run()?;
        let began = Instant::now();
        loop {
            let next = cluster.status().await?;
            if next != status {
                status = next;
                break;
            }
            if began.elapsed() > Duration::from_secs(1) {
                cluster.play().await?;
            }
            ensure!(began.elapsed() < lab::PATIENCE, "no write: {status}");
        }
        drop(process);
        let step = status.pointer("/history/0/conditions/0/type");
        steps.extend(step.map(ToString::to_string));
        cluster.play().await?;
    }
    // Most writes are seen before the next: a step that is quick may end with the one before.
    ensure!(
        steps.len() >= 10,
        "killed in {steps:?} only, in {lives} lives"
    );
    let open: Vec<String> = cluster.conditions().await?;
    let open: Vec<&String> = open
        .iter()
        .filter(|condition| !condition.contains("=True "))
        .collect();
    ensure!(open.is_empty(), "{open:?}");
    cluster.until_silences(&[]).await?;
    cluster.has_own_machine_sets()?;
    Ok(())
}
