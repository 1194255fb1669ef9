//! Writes and removes entries below a root.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use node_update::plan::{Attributes, Digest, LinkTarget, Mode, OwnerIds};
use rustix::fs::{self, AtFlags, Gid, OFlags, RenameFlags, Uid};
use rustix::io::Errno;

use super::labels::{DIRECTORY_TYPE, FILE_TYPE, LABEL, LINK_TYPE};
use super::path::Location;
use super::root::{Found, Root};
use super::{Error, Result, attributes};

/// Mode of parents made for a configuration's files, as in OpenShift's MCO.
const PARENT_MODE: Mode = Mode(0o755);

/// Longest file name Linux allows, in bytes.
const NAME_MAX: usize = 255;

/// A regular file as it should be.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    pub bytes: &'a [u8],
    /// Permission bits, with set-id and sticky.
    pub mode: Mode,
    pub owner: OwnerIds,
}

impl Root {
    /// Writes a regular file, replacing a file or link, and makes missing parents. Changes nothing
    /// if the file has this content, mode and owner already.
    ///
    /// # Errors
    /// [`Error::Write`], also if a directory is at the location, and those of reading.
    pub fn replace(&self, at: &Location, content: Content<'_>) -> Result<()> {
        self.replace_with(at, content, &Attributes::new())
    }

