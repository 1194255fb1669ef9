//! Bundles of certificates in the host's `/etc`.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use host::files::{self, Content, Found, Location, Root};
use host::journal::{self, JournalStore, Lock};
use host::record;
use node_update::certificates::{Bundle, DesiredCertificates, REGISTRIES, is_ours, registry_path};
use node_update::plan::{Mode, OwnerIds};

use crate::daemon::observe;

/// Mode of a file that was not there. One that was keeps its own.
const MODE: Mode = Mode(0o644);

/// Why files are not written now.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file on the host.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// What is under way on the host is unknown, or another program works on it.
    #[error(transparent)]
    Host(#[from] observe::Error),
    /// The next deployment is made already: what is written now would stay behind.
    #[error("an update is being applied: certificates are written after it")]
    Leaving,
}

impl From<record::Error> for Error {
    fn from(error: record::Error) -> Self {
        Self::Host(error.into())
    }
}

impl From<journal::Error> for Error {
    fn from(error: journal::Error) -> Self {
        Self::Host(error.into())
    }
}

/// What was done to a host's files. One that failed keeps no other back.
#[derive(Debug, Default)]
pub struct Written {
    /// Paths that were written or removed.
    pub paths: Vec<String>,
    pub failed: Option<Error>,
}

impl Written {
    fn note(&mut self, done: Result<Option<String>, Error>) {
        match done {
            Ok(path) => self.paths.extend(path),
            Err(error) => {
                self.failed.get_or_insert(error);
            }
        }
    }
}

/// Has the host's files be as desired, each whole or as it was. What the configuration in force
/// brings itself is its own.
///
/// # Errors
/// All of [`Error`], where nothing may be written at all; of single files, see [`Written`].
pub fn write(root: &Path, desired: &DesiredCertificates) -> Result<Written, Error> {
    let host = Root::open(root, None)?;
    let _lock = still(&host)?;
    let mut written = Written::default();
    let (registries, own): (Vec<_>, Vec<_>) = desired
        .bundles
        .iter()
        .partition(|bundle| bundle.is_registry);
    for bundle in own {
        written.note(put(&host, bundle));
    }
    let named = (registries.as_slice(), desired.registries.as_slice());
    if let Err(error) = write_registries(&host, named, &mut written) {
        written.note(Err(error));
    }
    Ok(written)
}

/// Those of registries, where a host has a place for them: what they should be, and the directories
/// that others own.
fn write_registries(
    host: &Root,
    (bundles, named): (&[&Bundle], &[String]),
    written: &mut Written,
) -> Result<(), Error> {
    let at = host.follow(REGISTRIES)?;
    if !matches!(host.look(&at)?, Found::Directory { .. }) {
        return Ok(());
    }
    let configured = configured(host)?;
    for bundle in bundles {
        if !configured.contains(&bundle.path) {
            written.note(put(host, bundle));
        }
    }
    for name in host.list(&at)? {
        if !named.contains(&name) {
            written.note(release(host, &name));
        }
    }
    Ok(())
}

/// Writes a file; its path, where it was another.
fn put(host: &Root, bundle: &Bundle) -> Result<Option<String>, Error> {
    let at = host.locate(&bundle.path)?;
    let is_other = replace_as(host.path(), &at, &bundle.pem, bundle.mode)?;
    Ok(is_other.then(|| bundle.path.clone()))
}

/// Removes what was written for a registry that the ControllerConfig names no more; its path.
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

/// Locks the host against other programs, unless one of them is about to leave its `/etc`.
///
/// # Errors
/// [`Error::Host`], [`Error::Leaving`].
pub fn still(host: &Root) -> Result<Lock, Error> {
    let lock = JournalStore::new(host).lock(Duration::ZERO)?;
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
    replace_as(root, at, bytes, MODE)
}

/// The same, with the mode of a file that was not there.
fn replace_as(root: &Path, at: &Location, bytes: &[u8], mode: Mode) -> Result<bool, Error> {
    let host = Root::open(root, None)?.labelled_like(at.as_str())?;
    let found = host.look(at)?;
    let mut content = Content {
        bytes,
        mode,
        owner: OwnerIds {
            uid: nix::unistd::geteuid().as_raw(),
            gid: nix::unistd::getegid().as_raw(),
        },
    };
    let mut is_other = true;
    if let Found::File {
        bytes: before,
        mode,
        owner,
    } = found
    {
        is_other = before != bytes;
        (content.mode, content.owner) = (mode, owner);
    }
    // Also where it is as desired: what a killed run has left beside it goes.
    host.replace(at, content)?;
    Ok(is_other)
}

/// Files that the configuration in force brings.
///
/// # Errors
/// [`Error::Files`], [`Error::Host`].
pub fn configured(host: &Root) -> Result<BTreeSet<String>, Error> {
    let Some(record) = record::read(host)? else {
        return Ok(BTreeSet::new());
    };
    let config = record.machine_config()?;
    let files = config.spec.ignition.storage.files.into_iter();
    Ok(files.map(|file| file.path).collect())
}
