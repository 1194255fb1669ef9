//! A node on hold, and a pool that a person stops: both outlive the controllers.

use std::path::Path;

use anyhow::{Result, ensure};
use api::machineconfiguration::annotation;
use testbed::{CONTROLLER, objects, until};

use crate::env::{Env, POOL, WITHIN};
use crate::judge::judge;
use crate::{DEFINITIONS, SHORT_LEASE};

const HELD: &str = "n2";

/// Runs `slipway`, which ends with this code and prints these texts.
fn slipway(env: &Env, arguments: &[&str], code: i32, texts: &[&str]) -> Result<()> {
    let kubeconfig = env.cluster.control_plane().admin_kubeconfig();
    testbed::slipway(&kubeconfig, arguments)?.expect(code, texts);
    Ok(())
}

/// Waits until the controllers have reported on the pool as it is.
async fn reported(env: &Env) -> Result<()> {
    until("the pool's status to follow its spec", WITHIN, async || {
        let pool = env.objects().pool(POOL).await?;
        let status = pool.status.unwrap_or_default();
        let (generation, observed) = (pool.metadata.generation, status.observed_generation);
        let is_reported = generation == observed;
        Ok(is_reported
            .then_some(())
            .ok_or_else(|| format!("{observed:?} of {generation:?}")))
    })
    .await
}

/// Asserts that each node was assigned what it runs, and nothing else.
async fn none_assigned(env: &Env, target: &str) -> Result<()> {
    for (name, node) in env.objects().nodes().await? {
        let desired = objects::annotation(&node, annotation::DESIRED_CONFIG);
        ensure!(desired == target, "{name} was assigned {desired}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn a_node_on_hold_waits_and_a_stopped_pool_outlives_its_controllers() -> Result<()> {
    let env = Env::start("stopped", Path::new(DEFINITIONS), &SHORT_LEASE);
    let (mut env, first) = env.await?;

    let put_on_hold = ["node", HELD, "hold", "--reason", "new disk on Monday"];
    slipway(
        &env,
        &put_on_hold,
        0,
        &["Node n2 is on hold: new disk on Monday"],
    )?;
    env.configure("50-change", "a=1").await?;
    let second = env.retargeted(&first).await?;
    env.all_done_but(HELD, &second).await?;
    env.waits_for("n2: on hold: new disk on Monday").await?;
    let nodes = env.objects().nodes().await?;
    let held = objects::annotation(&nodes[HELD], annotation::DESIRED_CONFIG);
    ensure!(held == first, "{HELD} was assigned {held}");
    let is_said = ["5 of 6 nodes updated", "1 on hold", "NodesOnHold"];
    slipway(&env, &["pool", POOL], 0, &is_said)?;
    slipway(&env, &["node", HELD], 0, &["new disk on Monday"])?;
    slipway(&env, &["node", HELD, "release"], 0, &["it was on hold"])?;
    env.all_done(&second).await?;

    let stop = ["pool", POOL, "stop", "--reason", "kernel bug"];
    slipway(&env, &stop, 0, &["MachineConfigPool worker is stopped by "])?;
    slipway(&env, &stop, 0, &["is stopped already, by "])?;
    env.configure("51-change", "a=2").await?;
    let third = env.cluster.next_target(POOL, &second).await?;
    reported(&env).await?;
    none_assigned(&env, &second).await?;
    // Others take their place, and render something else.
    env.cluster.replicas().clear();
    env.cluster.run(CONTROLLER, &SHORT_LEASE).await?;
    env.configure("52-change", "a=3").await?;
    let fourth = env.cluster.next_target(POOL, &third).await?;
    reported(&env).await?;
    env.waits_for("the pool is stopped by ").await?;
    none_assigned(&env, &second).await?;
    let is_said = ["stopped by ", "kernel bug", "(Stopped"];
    slipway(&env, &["pool", POOL], 5, &is_said)?;
    slipway(
        &env,
        &["pool", POOL, "go"],
        0,
        &["goes on; it was stopped by "],
    )?;
    env.all_done(&fourth).await?;

    env.cluster.replicas().clear();
    judge(&env.cluster.events()?, &[first, second, fourth])
}
