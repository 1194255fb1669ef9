//! Two controllers on a real control plane: one leads, and where for once both decide, the budget holds nevertheless.
//!
//! The nodes are objects without hosts. What their daemons would write is written here, so that many rounds take seconds; who told whom, and
//! how many were out at once, is read from the API server's audit log.

mod judge;
mod scene;
mod strict;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use api::annotation;
use k8s_openapi::api::core::v1::Node;
use lab::control_plane::definitions;
use testbed::{objects, until};

use self::judge::judge;
use self::scene::{Scene, WITHIN};

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
    let scene = Scene::start("killed-leader", Path::new(DEFINITIONS), &SHORT_LEASE);
    let (mut scene, first) = scene.await?;
    scene.configure("50-change", "a=1").await?;
    let leader = until("a leader", WITHIN, async || {
        Ok(scene
            .working()?
            .pop()
            .context("nobody leads")
            .map_err(|error| error.to_string()))
    })
    .await?;
    until("the first node is told", WITHIN, async || {
        let nodes = scene.objects().nodes().await?;
        let is_told = |node: &Node| {
            let desired = objects::annotation(node, annotation::DESIRED_CONFIG);
            !desired.is_empty() && desired != first
        };
        Ok(if nodes.values().any(is_told) {
            Ok(())
        } else {
            Err("nobody is".to_owned())
        })
    })
    .await?;
    ensure!(scene.working()? == [leader], "more than one leads");
    let replicas = scene.cluster.replicas();
    replicas
        .remove(leader)
        .context("the leader is none of ours")?;
    let target = scene.rolled(&first).await?;
    ensure!(
        scene.working()?.len() == 2,
        "the other replica did not take over"
    );
    scene.cluster.replicas().clear();
    judge(&scene.cluster.events()?, &[first, target])
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn two_that_decide_at_once_keep_the_budget() -> Result<()> {
    let arguments = ["--leader-elect=false", "--v=4"];
    let definitions = definitions()?;
    let scene = Scene::start("both-decide", &definitions, &arguments);
    let (mut scene, mut known) = scene.await?;
    let mut targets = vec![known.clone()];
    // Each change comes while nodes are on their way to the one before. Who decides is whoever looks
    // first, so there are as many as it takes for both to have done so.
    for change in 0..CHANGES_MAX {
        scene.configure("50-change", &format!("a={change}")).await?;
        known = scene.retargeted(&known).await?;
        targets.push(known.clone());
        if change >= CHANGES_MIN && scene.idle()?.is_empty() {
            break;
        }
    }
    scene.all_done(&known).await?;
    let idle = scene.idle()?;
    ensure!(idle.is_empty(), "{idle:?} never decided anything");
    scene.cluster.replicas().clear();
    let events = scene.cluster.events()?;
    strict::accepts_all(scene.objects().client(), &events).await?;
    judge(&events, &targets)
}

/// How many changes there are at least, and at most.
const CHANGES_MIN: usize = 3;
const CHANGES_MAX: usize = 40;
