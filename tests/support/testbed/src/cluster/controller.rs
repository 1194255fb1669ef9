//! The controller: two replicas, of which one decides, with the rights of `deploy/controller`.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use lab::control_plane::{ControlPlane, Process};

use super::account;

/// Name of its service account.
const ACCOUNT: &str = "machine-config-controller";

/// Starts the replicas; their logs and credentials are in folders of their names in `dir`.
pub(super) async fn start(
    program: &Path,
    control_plane: &ControlPlane,
    dir: &Path,
) -> Result<Vec<Process>> {
    let mut replicas = Vec::new();
    for replica in ["mcc-0", "mcc-1"] {
        let dir = dir.join(replica);
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let dir = dir.canonicalize()?;
        let kubeconfig = dir.join("kubeconfig");
        account::write_kubeconfig(control_plane, ACCOUNT, &kubeconfig).await?;
        let kubeconfig = kubeconfig
            .to_str()
            .context("the path of the logs is not UTF-8")?;
        let identity = ["--kubeconfig", kubeconfig, "--identity", replica];
        // Any free port: two replicas on one machine cannot share one.
        let arguments = [
            ["start"].as_slice(),
            &identity,
            &["--metrics-url", "127.0.0.1:0"],
        ]
        .concat();
        replicas.push(Process::start(replica, program, arguments, &dir)?);
    }
    Ok(replicas)
}
