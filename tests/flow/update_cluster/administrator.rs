//! The whole way of an administrator: the update service reads the releases of the registry, the
//! version operator asks it, and `slipway upgrade` shows, requests and follows the update.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use lab::control_plane::Process;
use lab::free_address;
use serde_json::json;
use testbed::Printed;

use crate::env::{Cluster, IMAGE, VERSION};

const NEXT: &str = "4.2.1";
const CHANNEL: &str = "stable-4.2";

impl Cluster {
    /// Starts the update service on the registry's releases; its address.
    fn update_service(&self) -> Result<(Process, SocketAddr)> {
        let data = self.dir.join("graph-data");
        std::fs::create_dir_all(data.join("channels"))?;
        std::fs::create_dir_all(data.join("blocked-edges"))?;
        std::fs::create_dir_all(data.join("raw"))?;
        std::fs::write(data.join("version"), "1.1.0")?;
        std::fs::write(data.join("raw/metadata.json"), "{}")?;
        let channel = format!("name: {CHANNEL}\nversions: [{VERSION}, {NEXT}]\n");
        std::fs::write(data.join("channels/stable-4.2.yaml"), channel)?;
        let (address, status) = (free_address()?, free_address()?);
        let settings = format!(
            "serve: {{listen: '{address}', status: '{status}'}}\n\
             releases: {{repository: {}, insecure: true}}\n\
             graphData: {{directory: {}}}\nscrape: {{intervalSeconds: 1}}\n",
            self.releases(),
            data.display()
        );
        let file = self.dir.join("update-service.yaml");
        std::fs::write(&file, settings)?;
        let arguments = ["start".into(), format!("--config={}", file.display())];
        let process = self
            .base
            .server
            .run("update-service", "update-service", arguments)?;
        Ok((process, address))
    }

    /// Runs `slipway upgrade`.
    pub(crate) fn upgrade(&self, arguments: &[&str]) -> Result<Printed> {
        self.slipway(&[&["upgrade"], arguments].concat())
    }

