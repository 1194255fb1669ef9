//! A release of Slipway's images and an OS: its version operator is installed, and applies it.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use lab::tree::Overlay;
use serde_json::Value;
use testbed::Programs;

use crate::hosts::Env;

/// Workers of the cluster.
const WORKERS: usize = 1;

/// The version of the release.
const RELEASE: &str = "1.0.0";

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
    let release = release(&env).await?;

    // The lab's definitions are upstream's.
    let install = ["--release", &release, "--insecure", "--force-conflicts"];
    // Nothing is applied without what an installer has to make.
    let needs = "ControllerConfig machine-config-controller: it is not there: create it before";
    env.install(&install)?
        .expect(1, &[needs, "1 requirement is missing"]);
    let versions = env.kubectl(&["get", "clusterversions", "--output=name"])?;
    ensure!(versions.is_empty(), "{versions}");
    let authority = String::from_utf8(env.cluster.control_plane().ca_pem().to_vec())?;
    let authorities = [authority.as_str(), &authority];
    env.cluster
        .publish_certificates(&authorities, &[], false)
        .await?;

    let checked = env.install(&[&install[..], &["--check"]].concat())?;
    checked.expect(0, &["machine-config, version-operator"]);
    let installed = env.install(&install)?;
    installed.expect(
        0,
        &[
            "waiting ClusterVersion version: ",
            "slipway 0.2.0 is installed and runs",
        ],
    );
    completed(&env, &release)?;
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

/// The version operator has applied the release, and the cluster has an id of its own.
fn completed(env: &Env, release: &str) -> Result<()> {
    let version = env.kubectl(&["get", "clusterversion", "version", "--output=json"])?;
    let version: Value = serde_json::from_str(&version)?;
    let newest = &version["status"]["history"][0];
    ensure!(newest["state"] == "Completed", "{}", version["status"]);
    ensure!(newest["version"] == RELEASE && newest["image"] == release);
    let cluster = env.kubectl(&["get", "namespace", "kube-system", "--output=json"])?;
    let cluster: Value = serde_json::from_str(&cluster)?;
    ensure!(version["spec"]["clusterID"] == cluster["metadata"]["uid"]);
    Ok(())
}
