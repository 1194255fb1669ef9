//! Users and groups of a root: ids of owners, home directories, password hashes.
//!
//! Accounts of a deployment are its merged `/etc/passwd` and `/etc/group`, then those of the OS in
//! `/usr/lib`, as its name service reads them. The libc's functions read the running root only.

mod database;
mod late;
mod missing;

pub use database::{Accounts, User};
pub use late::carry_late;
pub use missing::{MissingAccounts, find_missing};

use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use node_update::plan::Owner;
use rustix::fs::{FlockOperation, OFlags, fcntl_lock};
use rustix::io::Errno;

use crate::files::{self, Content, Found, Root};

/// Why accounts cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No database of the root has the name.
    #[error("{kind} {name:?} is not known to the OS")]
    Unknown {
        /// `user` or `group`.
        kind: &'static str,
        name: String,
    },
    /// A database is no regular file or no text.
    #[error("{path} {why}")]
    Database {
        path: &'static str,
        why: &'static str,
    },
    /// An account of the OS cannot be appended: another account has its id.
    #[error("{kind} {name:?} is new in the OS, but its id {id} belongs to {other:?}")]
    Taken {
        /// `user` or `group`.
        kind: &'static str,
        /// The account of the OS.
        name: String,
        id: u32,
        /// The account that has the id.
        other: String,
    },
    /// Another program edits the databases for longer than a change takes.
    #[error("{LOCK} is locked by another program, such as passwd")]
    Locked,
    /// A database cannot be read or written.
    #[error(transparent)]
    Files(#[from] files::Error),
}

pub(crate) const PASSWD: &str = "/etc/passwd";
pub(crate) const GROUP: &str = "/etc/group";
pub(crate) const SHADOW: &str = "/etc/shadow";
pub(crate) const GSHADOW: &str = "/etc/gshadow";

/// The lock of all account databases. Source: lckpwdf(3).
const LOCK: &str = "/etc/.pwd.lock";

/// How long [`LOCK`] is waited for, as `lckpwdf` does.
const LOCK_PATIENCE: Duration = Duration::from_secs(15);

/// How often a held lock is tried.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

impl Accounts {
    /// Reads the accounts of a root.
    ///
    /// # Errors
    /// [`Error::Files`]; a missing database counts as empty.
    pub fn read(root: &Root) -> Result<Self, Error> {
        let text = |path| -> Result<String, Error> {
            let bytes = root.read(path)?.unwrap_or_default();
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Self::parse(
            &[&text(PASSWD)?, &text("/usr/lib/passwd")?],
            &[&text(GROUP)?, &text("/usr/lib/group")?],
        ))
    }

    /// The id of a user.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn uid(&self, owner: &Owner) -> Result<u32, Error> {
        match owner {
            Owner::Id(id) => Ok(*id),
            Owner::Name(name) => self.user(name).map(|user| user.uid),
        }
    }

    /// The id of a group.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn gid(&self, owner: &Owner) -> Result<u32, Error> {
        match owner {
            Owner::Id(id) => Ok(*id),
            Owner::Name(name) => self.group(name).ok_or_else(|| Error::Unknown {
                kind: "group",
                name: name.clone(),
            }),
        }
    }

    /// A user by name.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn user(&self, name: &str) -> Result<&User, Error> {
        self.find_user(name).ok_or_else(|| Error::Unknown {
            kind: "user",
            name: name.to_owned(),
        })
    }
}

/// Sets a user's password hash in a root's `/etc/shadow`, unless it is set already.
///
/// # Errors
/// [`Error::Database`] for a shadow file that is missing or not text, [`Error::Files`].
pub fn set_password(root: &Root, user: &str, hash: &str) -> Result<(), Error> {
    edit(root, SHADOW, |text| {
        database::with_password(text, user, hash)
    })
}

/// Writes a changed account database with its mode and owner; `edit` returns `None` for no change.
/// The databases of the running system are locked meanwhile, as `passwd` and `useradd` lock them.
pub(crate) fn edit(
    root: &Root,
    path: &'static str,
    edit: impl FnOnce(&str) -> Option<String>,
) -> Result<(), Error> {
    let is_shared = root.is_whole();
    let _lock = is_shared.then(|| lock(root, LOCK_PATIENCE)).transpose()?;
    let at = root.locate(path)?;
    let Found::File { bytes, mode, owner } = root.look(&at)? else {
        return Err(Error::Database {
            path,
            why: "is not a regular file",
        });
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| Error::Database {
        path,
        why: "is not UTF-8",
    })?;
    if let Some(edited) = edit(text) {
        let content = Content {
            bytes: edited.as_bytes(),
            mode,
            owner,
        };
        root.replace(&at, content)?;
    }
    Ok(())
}

/// Locks the account databases of a root. The lock is of this process, and ends when the file is
/// closed.
fn lock(root: &Root, patience: Duration) -> Result<OwnedFd, Error> {
    let at = root.locate(LOCK)?;
    let write = |error: Errno| files::Error::Write {
        path: LOCK.to_owned(),
        source: error.into(),
    };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW;
    let file = root
        .open_at(at.as_str(), flags, rustix::fs::Mode::from(0o600))
        .map_err(write)?;
    let until = Instant::now() + patience;
    loop {
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::AGAIN | Errno::ACCESS) if Instant::now() < until => {
                thread::sleep(LOCK_PAUSE);
            }
            Err(Errno::AGAIN | Errno::ACCESS) => return Err(Error::Locked),
            Err(error) => return Err(write(error).into()),
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "files of a test")]
mod tests {
    use super::*;

    const BEFORE: &str = "core:*:::::::\nother:old:::::::\n";

    fn root() -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("etc")).unwrap();
        for (name, text) in [("shadow", BEFORE), ("passwd", "core:x:1:1::/:/bin/sh\n")] {
            std::fs::write(directory.path().join("etc").join(name), text).unwrap();
        }
        let root = Root::open(directory.path(), None).unwrap();
        (directory, root)
    }

    /// A lock as another program holds it: one of a process would not exclude this process.
    fn hold(directory: &std::path::Path) -> std::fs::File {
        let file = std::fs::File::create(directory.join("etc/.pwd.lock")).unwrap();
        let all = nix::libc::flock {
            l_type: 1,
            l_whence: 0,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_OFD_SETLK(&all)).unwrap();
        file
    }

    #[test]
    fn a_password_that_another_program_sets_meanwhile_is_kept() {
        let (directory, root) = root();
        let held = hold(directory.path());
        let path = directory.path().join("etc/shadow");
        let other = std::thread::spawn(move || {
            // As `passwd` does: read, write anew, unlock. It takes its time.
            let text = std::fs::read_to_string(&path).unwrap();
            thread::sleep(LOCK_PAUSE * 4);
            std::fs::write(&path, text.replace("other:old", "other:new")).unwrap();
            drop(held);
        });
        set_password(&root, "core", "$6$hash").unwrap();
        other.join().unwrap();
        let text = std::fs::read_to_string(directory.path().join("etc/shadow")).unwrap();
        assert_eq!(text, "core:$6$hash:::::::\nother:new:::::::\n");
    }

    #[test]
    fn databases_that_stay_locked_are_left_alone() {
        let (directory, root) = root();
        let _held = hold(directory.path());
        let error = lock(&root, Duration::ZERO).unwrap_err();
        assert!(matches!(error, Error::Locked), "{error}");
    }
}
