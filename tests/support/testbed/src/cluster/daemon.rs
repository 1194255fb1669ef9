//! The node's daemon, as the container of the DaemonSet in `deploy/daemon`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use lab::control_plane::ControlPlane;
use lab::host::{FromCluster, Host, Pod, PodSpec};

use super::{Binaries, account};

/// Name of its service account.
const ACCOUNT: &str = "machine-config-daemon";

const DAEMON_SET: &str = include_str!("../../../../../deploy/daemon/daemonset.yaml");

/// Starts it on a host; `dir` gets what a kubelet would mount of its service account.
pub(super) async fn start(
    binaries: &Binaries,
    control_plane: &ControlPlane,
    host: &Host,
    dir: &Path,
) -> Result<Pod> {
    account::write_mount(control_plane, ACCOUNT, dir).await?;
    let server = control_plane.server_url();
    let address = server
        .strip_prefix("https://")
        .and_then(|address| address.rsplit_once(':'));
    let (api_host, api_port) = address.with_context(|| format!("{server} has no port"))?;
    let given = FromCluster {
        node_name: host.name().to_owned(),
        api_host: api_host.to_owned(),
        api_port: api_port.parse()?,
        service_account: Some(dir.to_owned()),
        volumes: BTreeMap::new(),
    };
    let spec = PodSpec::of_daemon_set(DAEMON_SET, &given)?
        .program(&fs::canonicalize(&binaries.mcd)?, "/usr/bin/mcd")
        // As in its image: what the helper links is the host's.
        .carried(&fs::canonicalize(&binaries.mcd_os)?, "/usr/bin/mcd-os");
    Pod::start(host, spec)
}
