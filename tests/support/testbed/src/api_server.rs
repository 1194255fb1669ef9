//! An API server alone, for programs that need no node.

use std::path::PathBuf;

use anyhow::Result;
use api::config::ClusterVersion;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use lab::control_plane::{ControlPlane, Options, Parts};
use lab::manifest;
use release::progress::NAMESPACE;
use serde_json::json;

use crate::{logs, workspace};

/// Starts one for a test; with it, the test's own folder, emptied.
pub async fn api_server(suite: &str, test: &str) -> Result<(ControlPlane, PathBuf)> {
    let dir = logs::folder(suite, test);
    logs::empty(&dir)?;
    let options = Options {
        parts: Parts::Api,
        ..Options::default()
    };
    let start = move || ControlPlane::start(&options);
    let control_plane = tokio::task::spawn_blocking(start).await??;
    Ok((control_plane, dir.canonicalize()?))
}

/// Defines the version operator's objects, and writes a ClusterVersion that has completed a
/// release, by version and pull spec.
pub async fn complete_release(
    control_plane: &ControlPlane,
    version: &str,
    image: &str,
) -> Result<()> {
    let client = control_plane.client().await?;
    manifest::define(&client, &workspace().join("deploy/cvo/crds")).await?;
    control_plane.kubectl(&["create", "namespace", NAMESPACE])?;
    let versions: Api<ClusterVersion> = Api::all(client);
    let spec = json!({ "clusterID": "4f1d3c3e-2b3b-4c8e-9c1d-6a3b1e0f9a11" });
    let object = json!({ "metadata": { "name": "version" }, "spec": spec });
    let object = serde_json::from_value(object)?;
    versions.create(&PostParams::default(), &object).await?;
    let status = json!({ "status": {
        "desired": { "version": version, "image": image },
        "history": [{
            "state": "Completed", "startedTime": "2025-01-01T00:00:00Z", "verified": false,
            "completionTime": "2025-01-01T01:00:00Z", "version": version, "image": image
        }],
        "observedGeneration": 1, "versionHash": "", "availableUpdates": null
    } });
    let params = PatchParams::default();
    versions
        .patch_status("version", &params, &Patch::Merge(status))
        .await?;
    Ok(())
}
