//! A release of Slipway's images and an OS: its version operator is installed, and applies it.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use lab::tree::Overlay;
use serde_json::Value;
use testbed::{DONE_WITHIN, Programs, until};

use crate::hosts::Env;

/// Workers of the cluster.
const WORKERS: usize = 1;

/// The version of the release.
const RELEASE: &str = "1.0.0";

/// What an installer leaves for the version operator, besides its own manifests.
const INSTALLED: &str = "
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: openshift-user-critical
value: 1000000000
---
apiVersion: config.openshift.io/v1
kind: ClusterVersion
metadata:
  name: version
spec:
  clusterID: 4f1d3c3e-2b3b-4c8e-9c1d-6a3b1e0f9a11
";

/// Makes a release of the images that the cluster runs, in its registry; its pull spec.
async fn release(env: &Env) -> Result<String> {
    let mut images: BTreeMap<&str, String> = env.cluster.push_components(None).await?;
    let base = images
        .remove("slipway-cvo")
        .context("no version operator")?;
    images.insert("cluster-version-operator", base);
    let os = env.cluster.image(&Overlay::version("41.1"))?;
    images.insert("slipway-os", os.reference);
    let registry = env.cluster.host_lab()?.registry.location();
    let place = format!("{registry}/slipway/release:{RELEASE}");
    let tags = images.iter().map(|(name, image)| format!("{name}={image}"));
    let tags: Vec<String> = tags.collect();
    let words = [
        "release",
        "new",
        "--insecure",
        "--name",
        RELEASE,
        "--to-image",
        &place,
    ];
    let words = words.into_iter().chain(tags.iter().map(String::as_str));
    let output = Command::new(Programs::built()?.path("slipway")?)
        .args(words)
        .output()
        .context("cannot run slipway")?;
    let (out, error) = (&output.stdout, &output.stderr);
    let (out, error) = (String::from_utf8_lossy(out), String::from_utf8_lossy(error));
    ensure!(output.status.success(), "slipway release new: {error}");
    let digest = out.split(' ').next().unwrap_or_default();
    Ok(format!("{registry}/slipway/release@{digest}"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs hosts"]
async fn a_release_takes_over_what_is_installed_and_goes_whole() -> Result<()> {
    let env = Env::start("released", WORKERS).await?;
    env.install(&["--force-conflicts"])?
        .expect(0, &["slipway 0.2.0 is installed and runs"]);
    let authority = String::from_utf8(env.cluster.control_plane().ca_pem().to_vec())?;
    let authorities = [authority.as_str(), &authority];
    env.cluster
        .publish_certificates(&authorities, &[], false)
        .await?;
    env.cluster.apply(INSTALLED).await?;
    let release = release(&env).await?;

    // The lab's definitions are upstream's.
    let install = ["--release", &release, "--insecure", "--force-conflicts"];
    let checked = env.install(&[&install[..], &["--check"]].concat())?;
    checked.expect(0, &["machine-config, version-operator"]);
    let installed = env.install(&install)?;
    installed.expect(0, &["slipway 0.2.0 is installed and runs"]);
    completed(&env, &release).await?;
    env.until_updated(WORKERS).await?;

    // Its operator applies what the cluster has: a component alone would undo that.
    env.install(&[])?
        .expect(1, &["request another release by slipway upgrade"]);
    // Again, it finds all in place.
    let again = env.install(&install)?;
    again.expect(0, &["slipway 0.2.0 is installed and runs"]);

    env.slipway(&["uninstall"])?
        .expect(0, &["slipway 0.2.0 is removed"]);
    let left = env.kubectl(&[
        "get",
        "deployments,daemonsets",
        "--all-namespaces",
        "--output=name",
    ])?;
    for name in ["cluster-version-operator", "machine-config"] {
        ensure!(!left.contains(name), "{left}");
    }
    for node in ["cp1", "w1"] {
        let left = env.left_on(node)?;
        ensure!(left.is_empty(), "{node}: {left:?}");
    }
    Ok(())
}

/// Waits until the version operator has applied the release.
async fn completed(env: &Env, release: &str) -> Result<()> {
    until("the release to be completed", DONE_WITHIN, async || {
        let version = env.kubectl(&["get", "clusterversion", "version", "--output=json"]);
        let version = match version {
            Ok(text) => serde_json::from_str::<Value>(&text)?,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let newest = &version["status"]["history"][0];
        let is_done = newest["state"] == "Completed"
            && newest["version"] == RELEASE
            && newest["image"] == release;
        Ok(if is_done {
            Ok(())
        } else {
            Err(version["status"].to_string())
        })
    })
    .await
}
