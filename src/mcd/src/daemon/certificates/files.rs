//! Bundles of certificates in the host's `/etc`.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use host::files::{self, Content, Found, Location, Root};
use host::journal::{self, Lock, Store};
use machineconfig::certificates::{Bundle, REGISTRIES, Wanted, is_ours, registry_path};
use machineconfig::plan::Mode;
use serde::Deserialize;

use crate::daemon::observe::{self, RECORD};

/// Mode of a file that was not there. One that was keeps its own.
const MODE: Mode = Mode(0o644);

/// Why files are not written now.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file on the host.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// What is under way on the host cannot be told, or somebody is at work on it.
    #[error(transparent)]
    Host(#[from] observe::Error),
    /// The next deployment is made already: what is written now would stay behind.
    #[error("an update is being applied: certificates are written after it")]
    Leaving,
}

impl From<journal::Error> for Error {
    fn from(error: journal::Error) -> Self {
        Self::Host(error.into())
    }
}

/// Has the host's files be as wanted, each whole or as it was; the paths that were written or removed. What the configuration in force
/// brings itself is its own.
///
/// # Errors
/// All of [`Error`]. What was written by then is right, and is not written again.
pub fn write(root: &Path, wanted: &Wanted) -> Result<Vec<String>, Error> {
    let host = Root::open(root, None)?;
    let _lock = still(&host)?;
    let mut written = Vec::new();
    let mut put = |bundle: &Bundle| -> Result<(), Error> {
        let at = host.locate(&bundle.path)?;
        if replace(root, &at, &bundle.pem)? {
            written.push(bundle.path.clone());
        }
        Ok(())
    };
    // Those of the node itself wait for nothing that registries may meet.
    let (registries, own): (Vec<_>, Vec<_>) =
        wanted.bundles.iter().partition(|bundle| bundle.is_registry);
    own.into_iter().try_for_each(&mut put)?;
    let at = host.follow(REGISTRIES)?;
    if !matches!(host.look(&at)?, Found::Directory { .. }) {
        return Ok(written);
    }
    let configured = configured(&host)?;
    registries
        .into_iter()
        .filter(|bundle| !configured.contains(&bundle.path))
        .try_for_each(put)?;
    for name in host.list(&at)? {
        if !wanted.registries.contains(&name)
            && let Some(path) = release(&host, &name)?
        {
            written.push(path);
        }
    }
    Ok(written)
}

/// Takes away what was written for a registry that nobody names any more; its path.
fn release(host: &Root, name: &str) -> Result<Option<String>, Error> {
    let path = registry_path(name);
    let file = host.locate(&path)?;
    let is_ours = matches!(host.look(&file)?, Found::File { bytes, .. } if is_ours(&bytes));
    if is_ours {
        host.remove(&file)?;
    }
    // Also one that a killed run has left empty.
    host.remove_empty_directory(&host.locate(&format!("{REGISTRIES}/{name}"))?)?;
    Ok(is_ours.then_some(path))
}

/// Keeps everybody else who acts on this host from it, unless somebody has begun to leave its `/etc` behind.
///
/// # Errors
/// [`Error::Host`], [`Error::Leaving`].
pub fn still(host: &Root) -> Result<Lock, Error> {
    let lock = Store::new(host).lock(Duration::ZERO)?;
    if observe::is_leaving(host)? {
        return Err(Error::Leaving);
    }
    Ok(lock)
}

/// Replaces a file's content, its mode, owner and label kept; whether it was another.
///
/// # Errors
/// [`Error::Files`].
pub fn replace(root: &Path, at: &Location, bytes: &[u8]) -> Result<bool, Error> {
    let host = Root::open(root, None)?.labelled_like(at.as_str())?;
    let found = host.look(at)?;
    let mut content = Content {
        bytes,
        mode: MODE,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    };
    let mut is_other = true;
    if let Found::File {
        bytes: before,
        mode,
        uid,
        gid,
    } = found
    {
        is_other = before != bytes;
        (content.mode, content.uid, content.gid) = (mode, uid, gid);
    }
    // Also where it is as asked: what a killed run has left beside it goes.
    host.replace(at, content)?;
    Ok(is_other)
}

/// Files that the configuration in force brings.
fn configured(host: &Root) -> Result<BTreeSet<String>, Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Config {
        spec: Spec,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Spec {
        config: Option<Ignition>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Ignition {
        storage: Storage,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Storage {
        files: Vec<File>,
    }
    #[derive(Deserialize)]
    struct File {
        path: String,
    }
    let Some(bytes) = host.read(RECORD)? else {
        return Ok(BTreeSet::new());
    };
    let config: Config = serde_json::from_slice(&bytes).map_err(observe::Error::Record)?;
    let files = config.spec.config.unwrap_or_default().storage.files;
    Ok(files.into_iter().map(|file| file.path).collect())
}