    /// The same, with extended attributes. Others that an unchanged file has stay.
    ///
    /// # Errors
    /// Those of [`Self::replace`].
    pub(crate) fn replace_with(
        &self,
        at: &Location,
        content: Content<'_>,
        attributes: &Attributes,
    ) -> Result<()> {
        if self.holds(at, content)? && self.has(at, attributes)? {
            return self.discard_temporary(at);
        }
        self.make_parents(at)?;
        self.put(at, |directory, temporary| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            // Other users may not read the bytes before owner and mode are set.
            let file = fs::openat(directory, temporary, flags, fs::Mode::from(0o600))?;
            write_all(&file, content.bytes)?;
            change_owner(&file, content.owner)?;
            fs::fchmod(&file, fs::Mode::from(content.mode.0))?;
            attributes::set(&file, attributes)?;
            self.label(&file, at, FILE_TYPE | content.mode.0)?;
            self.flush(&file)?;
            Ok(())
        })
    }

    /// Makes a symbolic link, replacing a file or link.
    ///
    /// # Errors
    /// [`Error::Write`], also if a directory is at the location, and those of reading.
    pub fn symlink(&self, at: &Location, target: &LinkTarget) -> Result<()> {
        if self.look(at)? == Found::Link(target.clone()) {
            return self.discard_temporary(at);
        }
        self.make_parents(at)?;
        self.put(at, |directory, temporary| {
            fs::symlinkat(target.as_bytes(), directory, temporary)?;
            self.label_link(directory, temporary, at)
        })
    }

    /// Makes a hard link to the file at `to`, replacing a file or link.
    ///
    /// # Errors
    /// [`Error::Write`], also if a directory is at the location or nothing is at `to`, and those of
    /// reading.
    pub(crate) fn hard_link(&self, at: &Location, to: &Location) -> Result<()> {
        let number = |at| Ok(self.inode(at)?.map(|inode| inode.number));
        let is_linked = number(to)?;
        if is_linked.is_some() && is_linked == number(at)? {
            return self.discard_temporary(at);
        }
        self.make_parents(at)?;
        self.put(at, |directory, temporary| {
            let (from, name) = to.split();
            let from = self.open_directory_at(from)?;
            Ok(fs::linkat(
                &from,
                name,
                directory,
                temporary,
                AtFlags::empty(),
            )?)
        })
    }

    /// Makes a directory with this mode and owner, or sets them on an existing one.
    ///
    /// # Errors
    /// [`Error::Write`], also if another entry is at the location.
    pub fn make_directory(&self, at: &Location, mode: Mode, owner: OwnerIds) -> Result<()> {
        if self.look(at)? == (Found::Directory { mode, owner }) {
            return Ok(());
        }
        self.make_parents(at)?;
        self.make_one(at, mode, owner)
            .map_err(|source| write_error(at, source))
    }

    /// Removes a file or link, if it exists.
    ///
    /// # Errors
    /// [`Error::Remove`], also if a directory is at the location.
    pub fn remove(&self, at: &Location) -> Result<()> {
        self.unlink(at, AtFlags::empty())?;
        self.discard_temporary(at)
    }

    /// Removes a directory if it is empty; returns whether it no longer exists.
    ///
    /// # Errors
    /// [`Error::Remove`].
    pub fn remove_empty_directory(&self, at: &Location) -> Result<bool> {
        self.discard_temporary(at)?;
        match self.unlink(at, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(true),
            Err(Error::Remove { source, .. })
                if matches!(
                    Errno::from_io_error(&source),
                    Some(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR)
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes a directory with all that is in it, if it exists. Links in it are removed, not
    /// followed.
    ///
    /// # Errors
    /// [`Error::Remove`], also if another entry is at the location.
    pub fn remove_all(&self, at: &Location) -> Result<()> {
        let remove = || -> io::Result<()> {
            // Names of any bytes; the location's links are resolved already.
            match std::fs::remove_dir_all(self.path().join(at.relative())) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            match self.open_directory_at(at.split().0) {
                Ok(parent) => self.flush(&parent),
                Err(Errno::NOENT) => Ok(()),
                Err(error) => Err(error.into()),
            }
        };
        remove().map_err(|source| Error::Remove {
            path: at.to_string(),
            source,
        })?;
        self.discard_temporary(at)
    }

    /// The missing parents of a location, outermost first.
    ///
    /// # Errors
    /// Those of reading.
    pub fn missing_parents(&self, at: &Location) -> Result<Vec<Location>> {
        let mut missing = Vec::new();
        let mut parent = at.parent();
        while let Some(directory) = parent {
            if self.look(&directory)? != Found::Nothing {
                break;
            }
            parent = directory.parent();
            missing.push(directory);
        }
        missing.reverse();
        Ok(missing)
    }

    fn holds(&self, at: &Location, content: Content<'_>) -> Result<bool> {
        Ok(match self.look(at)? {
            Found::File { bytes, mode, owner } => {
                bytes == content.bytes && (mode, owner) == (content.mode, content.owner)
            }
            Found::Nothing | Found::Link(_) | Found::Directory { .. } | Found::Other => false,
        })
    }

    fn has(&self, at: &Location, attributes: &Attributes) -> Result<bool> {
        if attributes.is_empty() {
            return Ok(true);
        }
        let present = self.attributes(at)?;
        Ok(attributes
            .iter()
            .all(|(name, value)| present.get(name) == Some(value)))
    }

    fn make_parents(&self, at: &Location) -> Result<()> {
        for directory in self.missing_parents(at)? {
            self.make_one(&directory, PARENT_MODE, OwnerIds::ROOT)
                .map_err(|source| write_error(&directory, source))?;
        }
        Ok(())
    }

    /// Makes a directory under a temporary name and renames it, so that it never has another mode
    /// or owner under its own name. Sets both on an existing directory.
    fn make_one(&self, at: &Location, mode: Mode, owner: OwnerIds) -> io::Result<()> {
        let (parent, name) = at.split();
        let parent = self.open_directory_at(parent)?;
        let dress = |name: &str| -> io::Result<()> {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let directory = fs::openat(&parent, name, flags, fs::Mode::empty())?;
            change_owner(&directory, owner)?;
            fs::fchmod(&directory, fs::Mode::from(mode.0))?;
            self.label(&directory, at, DIRECTORY_TYPE | mode.0)?;
            self.flush(&directory)
        };
        if self.look(at).map_err(io::Error::other)? == Found::Nothing {
            let temporary = temporary_name(name);
            match fs::mkdirat(&parent, &temporary, fs::Mode::from(0o700)) {
                // A killed run may have left it.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            dress(&temporary)?;
            fs::renameat_with(&parent, &temporary, &parent, name, RenameFlags::NOREPLACE)?;
        } else {
            dress(name)?;
        }
        self.flush(&parent)
    }

    /// Makes an entry under the temporary name of `at`, renames it to `at` and syncs.
    fn put(
        &self,
        at: &Location,
        make: impl FnOnce(&OwnedFd, &str) -> io::Result<()>,
    ) -> Result<()> {
        let (directory, name) = at.split();
        let temporary = temporary_name(name);
        // A killed run may have left one.
        self.discard_temporary(at)?;
        let put = || -> io::Result<()> {
            let directory = self.open_directory_at(directory)?;
            let written = make(&directory, &temporary)
                .and_then(|()| Ok(fs::renameat(&directory, &temporary, &directory, name)?));
            if let Err(error) = written {
                // On a full disk it holds the room that an undo needs.
                remove_if_there(&directory, &temporary)?;
                return Err(error);
            }
            self.flush(&directory)?;
            Ok(())
        };
        put().map_err(|source| write_error(at, source))
    }

    /// Removes the temporary entry that a killed run left: a file, a link, or an empty directory.
    fn discard_temporary(&self, at: &Location) -> Result<()> {
        let beside = at.beside(&temporary_name(at.split().1));
        match self.unlink(&beside, AtFlags::empty()) {
            Err(Error::Remove { source, .. })
                if Errno::from_io_error(&source) == Some(Errno::ISDIR) =>
            {
                self.unlink(&beside, AtFlags::REMOVEDIR)
            }
            done => done,
        }
    }

    /// Has what was written be on disk now, unless [`Self::sync`] does so for all of it later.
    fn flush(&self, written: &impl AsFd) -> io::Result<()> {
        if self.syncs_at_once {
            fs::fsync(written)?;
        }
        Ok(())
    }

    fn unlink(&self, at: &Location, flags: AtFlags) -> Result<()> {
        let (directory, name) = at.split();
        let unlink = || -> io::Result<()> {
            let directory = match self.open_directory_at(directory) {
                Ok(directory) => directory,
                Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            match fs::unlinkat(&directory, name, flags) {
                Ok(()) => self.flush(&directory),
                Err(Errno::NOENT) => Ok(()),
                Err(error) => Err(error.into()),
            }
        };
        unlink().map_err(|source| Error::Remove {
            path: at.to_string(),
            source,
        })
    }

    fn label(&self, file: &impl AsFd, at: &Location, st_mode: u32) -> io::Result<()> {
        let Some(label) = self.find_label(at, st_mode)? else {
            return Ok(());
        };
        Ok(fs::fsetxattr(
            file,
            LABEL,
            label.as_bytes(),
            fs::XattrFlags::empty(),
        )?)
    }

    /// A link cannot be opened for its attributes, so its path below the directory's handle is
    /// used.
    fn label_link(&self, directory: &OwnedFd, name: &str, at: &Location) -> io::Result<()> {
        use std::os::fd::AsRawFd as _;
        let Some(label) = self.find_label(at, LINK_TYPE | 0o777)? else {
            return Ok(());
        };
        let path = format!("/proc/self/fd/{}/{name}", directory.as_raw_fd());
        Ok(fs::lsetxattr(
            path,
            LABEL,
            label.as_bytes(),
            fs::XattrFlags::empty(),
        )?)
    }

    fn find_label(&self, at: &Location, st_mode: u32) -> io::Result<Option<String>> {
        let Some(labels) = &self.labels else {
            return Ok(None);
        };
        labels.label(at.as_str(), st_mode).map_err(|source| {
            io::Error::other(Error::Label {
                path: at.to_string(),
                source,
            })
        })
    }
}

/// The temporary name of the successor of `name`. It is always the same, so that leftovers of a
/// killed run are found; and hidden, so that readers of a drop-in directory ignore it.
fn temporary_name(name: &str) -> String {
    let plain = format!(".{name}.slipway-new");
    if plain.len() <= NAME_MAX {
        return plain;
    }
    format!(".{}.slipway-new", Digest::of(name.as_bytes()).as_str())
}

fn remove_if_there(directory: &OwnedFd, name: &str) -> io::Result<()> {
    match fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn change_owner(file: &OwnedFd, OwnerIds { uid, gid }: OwnerIds) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    Ok(fs::fchown(file, Some(uid), Some(gid))?)
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(file, bytes))?;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

fn write_error(at: &Location, source: io::Error) -> Error {
    Error::Write {
        path: at.to_string(),
        source,
    }
}