    /// How often the component's operator reported the next release, as the audit log has it.
    fn reports(&self) -> Result<usize> {
        let events = self.events()?;
        let version = json!(NEXT);
        let reported = events.iter().filter(|event| {
            let body = event.request.as_ref();
            let reported = body.and_then(|body| body.pointer("/status/versions/0/version"));
            event.succeeded() && !event.user_agent.starts_with("cvo/") && reported == Some(&version)
        });
        Ok(reported.count())
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, docker-registry and the control-plane binary"]
async fn update_of_the_update_service_is_requested_by_slipway() -> Result<()> {
    let mut cluster = Cluster::start("administrator").await?;
    cluster.arguments = vec![
        "--retrieval=pull".to_owned(),
        "--insecure-registries".to_owned(),
    ];
    let running = cluster.release(VERSION)?;
    cluster.publish(VERSION, &running).await?;
    let mut files = cluster.release(NEXT)?;
    let metadata = json!({
        "kind": "cincinnati-metadata-v0", "version": NEXT, "previous": [VERSION],
        "metadata": { "url": "https://example.com/errata" }
    });
    let path = "release-manifests/release-metadata".to_owned();
    files.insert(path, metadata.to_string());
    let image = cluster.publish(NEXT, &files).await?;
    let (service, address) = cluster.update_service()?;
    let process = cluster.settle().await?;

    // Without an update service or a channel nothing is offered, and that is no error.
    cluster
        .upgrade(&[])?
        .expect(0, &["Cluster version is 4.2.0", "Reason: NoChannel"]);
    let upstream = json!({ "spec": { "upstream": format!("http://{address}/graph") } });
    cluster.change(&upstream).await?;
    cluster.upgrade(&["channel", CHANNEL])?.expect(0, &[]);
    cluster.until_condition("RetrievedUpdates", "True").await?;
    cluster.until_offered(NEXT, "").await?;
    cluster
        .upgrade(&[])?
        .expect(0, &["Channel: stable-4.2", "Recommended updates:", &image]);
    let recommended = ["recommend", "--version", NEXT];
    let recommended = cluster.upgrade(&recommended)?;
    // Alerts cannot be read here: that is an issue, and it is named.
    recommended.expect(1, &["CannotReadAlerts"]);

    // What is not offered is refused, and nothing changes.
    let before = cluster.versions.get("version").await?;
    let refused = cluster.upgrade(&["--to", "4.2.9"])?;
    refused.expect(1, &["the update is not one of the possible targets: 4.2.1"]);
    let usage = cluster.upgrade(&["--to", NEXT, "--clear"])?;
    usage.expect(2, &["--clear"]);
    let tried = cluster.upgrade(&["--to", NEXT, "--dry-run"])?;
    tried.expect(
        0,
        &[
            "Requested update to 4.2.1",
            "info: Dry run: nothing was changed",
        ],
    );
    let after = cluster.versions.get("version").await?;
    assert_eq!(before.metadata.generation, after.metadata.generation);

    cluster
        .upgrade(&["status"])?
        .expect(0, &["The cluster is not updating."]);
    before_the_update(&cluster)?;
    cluster
        .upgrade(&["--to", NEXT])?
        .expect(0, &["Requested update to 4.2.1"]);
    cluster.roll_out(&image).await?;
    drop(process);
    let root = std::fs::read_dir(cluster.payloads())?.next();
    let root = root.context("no retrieved release")??.path();
    let process = cluster.run(&image, &root)?;
    cluster
        .until_condition("Progressing", "waiting on alpha")
        .await?;
    let status = cluster.upgrade(&["status", "-o", "json"])?.json()?;
    assert_eq!(cluster.reports()?, 0);
    assert_eq!(status["isUpdating"], json!(true), "{status}");
    cluster.upgrade(&["status"])?.expect(
        0,
        &[
            "Target Version:  4.2.1 (from 4.2.0)",
            "Completion:      0% (0 operators updated",
            // Of the version operator's record.
            "Steps:           ",
        ],
    );
    // Another request meanwhile is refused with the reason.
    let meanwhile = cluster.upgrade(&["--to-image", IMAGE, "--allow-explicit-upgrade"])?;
    meanwhile.expect(1, &["already upgrading", "--allow-upgrade-with-warnings"]);

    cluster.report(NEXT).await?;
    cluster
        .until_condition("Progressing", "Cluster version is 4.2.1")
        .await?;
    assert_eq!(cluster.reports()?, 1);
    cluster
        .upgrade(&["status"])?
        .expect(0, &["The cluster is not updating."]);
    cluster
        .upgrade(&["--to", NEXT])?
        .expect(0, &["info: Cluster is already at version 4.2.1"]);
    after_the_update(&cluster)?;
    let status = cluster.status().await?;
    assert!(status.history[0].verified);
    assert_eq!(status.desired.url, "https://example.com/errata");
    drop((process, service));
    Ok(())
}

/// Pictures before the update is requested: of the channel, and of no update.
fn before_the_update(cluster: &Cluster) -> Result<()> {
    cluster.upgrade(&["timeline"])?.expect(
        1,
        &["status.history has the installation only, and no update"],
    );
    // The graph is the one of the cluster's service and channel.
    let graph = ["graph", "--channel", CHANNEL, "--from", VERSION];
    cluster.slipway(&graph)?.expect(
        0,
        &[
            "channel stable-4.2 (amd64): 2 releases, 1 recommended updates",
            "Shortest path from 4.2.0 to 4.2.1:\n  4.2.1\n",
        ],
    );
    Ok(())
}

/// The picture of the update that is done.
fn after_the_update(cluster: &Cluster) -> Result<()> {
    let timeline = cluster.upgrade(&["timeline"])?;
    timeline.expect(0, &["Update 4.2.0 to 4.2.1: control plane done after "]);
    let picture = cluster.upgrade(&["timeline", "--svg"])?;
    picture.expect(0, &["<svg ", "control plane done"]);
    Ok(())
}
