//! A new machine of a pool in image mode.

use anyhow::{Result, ensure};
use testbed::config::{Config, first_boot_unit};
use testbed::{ConfigServer, DONE_WITHIN, NodeSpec, logs};

use crate::env::{Env, POOL};

const OLD: &str = "w1";
const NEW: &str = "w2";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab and Ignition"]
async fn new_machine_gets_the_built_image_in_its_first_boot() -> Result<()> {
    let new = NodeSpec::new(NEW).fresh();
    let nodes = vec![NodeSpec::new(OLD).containers(), new.clone()];
    let mut env = Env::start("joined", nodes).await?;
    let first_boot = Config::new().units([first_boot_unit()]).spec();
    let target = env.cluster.change("50-join", POOL, &first_boot).await?;
    env.cluster.all_done(POOL, &target, DONE_WITHIN).await?;
    env.opt_in("RUN echo joined >/usr/lib/site-joined").await?;
    let build = env.until_built().await?;
    env.until_rolled(Some(&build.image)).await?;

    // LayeredImageServingDuringNodeScaleUp.
    let folder = logs::folder("image-mode", "joined").join("mcs");
    let server = ConfigServer::start(&env.cluster, &folder).await?;
    let host = env.cluster.host_mut(NEW)?;
    host.ignite(&server.pointer)?;
    host.start()?;
    host.wait_booted_after(1, DONE_WITHIN)?;
    env.cluster.introduce(&new).await?;
    env.until_rolled(Some(&build.image)).await?;
    let host = env.cluster.host(NEW)?;
    ensure!(host.boots().len() == 2, "{:?}", host.boots());
    ensure!(host.run(["cat", "/usr/lib/site-joined"])? == "joined");
    Ok(())
}
