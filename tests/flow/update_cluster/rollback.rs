//! The way back over a minor version: the release before says in its metadata from which releases
//! a cluster may return to it.

use anyhow::Result;
use serde_json::json;

use crate::env::{Cluster, VERSION};

/// The release that the cluster returns to.
const BEFORE: &str = "4.2.1";

const NEXT: &str = "4.3.0";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, docker-registry and the control-plane binary"]
async fn update_is_rolled_back_over_a_minor_version_that_the_release_before_lists() -> Result<()> {
    let mut cluster = Cluster::start("rollback").await?;
    cluster.arguments = vec![
        "--retrieval=pull".to_owned(),
        "--insecure-registries".to_owned(),
    ];
    let process = cluster.settle().await?;
    let mut files = cluster.release(BEFORE)?;
    let metadata = json!({
        "kind": "cincinnati-metadata-v0", "version": BEFORE,
        "metadata": { "slipway.dev/rollback-from": NEXT }
    });
    let path = "release-manifests/release-metadata".to_owned();
    files.insert(path, metadata.to_string());
    let before = cluster.push_signed("before", &files).await?;
    let files = cluster.release(NEXT)?;
    let next = cluster.push_signed("next", &files).await?;
    cluster.acknowledge()?;
    for (version, image) in [(BEFORE, &before), (NEXT, &next)] {
        cluster
            .ask(json!({ "version": version, "image": image }))
            .await?;
        cluster.complete_update(version, image).await?;
    }

    // Without the option nothing is requested.
    let refused = cluster.upgrade(&["rollback"])?;
    refused.expect(1, &["not the same minor release", "--allow-minor"]);
    // The release before the one before is no rollback, and says nothing of its sources either.
    cluster
        .ask(json!({ "version": VERSION, "image": cluster.push_signed("older", &cluster.release(VERSION)?).await? }))
        .await?;
    let message = cluster
        .until_condition("ReleaseAccepted", "False PreconditionChecks")
        .await?;
    let only = format!("the only supported rollback is to the cluster's previous version {BEFORE}");
    assert!(
        message.contains("LowDesiredVersion") && message.contains(&only),
        "{message}"
    );
    cluster.until_reconciled(NEXT).await?;

    let requested = cluster.upgrade(&["rollback", "--allow-minor"])?;
    requested.expect(0, &["Requested rollback from 4.3.0 to 4.2.1"]);
    cluster.complete_update(BEFORE, &before).await?;
    cluster.until_reconciled(BEFORE).await?;
    let status = cluster.status().await?;
    let history: Vec<String> = status
        .history
        .iter()
        .map(|one| format!("{} {} {}", one.version, one.state, one.verified))
        .collect();
    let expected = [
        "4.2.1 Completed true",
        "4.3.0 Completed true",
        "4.2.1 Completed true",
        "4.2.0 Completed false",
    ];
    assert_eq!(history, expected);
    drop(process);
    Ok(())
}

impl Cluster {
    /// Plays the rest of the cluster until an update is completed.
    async fn complete_update(&self, version: &str, image: &str) -> Result<()> {
        self.roll_out(image).await?;
        self.until_condition("Progressing", "waiting on alpha")
            .await?;
        self.report(version).await?;
        let done = format!("Cluster version is {version}");
        self.until_condition("Progressing", &done).await?;
        Ok(())
    }
}
