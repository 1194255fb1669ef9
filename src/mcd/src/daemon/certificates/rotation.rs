//! The CA by which this node knows the API server, while that is rotated.
//!
//! A node that trusts the wrong one is lost to its cluster, so a new one is tried before it is written: with each kubeconfig as it would
//! be, the API server is met once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cluster::access::{Access, with_authority};
use cluster::wire;
use host::files::Root;
use host::systemd::{self, Job};
use machineconfig::certificates::check;
use serde::Deserialize;
use service::report::Chain;

use super::Keeper;
use super::files::{self, replace, still};
use crate::daemon::reader;

/// ConfigMap that holds the CA, and its key there.
const CONFIG_MAP: &str = "kubeconfig-data";
const KEY: &str = "ca-bundle.crt";

/// Kubeconfig by which a node joins, where there is one.
const BOOTSTRAP: &str = "/etc/kubernetes/kubeconfig";

const KUBELET: &str = "kubelet.service";

/// Why the new CA is not in force yet.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be used: the object, the key, and why.
    #[error("{0}")]
    Refused(String),
    /// A file on the host.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// A kubeconfig is not one.
    #[error(transparent)]
    Kubeconfig(#[from] cluster::access::Error),
    /// The API server did not give it.
    #[error(transparent)]
    Read(#[from] wire::Error),
    /// The kubelet runs with the CA before this one still.
    #[error("cannot restart {KUBELET}")]
    Restart(#[from] systemd::Error),
}

#[derive(Debug, Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

/// Writes the CA into the kubeconfigs of this host and restarts the kubelet, which reads its own at its start only.
///
/// # Errors
/// All of [`Error`]. It is done again from its beginning: what is written already is right, and a kubelet that is restarted twice loses
/// nothing.
pub(super) async fn rotate(keeper: &Keeper<'_>) -> Result<(), Error> {
    let namespace = keeper.namespace;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{CONFIG_MAP}");
    let refused = |why: String| {
        Error::Refused(format!(
            "ConfigMap {namespace}/{CONFIG_MAP} data[{KEY}] {why}"
        ))
    };
    let map: ConfigMap = keeper.account.get(&path).await?;
    let bundle = map.data.get(KEY).map(String::as_bytes).unwrap_or_default();
    check(bundle).map_err(|why| refused(format!("{why}: Malformed Cert, not syncing")))?;
    let mut changed = Vec::new();
    for path in [Path::new(BOOTSTRAP), keeper.kubeconfig] {
        let Some(text) = read(keeper.root, path)? else {
            continue;
        };
        let Some(text) = with_authority(path, &text, bundle)? else {
            continue;
        };
        let tried = tried(keeper, path, text.clone()).meets_its_server().await;
        tried.map_err(|error| {
            let why = Chain(&error).to_string();
            refused(format!(
                "is not the CA of the server of {}: {why}",
                path.display()
            ))
        })?;
        changed.push((path.to_owned(), text));
    }
    let host = Root::open(keeper.root, None).map_err(files::Error::from)?;
    let _lock = still(&host)?;
    for (path, text) in changed {
        // A link to it stays one: its target has the mode that its token needs.
        let at = host
            .follow(&path.to_string_lossy())
            .map_err(files::Error::from)?;
        replace(keeper.root, &at, &text)?;
        tracing::info!(path = %path.display(), "wrote the API server's CA");
    }
    let systemd = keeper.helper.systemd().await?;
    Ok(systemd.run(Job::Restart, KUBELET).await?)
}

fn read(root: &Path, path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let read = || Root::open(root, None)?.read(&path.to_string_lossy());
    Ok(read().map_err(files::Error::from)?)
}

/// The pod's identity by a kubeconfig as it would be.
fn tried(keeper: &Keeper<'_>, path: &Path, text: Vec<u8>) -> Access {
    let (host, changed) = (reader(keeper.root), PathBuf::from(path));
    let read = Box::new(move |asked: &Path| {
        if asked == changed {
            Ok(text.clone())
        } else {
            host(asked)
        }
    });
    Access::service_account(path, read, keeper.token).with_user_agent(crate::daemon::USER_AGENT)
}
