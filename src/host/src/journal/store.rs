//! The journal and its companion files on disk, `/var/lib/slipway`.
//!
//! The journal and the held target have a copy beside them, which is read where the file itself is
//! no valid JSON. Where neither can be read there is none: the host goes on by what is booted.

mod plans;

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use chassis::report::Chain;
use node_update::plan::{Attempt, Mode, OwnerIds};
use node_update::well_known;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::warn;

use super::{HeldTarget, Journal, LastAttempt, SCHEMA, Switch};
use crate::files::{self, Content, Found, Location, Root};

/// Why a stored file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// A file is no valid JSON of its form.
    #[error("cannot understand {path}")]
    Parse {
        path: String,
        #[source]
        source: serde_json::Error,
    },
    /// A file has another version.
    #[error("{path} is of version {found}, this program knows {SCHEMA}")]
    Schema { path: String, found: u64 },
    /// A file is missing or incomplete, or a blob does not match its digest.
    #[error("{path} {why}")]
    Damaged { path: String, why: &'static str },
    /// Another program holds the host's lock.
    #[error("another program holds {path}")]
    Locked { path: String },
}

/// What is left of a journal that cannot be read.
#[derive(Debug)]
pub enum JournalFault {
    Copied(Box<Journal>, Error),
    Lost(Error),
}

type Result<T> = std::result::Result<T, Error>;

const DIRECTORY: &str = well_known::STATE;
const JOURNAL: &str = "/var/lib/slipway/journal.json";
const LAST: &str = "/var/lib/slipway/last.json";
const HELD: &str = "/var/lib/slipway/held.json";
const SWITCH: &str = "/var/lib/slipway/switch.json";
/// A journal that could not be read.
const BROKEN: &str = "/var/lib/slipway/journal.broken.json";
const LOCK: &str = "/var/lib/slipway/lock";

/// Pause between attempts to take a held lock.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The stored files of a host, below its live root.
#[derive(Debug)]
pub struct JournalStore<'a> {
    root: &'a Root,
}

/// The lock of a host, released when dropped.
#[derive(Debug)]
pub struct Lock {
    // The kernel releases the lock when the last handle is closed.
    _file: OwnedFd,
}

impl<'a> JournalStore<'a> {
    /// The store of the host whose live root is `root`.
    pub fn new(root: &'a Root) -> Self {
        Self { root }
    }

