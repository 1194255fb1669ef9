//! An upgrade that its administrator withdraws: before it starts, and in the middle.

use anyhow::{Result, ensure};
use api::upgrade::PlanState;
use jiff::{SignedDuration, Timestamp};

use crate::PLANE;
use crate::env::{Cluster, NEW};

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
    cluster
        .until_condition("UpgradeConfigValid", "True")
        .await?;
    cluster.until_phase(NEW, "Pending").await?;
    let plan = cluster.until_plan("Pending").await?;
    let named = plan.window.map(|window| window.name);
    ensure!(named.as_deref() == Some("later"), "{named:?}");
    ensure!(plan.forecast.is_some(), "no forecast");
    let steps_in = |state: PlanState| {
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
    ensure!(steps_in(PlanState::Passes) == passing, "{:?}", plan.steps);
    ensure!(steps_in(PlanState::Pending).len() == 12, "{:?}", plan.steps);
    cluster
        .managed(&["plan"])?
        .expect(0, &["Window (later)", "PreUpgradeHealthCheck"]);
    cluster
        .managed(&["status"])?
        .expect(0, &["Upgrade to 4.16.4", "Pending"]);
    cluster
        .managed(&["cancel"])?
        .expect(0, &["Withdrew the upgrade to 4.16.4"]);
    cluster.until_gone().await?;
    cluster
        .managed(&["cancel"])?
        .expect(0, &["info: No upgrade is scheduled"]);
    ensure!(
        cluster.event_reasons().await?.is_empty(),
        "a withdrawn upgrade was announced"
    );

    hook_is_waited_for(&mut cluster).await?;
    cluster
        .until_condition("ComputeCapacityReserved", "0 of 1 machines ready")
        .await?;
    cluster.add_machine().await?;
    cluster.until_asked().await?;
    // The cluster is changed: it is too late for both.
    cluster.managed(&["cancel"])?.expect(1, &[NEW]);
    cluster
        .managed(&["schedule", "--to", "4.16.5"])?
        .expect(1, &[NEW]);
    cluster.until_silences(&[PLANE]).await?;

    drain_is_forced(&mut cluster).await?;
    cluster.withdraw().await?;
    cluster.until_gone().await?;
    cluster.until_silences(&[]).await?;
    cluster.has_own_machine_sets()?;
    let reasons = cluster.event_reasons().await?;
    ensure!(
        reasons.contains(&"StateCleanedUp".to_owned()),
        "{reasons:?}"
    );
    // What the version operator has begun is not taken away.
    ensure!(
        cluster.desired_version().await?.as_deref() == Some(NEW),
        "ClusterVersion was reset"
    );
    Ok(())
}

/// The upgrade starts, and its first step waits for a Job that fails, is deleted, and completes.
async fn hook_is_waited_for(cluster: &mut Cluster) -> Result<()> {
    let job = "template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}";
    let hook = format!("name: backup, step: IsUpgradeable, when: before, job: {{{job}}}");
    cluster.settings(&format!("hooks: [{{{hook}}}]")).await?;
    cluster.schedule(NEW, 0).await?;
    let (step, job) = ("IsClusterUpgradable", "upgrade-4-16-4-backup");
    cluster
        .until_condition(step, "False hook backup: Job upgrade-4-16-4-backup runs")
        .await?;
    cluster.end_job(job, ["FailureTarget", "Failed"]).await?;
    cluster
        .until_condition(step, "failed: as the test wants; it is created again")
        .await?;
    cluster.delete_job(job).await?;
    cluster
        .until_condition(step, "False hook backup: Job upgrade-4-16-4-backup runs")
        .await?;
    cluster
        .end_job(job, ["SuccessCriteriaMet", "Complete"])
        .await
}

/// A node that is not drained in time is drained by force, once its kubelet can end pods.
async fn drain_is_forced(cluster: &mut Cluster) -> Result<()> {
    // The test's node is drained for 70 min, and no kubelet ends its pods: as long as one may still
    // run them, they stay.
    cluster.add_stuck_node().await?;
    cluster.until_event("DrainHeld").await?;
    let all = ["exempt", "free", "protected"];
    ensure!(cluster.pods().await? == all, "pods left a silent node");
    cluster.kubelet_reports("stuck", "True").await?;
    cluster.until_drain_lease(true).await?;
    ensure!(cluster.pods().await? == all, "pods left before the lease");
    // They are deleted with a grace period, and removed once they have outlived that.
    cluster.until_pods(&["exempt"]).await?;
    cluster.until_drain_lease(false).await?;
    let reasons = cluster.event_reasons().await?;
    for reason in ["DrainForced", "StateDelayed"] {
        ensure!(reasons.contains(&reason.to_owned()), "{reasons:?}");
    }
    Ok(())
}

/// An administrator tries the request, and then makes it.
fn ask_by_slipway(cluster: &Cluster) -> Result<()> {
    let ask = ["schedule", "--to", NEW, "--capacity-reservation"];
    let tried = [&ask[..], &["--dry-run"]].concat();
    let expected = "Scheduled an upgrade to 4.16.4 at ";
    cluster.managed(&tried)?.expect(0, &[expected]);
    // What was only tried is not there.
    let past = ["schedule", "--to", NEW, "--at", "2025-01-01T00:00:00Z"];
    cluster.managed(&past)?.expect(1, &["is in the past"]);
    cluster.managed(&ask)?.expect(0, &[expected]);
    Ok(())
}
