//! Users and groups of a root: ids of owners, home directories, password hashes.
//!
//! Accounts of a deployment are its merged `/etc/passwd` and `/etc/group`, then those of the OS in
//! `/usr/lib`, as its name service reads them. The libc's functions read the running root only.

mod database;
mod missing;

pub use database::{Accounts, User};
pub use missing::{MissingAccounts, find_missing};

use node_update::plan::Owner;

use crate::files::{self, Content, Found, Root};

/// Why accounts cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No database of the root has the name.
    #[error("{kind} {name:?} is not known to the OS")]
    Unknown {
        /// `user` or `group`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A database is no regular file or no text.
    #[error("{path} {why}")]
    Database {
        /// Its path.
        path: &'static str,
        /// The fault.
        why: &'static str,
    },
    /// An account of the OS cannot be appended: another account has its id.
    #[error("{kind} {name:?} is new in the OS, but its id {id} belongs to {other:?}")]
    Taken {
        /// `user` or `group`.
        kind: &'static str,
        /// The account of the OS.
        name: String,
        /// Its id.
        id: u32,
        /// The account that has the id.
        other: String,
    },
    /// A database cannot be read or written.
    #[error(transparent)]
    Files(#[from] files::Error),
}

pub(crate) const PASSWD: &str = "/etc/passwd";
pub(crate) const GROUP: &str = "/etc/group";
pub(crate) const SHADOW: &str = "/etc/shadow";
pub(crate) const GSHADOW: &str = "/etc/gshadow";

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
/// [`Error::Unknown`] for a user that no database has, [`Error::Database`] for a shadow file that
/// is missing or not text, [`Error::Files`].
pub fn set_password(root: &Root, accounts: &Accounts, user: &str, hash: &str) -> Result<(), Error> {
    accounts.user(user)?;
    edit(root, SHADOW, |text| {
        database::with_password(text, user, hash)
    })
}

/// Writes a changed account database with its mode and owner; `edit` returns `None` for no change.
pub(crate) fn edit(
    root: &Root,
    path: &'static str,
    edit: impl FnOnce(&str) -> Option<String>,
) -> Result<(), Error> {
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