    /// Takes the lock that every program takes before it changes this host.
    ///
    /// # Errors
    /// [`Error::Locked`] if another program still holds it after `patience`.
    pub fn lock(&self, patience: Duration) -> Result<Lock> {
        let at = self.root.locate(LOCK)?;
        self.private_parents(&at)?;
        let write = |source: Errno| files::Error::Write {
            path: LOCK.into(),
            source: source.into(),
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW;
        let file = self
            .root
            .open_at(at.as_str(), flags, rustix::fs::Mode::from(0o600))
            .map_err(write)?;
        let until = Instant::now() + patience;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(Errno::WOULDBLOCK) if Instant::now() < until => thread::sleep(LOCK_PAUSE),
                Err(Errno::WOULDBLOCK) => return Err(Error::Locked { path: LOCK.into() }),
                Err(error) => return Err(write(error).into()),
            }
        }
    }

    /// The attempt under way.
    ///
    /// # Errors
    /// [`Error::Files`], [`Error::Schema`].
    pub fn journal(&self) -> Result<Option<Journal>> {
        self.load_or_copy(JOURNAL)
    }

    /// Whether the journal cannot be read, and what of it can.
    ///
    /// # Errors
    /// [`Error::Files`], [`Error::Schema`].
    pub fn journal_fault(&self) -> Result<Option<JournalFault>> {
        match self.load::<Journal>(JOURNAL) {
            Ok(_) => Ok(None),
            Err(error @ Error::Parse { .. }) => match self.load(&copy_of(JOURNAL)) {
                Ok(Some(journal)) => Ok(Some(JournalFault::Copied(Box::new(journal), error))),
                Ok(None) | Err(Error::Parse { .. }) => Ok(Some(JournalFault::Lost(error))),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Puts a journal that cannot be read, and its copy, out of the way, for people to examine, and
    /// stores that no attempt is under way.
    ///
    /// # Errors
    /// [`Error::Files`].
    pub fn set_journal_aside(&self, last: &LastAttempt) -> Result<()> {
        self.save(LAST, last)?;
        if let Found::File { bytes, .. } = self.root.inspect(JOURNAL)? {
            self.write(BROKEN, &bytes)?;
        }
        self.remove_with_copy(JOURNAL)
    }

    /// Stores the journal of the attempt under way.
    ///
    /// # Errors
    /// [`Error::Files`].
    pub fn put_journal(&self, journal: &Journal) -> Result<()> {
        self.save_with_copy(JOURNAL, journal)
    }

    /// How the last attempt ended; nothing where that cannot be read, for no decision needs it.
    ///
    /// # Errors
    /// [`Error::Files`], [`Error::Schema`].
    pub fn last(&self) -> Result<Option<LastAttempt>> {
        self.load_or_copy(LAST)
    }

    /// The held target.
    ///
    /// # Errors
    /// [`Error::Files`], [`Error::Schema`].
    pub fn held(&self) -> Result<Option<HeldTarget>> {
        self.load_or_copy(HELD)
    }

    /// Holds a target that failed.
    ///
    /// # Errors
    /// [`Error::Files`].
    pub fn put_held(&self, held: &HeldTarget) -> Result<()> {
        self.save_with_copy(HELD, held)
    }

    /// Releases the held target.
    ///
    /// # Errors
    /// [`Error::Files`].
    pub fn clear_held(&self) -> Result<()> {
        self.remove_with_copy(HELD)
    }

    /// The two deployments between which the host switches.
    ///
    /// # Errors
    /// [`Error::Files`], [`Error::Schema`].
    pub fn switch(&self) -> Result<Option<Switch>> {
        self.load_or_copy(SWITCH)
    }

    /// Stores between which deployments the host switches.
    ///
    /// # Errors
    /// [`Error::Files`].
    pub fn put_switch(&self, switch: &Switch) -> Result<()> {
        self.save_with_copy(SWITCH, switch)
    }

    /// Ends an attempt: stores its outcome, then removes the plan, last the journal. A run killed
    /// in between leaves the journal, and the next run ends the attempt again with the same
    /// outcome. Without room for the outcome the target's blobs are removed first.
    ///
    /// # Errors
    /// [`Error::Files`].
    pub fn close(&self, journal: &Journal, last: &LastAttempt) -> Result<()> {
        self.save(LAST, last).or_else(|_| {
            self.discard_target(journal)?;
            self.save(LAST, last)
        })?;
        self.remove_attempt(&last.attempt)
    }

    fn remove_attempt(&self, attempt: &Attempt) -> Result<()> {
        self.discard_plan(attempt)?;
        self.remove_with_copy(JOURNAL)
    }

    /// The attempt under way. If the attempt ended and only its journal was not removed, removes
    /// the journal and returns `None`.
    ///
    /// # Errors
    /// [`Error::Files`], [`Error::Schema`].
    pub fn journal_under_way(&self) -> Result<Option<Journal>> {
        let Some(journal) = self.journal()? else {
            return Ok(None);
        };
        match self.last()? {
            Some(last) if last.attempt == journal.plan.attempt => {
                self.remove_attempt(&last.attempt).map(|()| None)
            }
            Some(_) | None => Ok(Some(journal)),
        }
    }

    /// What a file holds, or else its copy. Nothing where neither can be read.
    fn load_or_copy<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>> {
        let error = match self.load(path) {
            Err(error @ Error::Parse { .. }) => error,
            result => return result,
        };
        let copy = self.load(&copy_of(path));
        let has_copy = matches!(copy, Ok(Some(_)));
        warn!(path, has_copy, error = %Chain(&error), "stored file cannot be read");
        match copy {
            Err(Error::Parse { .. }) => Ok(None),
            result => result,
        }
    }

    /// Stores a file and its copy, first the copy: where the file cannot be read, the copy is what
    /// it was to hold.
    fn save_with_copy<T: Serialize>(&self, path: &str, value: &T) -> Result<()> {
        self.save(&copy_of(path), value)?;
        self.save(path, value)
    }

    /// Removes a file and its copy, first the copy: without its file it means nothing.
    fn remove_with_copy(&self, path: &str) -> Result<()> {
        self.root.remove(&self.root.locate(&copy_of(path))?)?;
        Ok(self.root.remove(&self.root.locate(path)?)?)
    }

    fn load<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>> {
        let Found::File { bytes, .. } = self.root.inspect(path)? else {
            return Ok(None);
        };
        parse(path, &bytes).map(Some)
    }

    fn save<T: Serialize>(&self, path: &str, value: &T) -> Result<()> {
        let parse = |source| Error::Parse {
            path: path.to_owned(),
            source,
        };
        let mut bytes = serde_json::to_vec_pretty(value).map_err(parse)?;
        bytes.push(b'\n');
        self.write(path, &bytes)
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let at = self.root.locate(path)?;
        self.private_parents(&at)?;
        Ok(self.root.replace(
            &at,
            Content {
                bytes,
                mode: Mode(0o600),
                owner: OwnerIds::ROOT,
            },
        )?)
    }

    /// Makes the missing directories from `/var/lib/slipway` down to a file, readable by root only:
    /// plans hold secrets.
    fn private_parents(&self, at: &Location) -> Result<()> {
        let ours = self.root.locate(DIRECTORY)?;
        self.root
            .make_directory(&ours, Mode(0o700), OwnerIds::ROOT)?;
        for directory in self.root.missing_parents(at)? {
            if directory.as_str().starts_with(ours.as_str()) {
                self.root
                    .make_directory(&directory, Mode(0o700), OwnerIds::ROOT)?;
            }
        }
        Ok(())
    }
}

/// The copy of a stored file.
fn copy_of(path: &str) -> String {
    format!("{path}.good")
}

fn parse<T: DeserializeOwned>(path: &str, bytes: &[u8]) -> Result<T> {
    let error = |source| Error::Parse {
        path: path.to_owned(),
        source,
    };
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(error)?;
    // The version is read before the rest, which another version may have in another form.
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        Some(found) if found != u64::from(SCHEMA) => Err(Error::Schema {
            path: path.to_owned(),
            found,
        }),
        Some(_) => serde_json::from_value(value).map_err(error),
        None => Err(error(serde_json::Error::io(io::Error::other(
            "it has no schema version",
        )))),
    }
}
