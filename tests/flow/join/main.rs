//! What hosts get from the config server.
//!
//! A new host joins a cluster: Ignition fetches its configuration, the first boot gives it the OS
//! and kernel arguments that are left, and its node is Done. Later the node's daemon reads its
//! configurations there ([`own`]).
#![expect(clippy::disallowed_methods, reason = "a test's own files")]

mod own;
mod scraped;

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use lab::host::{BOOTED_WITHIN, Host};
use lab::image::Image;
use lab::tree::Overlay;
use testbed::config::{Config, File, first_boot_unit};
use testbed::{Cluster, ConfigServer, DONE_WITHIN, NodeSpec, Testbed, logs};

const NODE: &str = "worker-0";

/// What is left for the first boot.
const ENCAPSULATED: &str = "/etc/ignition-machine-config-encapsulated.json";

/// What the pool asks for, besides its OS.
fn config() -> Config {
    Config::new()
        .files([File::new("/etc/site", "joined\n")])
        .units([first_boot_unit()])
}

/// A cluster with a host that nothing configured.
async fn cluster(name: &str) -> Result<(Cluster, NodeSpec, PathBuf)> {
    let logs = logs::folder("join", name);
    let node = NodeSpec::new(NODE).fresh();
    let cluster = Testbed::new(&logs).node(node.clone()).boot().await?;
    Ok((cluster, node, logs))
}

/// A file of the host's booted deployment, if it is there.
fn file(host: &Host, path: &str) -> Result<Option<String>> {
    let output = host.exec(["cat", path])?;
    Ok((output.code == Some(0)).then_some(output.stdout))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab and Ignition"]
async fn new_host_pivots_in_its_first_boot_and_its_node_is_done() -> Result<()> {
    let (mut cluster, node, logs) = cluster("pivot").await?;
    let image = cluster.image(&Overlay::version("join-2"))?;
    let spec = config()
        .os(&image.reference)
        .argument("slipway.test=join")
        .spec();
    let target = cluster.change("50-join", "worker", &spec).await?;
    let server = ConfigServer::start(&cluster, &logs.join("mcs")).await?;

    // A failed Ignition keeps the host out, and writes nothing.
    let broken = server.pointer.with_file_name("broken.ign");
    let text = std::fs::read_to_string(&server.pointer)?;
    std::fs::write(&broken, text.replace("/config/worker", "/config/unknown"))?;
    let error = cluster.host(NODE)?.ignite(&broken);
    ensure!(error.is_err(), "Ignition took an unknown pool");
    ensure!(
        cluster.objects().nodes().await?.is_empty(),
        "a node is there"
    );

    let host = cluster.host_mut(NODE)?;
    host.ignite(&server.pointer)?;
    host.start()?;
    host.wait_booted_after(1, DONE_WITHIN)?;
    cluster.introduce(&node).await?;
    cluster.all_done("worker", &target, DONE_WITHIN).await?;
    let host = cluster.host(NODE)?;
    let boots = host.boots();
    ensure!(boots.len() == 2, "{boots:?}");
    let last = boots.last().context("no boot")?;
    ensure!(last.content.as_ref() == Some(&image.content), "{last:?}");
    ensure!(last.options.contains("slipway.test=join"), "{last:?}");
    ensure!(file(host, "/etc/site")?.as_deref() == Some("joined\n"));
    ensure!(file(host, ENCAPSULATED)?.is_none(), "it was not renamed");
    ensure!(file(host, &format!("{ENCAPSULATED}.bak"))?.is_some());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab and Ignition"]
async fn new_host_that_has_its_os_joins_in_one_boot() -> Result<()> {
    let (mut cluster, node, logs) = cluster("one-boot").await?;
    // An image of the commit that the machine was installed from, as its installer has it.
    let host_lab = cluster.host_lab()?;
    let image = Image::with_repository(host_lab.tree.base())?;
    let image = host_lab.registry.push(&image, "os:installed")?;
    let spec = config().os(&image).spec();
    let target = cluster.change("50-join", "worker", &spec).await?;
    let server = ConfigServer::start(&cluster, &logs.join("mcs")).await?;
    let host = cluster.host_mut(NODE)?;
    host.ignite(&server.pointer)?;
    host.start()?;
    host.wait_booted(BOOTED_WITHIN)?;
    cluster.introduce(&node).await?;
    cluster.all_done("worker", &target, DONE_WITHIN).await?;
    let host = cluster.host(NODE)?;
    ensure!(host.boots().len() == 1, "{:?}", host.boots());
    ensure!(file(host, ENCAPSULATED)?.is_none(), "it was not removed");
    Ok(())
}
