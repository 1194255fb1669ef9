//! Service accounts, as pods have them, and the credentials of kubelets.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use lab::control_plane::ControlPlane;
use lab::workload::Workload;

use crate::Authority;

/// Where a kubelet keeps its certificate and key, from its own folder.
pub(crate) const KUBELETS_CERTIFICATE: &str = "pki/kubelet-client-current.pem";

/// Writes what a kubelet mounts into a pod of a workload: `token`, `ca.crt`, `namespace`.
#[expect(clippy::disallowed_methods, reason = "a run's own files")]
pub(crate) async fn write_mount(
    control_plane: &ControlPlane,
    workload: &Workload,
    dir: &Path,
) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let token = token(control_plane, workload).await?;
    fs::write(dir.join("token"), token)?;
    fs::write(dir.join("ca.crt"), control_plane.ca_pem())?;
    Ok(fs::write(dir.join("namespace"), &workload.namespace)?)
}

/// Writes a kubeconfig with the rights of a workload.
#[expect(clippy::disallowed_methods, reason = "a run's own file")]
pub(crate) async fn write_kubeconfig(
    control_plane: &ControlPlane,
    workload: &Workload,
    path: &Path,
) -> Result<()> {
    let token = token(control_plane, workload).await?;
    let account = &workload.account;
    let server = control_plane.server_url();
    let authority = BASE64.encode(control_plane.ca_pem());
    let text = format!(
        "apiVersion: v1
kind: Config
clusters:
- name: lab
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {account}
  user:
    token: {token}
contexts:
- name: lab
  context:
    cluster: lab
    user: {account}
current-context: lab
"
    );
    Ok(fs::write(path, text)?)
}

/// Writes what a node's kubelet has in its folder where a certificate authenticates it: the
/// kubeconfig and what it names. Their texts.
#[expect(clippy::disallowed_methods, reason = "a run's own files")]
pub(crate) fn write_kubelet(
    control_plane: &ControlPlane,
    signer: &Authority,
    node: &str,
    dir: &Path,
) -> Result<[String; 2]> {
    let kubeconfig = control_plane.node_kubeconfig_with(node, KUBELETS_CERTIFICATE)?;
    let certificate = signer.client(&format!("system:node:{node}"), "system:nodes")?;
    let pki = dir.join("pki");
    fs::create_dir_all(&pki).with_context(|| format!("cannot make {}", pki.display()))?;
    fs::write(dir.join("kubeconfig"), &kubeconfig)?;
    fs::write(dir.join(KUBELETS_CERTIFICATE), &certificate)?;
    Ok([kubeconfig, certificate])
}

async fn token(control_plane: &ControlPlane, workload: &Workload) -> Result<String> {
    let Workload {
        namespace, account, ..
    } = workload;
    control_plane.token(namespace, account).await
}
