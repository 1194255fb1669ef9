//! The CA by which this node knows the API server, while that is rotated.
//!
//! The operator sets `service-ca-rotate` only until its next sync; a polling node can miss it. So
//! a node compares: whenever a ControllerConfig is new, the CA that it holds with those of the
//! node's kubeconfigs.
//!
//! A node that trusts the wrong one is lost to its cluster, so a new one is tried before it is
//! written: with each kubeconfig as it would be, the API server is met once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chassis::report::Chain;
use cluster::access::Access;
use cluster::kubeconfig::{self, with_authority};
use cluster::{path, wire};
use host::files::{self as host_files, Root};
use host::systemd::{self, Job};
use node_update::certificates::check;
use node_update::well_known::KUBELET;
use serde::Deserialize;

use super::CertificateSync;
use super::files::{self, configured, replace, still};
use crate::daemon::reader;

/// ConfigMap that holds the CA, and its key there.
const CONFIG_MAP: &str = "kubeconfig-data";
const KEY: &str = "ca-bundle.crt";

/// Kubeconfig by which a node joins, where there is one.
const BOOTSTRAP: &str = "/etc/kubernetes/kubeconfig";

/// Says that the kubelet runs with the CA before the one in its kubeconfig; gone with the boot, as
/// that kubelet is.
const PENDING_RESTART: &str = "/run/slipway/kubelet-restart";

/// Why the new CA is not in force yet.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be used: the object, the field, and why.
    #[error("{0}")]
    Refused(String),
    /// A file on the host.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// A kubeconfig is not one.
    #[error(transparent)]
    Kubeconfig(#[from] kubeconfig::Error),
    /// A kubeconfig was written while the CA was tried with its previous content.
    #[error("{} was changed meanwhile", .0.display())]
    Changed(PathBuf),
    /// The API server did not give it.
    #[error(transparent)]
    Read(#[from] wire::Error),
    /// The kubelet runs with the CA before this one still.
    #[error("cannot restart {KUBELET}")]
    Restart(#[from] systemd::Error),
}

impl From<host_files::Error> for Error {
    fn from(error: host_files::Error) -> Self {
        Self::Files(error.into())
    }
}

impl Error {
    /// Whether only a person can mend it.
    pub(super) const fn is_for_people(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Kubeconfig(_))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConfigMap {
    data: BTreeMap<String, String>,
    binary_data: BTreeMap<String, String>,
}

/// What the cluster tells, and the field that has it, for messages.
struct Authority {
    field: String,
    pem: Vec<u8>,
}

/// Writes the CA that the cluster tells into the kubeconfigs of this host that have another, and
/// restarts the kubelet where its own is among them: it reads that at its start only.
/// `is_rotating`: there must be such a CA.
///
/// # Errors
/// All of [`Error`]; the first, where a kubeconfig has one and the other is written all the same.
/// It is done again from its beginning.
pub(super) async fn rotate(keeper: &CertificateSync<'_>, is_rotating: bool) -> Result<(), Error> {
    let written = write(keeper, is_rotating).await;
    restart(keeper).await?;
    written
}

async fn write(keeper: &CertificateSync<'_>, is_rotating: bool) -> Result<(), Error> {
    let namespace = keeper.namespace;
    let path = path::untyped("v1", Some(namespace), "configmaps") + "/" + CONFIG_MAP;
    let name = format!("ConfigMap {namespace}/{CONFIG_MAP}");
    let Some(map) = keeper.account.find::<ConfigMap>(&path).await? else {
        return if is_rotating {
            Err(Error::Refused(format!("{name} is not there")))
        } else {
            Ok(())
        };
    };
    let authority = authority(map, &name)?;
    // The one that the node lives by waits for nothing that the other may meet.
    let own = write_into(keeper, keeper.kubeconfig, &authority).await;
    let bootstrap = write_into(keeper, Path::new(BOOTSTRAP), &authority).await;
    own.and(bootstrap)
}

/// The CA in a ConfigMap, as the operator writes it (`binaryData`) or a person (`data`, as it is or
/// in base64).
fn authority(mut map: ConfigMap, name: &str) -> Result<Authority, Error> {
    let binary = map.binary_data.remove(KEY).map(|text| ("binaryData", text));
    let authority = binary.or_else(|| map.data.remove(KEY).map(|text| ("data", text)));
    let Some((field, text)) = authority else {
        return Err(Error::Refused(format!("{name} has no data[{KEY}]")));
    };
    let field = format!("{name} {field}[{KEY}]");
    let pem = STANDARD
        .decode(text.trim())
        .unwrap_or_else(|_| text.into_bytes());
    match check(&pem) {
        Ok(()) => Ok(Authority { field, pem }),
        Err(why) => Err(Error::Refused(format!(
            "{field} {why}: Malformed Cert, not syncing"
        ))),
    }
}

async fn write_into(
    keeper: &CertificateSync<'_>,
    path: &Path,
    authority: &Authority,
) -> Result<(), Error> {
    let host = Root::open(keeper.root, None)?;
    let text = path.to_string_lossy();
    let Some(before) = host.read(&text)? else {
        return Ok(());
    };
    let Some(after) = with_authority(path, &before, &authority.pem)? else {
        return Ok(());
    };
    // What the configuration brings is its own.
    if configured(&host)?.contains(text.as_ref()) {
        return Ok(());
    }
    let tried = tried(keeper, path, after.clone()).meets_its_server().await;
    tried.map_err(|error| {
        let why = Chain(&error).to_string();
        Error::Refused(format!(
            "{} cannot be used, {text} does not reach its server with it: {why}",
            authority.field
        ))
    })?;

    let _lock = still(&host)?;
    // A link to it stays one: its target has the mode that its token needs.
    let at = host.follow(&text)?;
    if host.read(&text)?.as_ref() != Some(&before) {
        return Err(Error::Changed(path.to_owned()));
    }
    if path == keeper.kubeconfig {
        replace(keeper.root, &host.locate(PENDING_RESTART)?, b"")?;
    }
    replace(keeper.root, &at, &after)?;
    tracing::info!(path = %text, "wrote the API server's CA");
    Ok(())
}

/// Restarts the kubelet where that is owed. One that does not run reads its kubeconfig when it is
/// started; no caller waits for it while it holds the host's lock.
async fn restart(keeper: &CertificateSync<'_>) -> Result<(), Error> {
    let host = Root::open(keeper.root, None)?;
    if host.read(PENDING_RESTART)?.is_none() {
        return Ok(());
    }
    let systemd = keeper.helper.systemd().await?;
    systemd.run(Job::TryRestart, KUBELET).await?;
    Ok(host.remove(&host.locate(PENDING_RESTART)?)?)
}

/// The pod's identity by a kubeconfig as it would be.
fn tried(keeper: &CertificateSync<'_>, path: &Path, text: Vec<u8>) -> Access {
    let (host, changed) = (reader(keeper.root), PathBuf::from(path));
    let read = Box::new(move |path_read: &Path| {
        if path_read == changed {
            Ok(text.clone())
        } else {
            host(path_read)
        }
    });
    Access::service_account(path, read, keeper.token).with_user_agent(crate::daemon::USER_AGENT)
}
