//! What breaks around the version operator: the API server, its database, its own process, and an
//! operator that never reports.

use anyhow::{Result, ensure};
use kube::api::DeleteParams;
use lab::control_plane::Process;
use lab::wait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use testbed::objects;
use tokio::task::block_in_place;

use crate::env::{Cluster, WELL, is_write};
use crate::in_order;
use crate::payload::{COMPONENTS, VERSION};

/// Changes that a restore undoes: far more than come before the version operator asks how far
/// the API server is.
const LOST: usize = 200;

impl Cluster {
    /// Reports for all components in order, each once it is waited for.
    async fn finish(&self) -> Result<()> {
        for (_, component) in COMPONENTS {
            let named = format!("the cluster operator {component} is not available");
            self.until_condition("Progressing", &named).await?;
            // After a restore its object may not be there yet.
            self.until_reported(component, VERSION, &WELL).await?;
        }
        self.until_condition("Available", "Done applying 4.2.0")
            .await?;
        Ok(())
    }

    /// Waits until this version operator has the lease.
    async fn until_led(&self, by: &str) -> Result<()> {
        let get = [
            "get",
            "lease",
            "version",
            "--namespace=openshift-cluster-version",
            "--ignore-not-found",
            "--output=jsonpath={.spec.holderIdentity}",
        ];
        let read = async || self.control_plane.kubectl(&get);
        let led = wait::until_so("the lease", read, |holder| holder == by);
        led.await.map(drop)
    }
}

/// The same process all along: what it waits for comes while the API server is away.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary"]
async fn restarted_api_server_is_survived_in_order() -> Result<()> {
    let mut cluster = Cluster::start("restarted", 4).await?;
    let mut process = cluster.run()?;
    for (number, (_, component)) in COMPONENTS.into_iter().enumerate() {
        let named = format!("the cluster operator {component} is not available");
        cluster.until_condition("Progressing", &named).await?;
        if number < 2 {
            block_in_place(|| cluster.base.server.control_plane.restart_api_server())?;
        }
        cluster.report(component, VERSION).await?;
    }
    cluster
        .until_condition("Available", "Done applying 4.2.0")
        .await?;
    process.check()?;
    in_order(&cluster.events()?)
}

/// The same process all along: after the restore, resource versions that it has seen are yet to
/// come.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary"]
async fn restored_older_state_is_taken_to_the_release() -> Result<()> {
    let mut cluster = Cluster::start("restored", 4).await?;
    let mut process = cluster.run()?;
    let [(_, alpha), (_, beta), _] = COMPONENTS;
    let waits = |component: &str| format!("the cluster operator {component} is not available");
    cluster
        .until_condition("Progressing", &waits(alpha))
        .await?;
    block_in_place(|| cluster.base.server.control_plane.make_backup())?;
    for number in 0..LOST {
        cluster.report(alpha, &format!("4.1.{number}")).await?;
    }
    cluster.report(alpha, VERSION).await?;
    cluster.until_condition("Progressing", &waits(beta)).await?;
    block_in_place(|| cluster.base.server.control_plane.restore_backup())?;
    let restored = cluster.operators.get(alpha).await?;
    assert!(restored.status.unwrap_or_default().versions.is_empty());
    cluster.finish().await?;
    process.check()?;
    for (_, component) in COMPONENTS {
        assert!(cluster.maps.get_opt(component).await?.is_some());
    }
    Ok(())
}

fn signal(process: &Process, signal: Signal) -> Result<()> {
    Ok(kill(Pid::from_raw(process.id().cast_signed()), signal)?)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary"]
async fn frozen_leader_writes_nothing_after_the_other_took_over() -> Result<()> {
    let mut cluster = Cluster::start("frozen", 4).await?;
    let as_replica = |name: &str| {
        let arguments = [
            "--leader-elect=true",
            "--lease-secs=5",
            "--renew-deadline-secs=3",
            "--lease-retry-secs=1",
        ];
        let arguments = arguments.iter().map(ToString::to_string);
        arguments.chain([format!("--identity={name}")]).collect()
    };
    cluster.arguments = as_replica("one");
    let mut one = cluster.run()?;
    cluster.until_led("one").await?;
    let alpha = "the cluster operator alpha is not available";
    cluster.until_condition("Progressing", alpha).await?;
    cluster.arguments = as_replica("two");
    let two = cluster.run()?;
    signal(&one, Signal::SIGSTOP)?;
    cluster.until_led("two").await?;
    cluster.finish().await?;
    in_order(&cluster.events()?)?;
    // The other has nothing left to do; each write from here on is the frozen one's.
    let settled = cluster.passes()? + 2;
    cluster.until_passes(settled).await?;
    let before = cluster.events()?.len();
    signal(&one, Signal::SIGCONT)?;
    let has_ended = async || Ok(one.check().is_err());
    wait::until_so("the frozen one to end", has_ended, |ended| *ended).await?;
    cluster.until_passes(settled + 1).await?;
    let events = cluster.events()?;
    let writes = events
        .iter()
        .skip(before)
        .filter(|event| is_write(event) && !event.concerns("coordination.k8s.io", "leases"));
    let writes: Vec<_> = writes.collect();
    ensure!(writes.is_empty(), "{writes:#?}");
    cluster.until_led("two").await?;
    drop(two);
    Ok(())
}

/// An operator that never reports its version is named, with what it says, and what was applied
/// before it is kept as it is. Row 3 of `docs/reference/known-weaknesses.md`, "Version operator".
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary"]
async fn stuck_operator_is_named_and_what_was_applied_is_kept() -> Result<()> {
    let cluster = Cluster::start("stuck", 4).await?;
    let process = cluster.run()?;
    let [(_, alpha), (_, beta), _] = COMPONENTS;
    let named = "the cluster operator alpha is not available";
    cluster.until_condition("Progressing", named).await?;
    let condition = |r#type: &str, status: &str, message: &str| {
        json!({ "type": r#type, "status": status, "reason": "Test", "message": message,
                "lastTransitionTime": "2025-01-01T00:00:00Z" })
    };
    let says = |degraded: &str| {
        json!({
            "conditions": [
                condition("Available", "True", ""),
                condition("Progressing", "True", "pod x waits for y"),
                condition("Degraded", degraded, "pod x waits for y"),
            ],
            "versions": [{ "name": "operator", "version": "4.1.0" }]
        })
    };
    for (degraded, words) in [
        ("False", "waiting on alpha"),
        ("True", "waiting up to 40 minutes on alpha"),
    ] {
        objects::set_status(&cluster.operators, alpha, &says(degraded)).await?;
        let message = cluster.until_condition("Progressing", words).await?;
        ensure!(
            message.starts_with("True") && message.contains("pod x waits for y"),
            "{message}"
        );
        cluster.until_condition("Failing", "False").await?;
        // A pass that waits ends, and the next one begins with the first manifest.
        let maps = &cluster.maps;
        maps.delete(alpha, &DeleteParams::default()).await?;
        let read = async || Ok(maps.get_opt(alpha).await?);
        wait::until_so("the ConfigMap", read, Option::is_some).await?;
        ensure!(maps.get_opt(beta).await?.is_none(), "{beta} before {alpha}");
    }
    cluster.report(alpha, VERSION).await?;
    let named = "the cluster operator beta is not available";
    cluster.until_condition("Progressing", named).await?;
    drop(process);
    Ok(())
}
