//! The managed upgrade operator against a real API server, Prometheus and Alertmanager: an upgrade
//! on a date, held by its gates, killed and resumed, withdrawn, deleted in the middle, and asked
//! for in ways that cannot be followed. The test plays version operator, nodes and machine API.
//!
//! - `env`: the cluster
//! - `fleet`: a fleet manager
//! - `receiver`: takes CloudEvents
//! - `registry`: has a release image
#![expect(
    clippy::disallowed_methods,
    reason = "helpers of tests write files of their own"
)]

mod env;
mod fleet;
mod receiver;
mod registry;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use api::upgrade::PlanState;
use jiff::{SignedDuration, Timestamp};
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
        .until_said(gate, "False critical alert(s) firing: EtcdDown")
        .await?;
    let failed = "upgradeoperator_healthcheck_failed{reason=\"critical_alerts_firing\"} == 1";
    cluster.until_series(failed, 1).await?;
    ensure!(
        cluster.asked().await?.is_none(),
        "the gate did not hold the upgrade"
    );
    ensure!(
        cluster.silences()?.is_empty(),
        "alerts are silenced behind a closed gate"
    );
    cluster.fire(None).await?;

    let capacity = "MachineSet worker-a-upgrade: 0 of 1 machines ready";
    cluster
        .until_said("ComputeCapacityReserved", capacity)
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
        .until_said("WorkerNodesUpgraded", "pool worker: 0 of 2 updated")
        .await?;
    cluster.pool(2, 1).await?;
    cluster.until_silences(&[&workers(1)]).await?;
    cluster.pool(2, 2).await?;
    let machine = "extra machines are there: worker-a-upgrade-x";
    cluster
        .until_said("ComputeCapacityRemoved", machine)
        .await?;
    let sets = cluster.machine_objects("machinesets")?;
    ensure!(
        sets == ["machineset.machine.openshift.io/worker-a"],
        "{sets:?}"
    );
    cluster.remove_machine()?;
    cluster
        .until_said("CompletedNotificationSent", "True")
        .await?;
    cluster.until_phase(NEW, "Upgraded").await?;
    cluster.until_silences(&[]).await?;
    let open: Vec<String> = cluster.said().await?;
    let open: Vec<&String> = open
        .iter()
        .filter(|said| !said.contains("=True "))
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
    cluster.until_said("UpgradeConfigValid", &why).await?;
    drop(process);

    // Another policy takes its place with the next reading, at the latest at its start; nothing
    // starts while the fleet manager cannot be read.
    fleet.plan(NEW, 10)?;
    let process = cluster.run()?;
    cluster.until_spec(NEW).await?;
    cluster.until_phase(NEW, "Pending").await?;
    fleet.be(Mood::Broken);
    cluster
        .until_said("ConfigSourceRead", "500 Internal Server Error")
        .await?;
    fleet.be(Mood::Lying);
    cluster.until_said("ConfigSourceRead", "EOF").await?;
    ensure!(cluster.asked().await?.is_none(), "it started unread");
    fleet.be(Mood::Well);
    wait::until("the upgrade", PATIENCE, async || {
        cluster.play().await?;
        let said = cluster.said().await?;
        let is_done = |said: &String| said.starts_with("CompletedNotificationSent=True");
        Ok(if said.iter().any(is_done) {
            Ok(())
        } else {
            Err(said.join("\n"))
        })
    })
    .await?;
    let (told, logs) = fleet.told()?;
    ensure!(told == ["started", "completed"], "{told:?}");
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
async fn an_upgrade_that_is_withdrawn_or_deleted_takes_what_it_added_with_it() -> Result<()> {
    let mut cluster = Cluster::start("withdrawn").await?;
    // The test does not last until it opens.
    let day = (Timestamp::now() + SignedDuration::from_hours(60)).strftime("%a");
    let window = format!("name: later, days: [{day}], start: '12:00', minutes: 60");
    cluster
        .settings(&format!("windows: [{{{window}}}]"))
        .await?;
    let _process = cluster.run()?;
    // A Prometheus that has scraped nothing holds a gate.
    cluster.until_series("up == 1", 1).await?;
    ask_by_slipway(&cluster)?;
    cluster.until_said("UpgradeConfigValid", "True").await?;
    cluster.until_phase(NEW, "Pending").await?;
    let plan = cluster.until_plan("Pending").await?;
    let named = plan.window.map(|window| window.name);
    ensure!(named.as_deref() == Some("later"), "{named:?}");
    ensure!(plan.forecast.is_some(), "no forecast");
    let asked = |state: PlanState| {
        let found = plan.steps.iter().filter(|step| step.state == state);
        found.map(|step| step.name.as_str()).collect::<Vec<_>>()
    };
    let passing = [
        "IsUpgradeable",
        "PreUpgradeHealthCheck",
        "ExternalDependencyAvailabilityCheck",
        "EnsureExtraUpgradeWorkers",
        "CommenceUpgrade",
    ];
    ensure!(asked(PlanState::Passes) == passing, "{:?}", plan.steps);
    ensure!(asked(PlanState::Pending).len() == 12, "{:?}", plan.steps);
    cluster.expect_managed(&["plan"], 0, &["Window (later)", "PreUpgradeHealthCheck"])?;
    cluster.expect_managed(&["status"], 0, &["Upgrade to 4.16.4", "Pending"])?;
    cluster.expect_managed(&["cancel"], 0, &["Withdrew the upgrade to 4.16.4"])?;
    cluster.until_gone().await?;
    cluster.expect_managed(&["cancel"], 0, &["info: No upgrade is scheduled"])?;
    ensure!(
        cluster.event_reasons().await?.is_empty(),
        "a withdrawn upgrade was announced"
    );

    let job = "template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}";
    let hook = format!("name: backup, step: IsUpgradeable, when: before, job: {{{job}}}");
    cluster.settings(&format!("hooks: [{{{hook}}}]")).await?;
    cluster.schedule(NEW, 0).await?;
    let (step, job) = ("IsClusterUpgradable", "upgrade-4-16-4-backup");
    cluster
        .until_said(step, "False hook backup: Job upgrade-4-16-4-backup runs")
        .await?;
    cluster.end_job(job, ["FailureTarget", "Failed"]).await?;
    cluster
        .until_said(step, "failed: as the test wants; it is created again")
        .await?;
    cluster.delete_job(job).await?;
    cluster
        .until_said(step, "False hook backup: Job upgrade-4-16-4-backup runs")
        .await?;
    cluster
        .end_job(job, ["SuccessCriteriaMet", "Complete"])
        .await?;
    cluster
        .until_said("ComputeCapacityReserved", "0 of 1 machines ready")
        .await?;
    cluster.add_machine().await?;
    cluster.until_asked().await?;
    // The cluster is changed: it is too late for both.
    cluster.expect_managed(&["cancel"], 1, &[NEW])?;
    cluster.expect_managed(&["schedule", "--to", "4.16.5"], 1, &[NEW])?;
    cluster.until_silences(&[PLANE]).await?;

    // The test's node is drained for 70 min, and no kubelet ends its pods: as long as one may still
    // run them, they stay.
    cluster.add_stuck_node().await?;
    cluster.until_event("DrainHeld").await?;
    let all = ["exempt", "free", "protected"];
    ensure!(cluster.pods().await? == all, "pods left a silent node");
    cluster.kubelet_reports("stuck", "True").await?;
    cluster.until_drain_lease(true).await?;
    ensure!(cluster.pods().await? == all, "pods left before the lease");
    // They are asked to end, and removed once they have outlived that.
    cluster.until_pods(&["exempt"]).await?;
    cluster.until_drain_lease(false).await?;
    let reasons = cluster.event_reasons().await?;
    for reason in ["DrainForced", "StateDelayed"] {
        ensure!(reasons.contains(&reason.to_owned()), "{reasons:?}");
    }
    cluster.withdraw().await?;
    cluster.until_gone().await?;
    cluster.until_silences(&[]).await?;
    let sets = cluster.machine_objects("machinesets")?;
    ensure!(
        sets == ["machineset.machine.openshift.io/worker-a"],
        "{sets:?}"
    );
    let reasons = cluster.event_reasons().await?;
    ensure!(
        reasons.contains(&"StateCleanedUp".to_owned()),
        "{reasons:?}"
    );
    // What the version operator has begun is not taken away.
    ensure!(
        cluster.asked().await?.as_deref() == Some(NEW),
        "ClusterVersion was reset"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary, prometheus and prometheus-alertmanager"]
async fn what_cannot_be_followed_is_named_and_a_change_before_the_start_is_followed() -> Result<()>
{
    let mut cluster = Cluster::start("invalid").await?;
    cluster.settings("scale: {timeOut: soon}").await?;
    let _process = cluster.run()?;
    cluster.schedule(NEW, 3600).await?;
    cluster
        .until_said("OperatorConfigValid", "field scale.timeOut")
        .await?;
    cluster.settings("steps: {OSD: [Dance]}").await?;
    cluster
        .until_said(
            "OperatorConfigValid",
            "field steps.OSD[0]: unknown step \"Dance\"",
        )
        .await?;
    cluster.settings("").await?;
    cluster.until_said("OperatorConfigValid", "True").await?;
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
        cluster.until_said("UpgradeConfigValid", expected).await?;
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
        cluster.until_said("UpgradeConfigValid", expected).await?;
    }
    let failed = "upgradeoperator_upgradeconfig_validation_failed == 1";
    cluster.until_series(failed, 1).await?;
    ensure!(
        cluster.asked().await?.is_none(),
        "an invalid upgrade was started"
    );
    cluster.schedule(NEW, 0).await?;
    cluster
        .until_said("ComputeCapacityReserved", "0 of 1 machines ready")
        .await?;
    // Another version takes its place, as the cluster is not changed yet.
    cluster.ask_for(spec(far, "4.16.9")).await?;
    cluster.until_phase(NEW, "Failed").await?;
    let sets = cluster.machine_objects("machinesets")?;
    ensure!(
        sets == ["machineset.machine.openshift.io/worker-a"],
        "{sets:?}"
    );
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
    cluster.until_said("UpgradeConfigValid", refused).await?;
    drop((older_registry, process));
    let (image, _registry) = registry::serve(&cluster.dir, NEW)?;
    let _process = cluster.run()?;
    cluster.ask_for(by_image(&image)).await?;
    let spec = cluster.until_spec(NEW).await?;
    ensure!(spec["desired"]["image"] == image.as_str(), "{spec}");
    wait::until(
        "ClusterVersion to ask for the image",
        PATIENCE,
        async || {
            let asked = cluster.versions.get("version").await?.spec.desired_update;
            let is_asked = asked.as_ref().is_some_and(|asked| asked.image == image);
            Ok(if is_asked {
                Ok(())
            } else {
                Err(format!("{asked:?}"))
            })
        },
    )
    .await?;
    cluster.complete().await?;
    cluster.until_phase(NEW, "Upgraded").await?;
    let name = api::upgrade::upgrade_config::NAME;
    let status = cluster.upgrades.get(name).await?.status;
    let history = status.unwrap_or_default().history;
    ensure!(history.len() == 1, "{history:?}");
    Ok(())
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
    cluster.until_said(gate, unknown).await?;
    // It is there, and has scraped nothing: the operator, which it would scrape, is away.
    drop(process);
    cluster.servers.start_prometheus().await?;
    let _process = cluster.run()?;
    cluster.until_said(gate, "True").await?;
    cluster.servers.stop_alertmanager();
    cluster
        .until_said("ComputeCapacityReserved", "0 of 1 machines ready")
        .await?;
    cluster.add_machine().await?;
    cluster
        .until_said(
            "ControlPlaneMaintenanceWindowCreated",
            "False cannot read http://",
        )
        .await?;
    ensure!(
        cluster.asked().await?.is_none(),
        "the cluster was changed without a silence"
    );
    // The window closes, and what cannot be cleaned up is said until it can.
    cluster
        .until_said("FailedUpgrade", "False cannot read http://")
        .await?;
    cluster.servers.start_alertmanager().await?;
    cluster.until_said("FailedUpgrade", "True").await?;
    cluster.until_phase(NEW, "Failed").await?;
    let sets = cluster.machine_objects("machinesets")?;
    ensure!(
        sets == ["machineset.machine.openshift.io/worker-a"],
        "{sets:?}"
    );
    ensure!(
        cluster.asked().await?.is_none(),
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
    let mut cluster = Cluster::start("killed").await?;
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
    let open: Vec<String> = cluster.said().await?;
    let open: Vec<&String> = open
        .iter()
        .filter(|said| !said.contains("=True "))
        .collect();
    ensure!(open.is_empty(), "{open:?}");
    cluster.until_silences(&[]).await?;
    let sets = cluster.machine_objects("machinesets")?;
    ensure!(
        sets == ["machineset.machine.openshift.io/worker-a"],
        "{sets:?}"
    );
    Ok(())
}

/// An administrator tries the request, and then makes it.
fn ask_by_slipway(cluster: &Cluster) -> Result<()> {
    let ask = ["schedule", "--to", NEW, "--capacity-reservation"];
    let tried = [&ask[..], &["--dry-run"]].concat();
    let said = "Scheduled an upgrade to 4.16.4 at ";
    cluster.expect_managed(&tried, 0, &[said])?;
    // What was only tried is not there.
    let past = ["schedule", "--to", NEW, "--at", "2025-01-01T00:00:00Z"];
    cluster.expect_managed(&past, 1, &["is in the past"])?;
    cluster.expect_managed(&ask, 0, &[said])
}
