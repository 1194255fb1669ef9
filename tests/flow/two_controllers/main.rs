//! Two controllers on a real control plane: one leads, and where for once both decide, the budget
//! holds nevertheless.
//!
//! The nodes are objects without hosts. What their daemons would write is written here, so that
//! many rounds take seconds; which controller assigned which node, and how many were out at once,
//! is read from the API server's audit log.

mod analysis;
mod env;
mod judge;
mod steps;
mod stopped;
mod strict;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::annotation;
use k8s_openapi::api::core::v1::Node;
use lab::control_plane::definitions;
use testbed::{objects, until};

use self::env::{Env, WITHIN};
use self::judge::judge;

/// Our own definitions, which elsewhere are only compared with upstream's.
const DEFINITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/crds");

/// A lease that runs out soon.
const SHORT_LEASE: [&str; 3] = [
    "--lease-secs=5",
    "--renew-deadline-secs=3",
    "--lease-retry-secs=1",
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn a_killed_leader_is_replaced_in_the_middle_of_a_rollout() -> Result<()> {
    let env = Env::start("killed-leader", Path::new(DEFINITIONS), &SHORT_LEASE);
    let (mut env, first) = env.await?;
    env.configure("50-change", "a=1").await?;
    let leader = until("a leader", WITHIN, async || {
        Ok(env
            .leaders()?
            .pop()
            .context("none leads")
            .map_err(|error| error.to_string()))
    })
    .await?;
    until("the first assignment", WITHIN, async || {
        let nodes = env.objects().nodes().await?;
        let is_assigned = |node: &Node| {
            let desired = objects::annotation(node, annotation::DESIRED_CONFIG);
            !desired.is_empty() && desired != first
        };
        Ok(if nodes.values().any(is_assigned) {
            Ok(())
        } else {
            Err("there is none".to_owned())
        })
    })
    .await?;
    ensure!(env.leaders()? == [leader], "more than one leads");
    let replicas = env.cluster.replicas();
    replicas
        .remove(leader)
        .context("the leader is none of ours")?;
    let target = env.rolled(&first).await?;
    ensure!(
        env.leaders()?.len() == 2,
        "the other replica did not take over"
    );
    env.cluster.replicas().clear();
    judge(&env.cluster.events()?, &[first, target])
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn two_that_decide_at_once_keep_the_budget() -> Result<()> {
    let arguments = ["--leader-elect=false", "--v=4"];
    let definitions = definitions()?;
    let env = Env::start("both-decide", &definitions, &arguments);
    let (mut env, mut target) = env.await?;
    let mut targets = vec![target.clone()];
    // Each change comes while nodes are updating to the one before. The replica that reads first
    // decides, so there are as many changes as it takes for both to have decided.
    for change in 0..CHANGES_MAX {
        env.configure("50-change", &format!("a={change}")).await?;
        target = env.retargeted(&target).await?;
        targets.push(target.clone());
        if change >= CHANGES_MIN && env.idle()?.is_empty() {
            break;
        }
    }
    env.all_done(&target).await?;
    let idle = env.idle()?;
    ensure!(idle.is_empty(), "{idle:?} never decided anything");
    env.cluster.replicas().clear();
    let events = env.cluster.events()?;
    strict::accepts_all(env.objects().client(), &events).await?;
    judge(&events, &targets)
}

/// How many changes there are at least, and at most.
const CHANGES_MIN: usize = 3;
const CHANGES_MAX: usize = 40;
