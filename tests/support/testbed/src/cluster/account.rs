//! Service accounts, as pods have them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use lab::control_plane::ControlPlane;

/// Namespace of the components.
const NAMESPACE: &str = api::NAMESPACE;

/// Writes what a kubelet mounts into a pod of the service account: `token`, `ca.crt`, `namespace`.
#[expect(clippy::disallowed_methods, reason = "a run's own files")]
pub(super) async fn write_mount(
    control_plane: &ControlPlane,
    account: &str,
    dir: &Path,
) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let token = control_plane.token(NAMESPACE, account).await?;
    fs::write(dir.join("token"), token)?;
    fs::write(dir.join("ca.crt"), control_plane.ca_pem())?;
    Ok(fs::write(dir.join("namespace"), NAMESPACE)?)
}

/// Writes a kubeconfig of a service account.
///
/// # Errors
///
/// It gets no token, or the file cannot be written.
#[expect(clippy::disallowed_methods, reason = "a run's own file")]
pub async fn write_kubeconfig(
    control_plane: &ControlPlane,
    account: &str,
    path: &Path,
) -> Result<()> {
    let token = control_plane.token(NAMESPACE, account).await?;
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
