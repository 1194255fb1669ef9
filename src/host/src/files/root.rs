//! A handle on a root directory, and the entries below it.

use std::fs::File;
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use node_update::plan::{Digest, Digester, LinkTarget, Mode, OwnerIds};
use rustix::fs::{self, AtFlags, FileType, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::labels::Labels;
use super::path::{LastComponent, Location, PathScope, resolve};
use super::{Error, Result};

/// Bytes of a file that are held at once for its digest.
const PART: usize = 64 << 10;

/// A root directory, the live system's or a deployment's.
///
/// A deployment's `/var` is the state root's `var`, given at opening.
#[derive(Debug)]
pub struct Root {
    tree: OwnedFd,
    var: Option<OwnedFd>,
    path: PathBuf,
    pub(super) labels: Option<Box<dyn Labels>>,
    /// Whether each write is on disk before the next begins.
    pub(super) syncs_at_once: bool,
}

/// What is at a path; of a file its content, or what was made of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<B = Vec<u8>> {
    Nothing,
    File {
        bytes: B,
        /// Permission bits, with set-id and sticky.
        mode: Mode,
        owner: OwnerIds,
    },
    /// A symbolic link, and what it points to.
    Link(LinkTarget),
    Directory {
        /// Permission bits, with set-id and sticky.
        mode: Mode,
        owner: OwnerIds,
    },
    /// A device, socket or pipe.
    Other,
}

/// What the file system knows of an entry besides its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inode {
    /// Its number; of hard links of one file it is one.
    pub(crate) number: u64,
    /// Whether it is a regular file with more than one hard link.
    pub(crate) is_shared: bool,
    /// When content, mode, owner or links last changed, in seconds since 1970.
    pub(crate) changed_secs: i64,
}

impl Inode {
    /// Of an entry that is named by other bytes than text: it may have changed at any time.
    pub(crate) const UNKNOWN: Self = Self {
        number: 0,
        is_shared: false,
        changed_secs: i64::MAX,
    };
}

impl Root {
    /// Opens the root `tree`, with `var` as its `/var` if that is another directory.
    ///
    /// # Errors
    /// [`Error::Read`] where a directory cannot be opened.
    pub fn open(tree: &Path, var: Option<&Path>) -> Result<Self> {
        Ok(Self {
            tree: open_directory(tree)?,
            var: var.map(open_directory).transpose()?,
            path: tree.to_owned(),
            labels: None,
            syncs_at_once: true,
        })
    }

    /// The same root, whose writes are on disk only after [`Self::sync`]: for a tree that is thrown
    /// away if it is not whole, and of hundreds of files.
    #[must_use]
    pub const fn syncing_at_the_end(mut self) -> Self {
        self.syncs_at_once = false;
        self
    }

    /// The same root, with labels for files written below it.
    #[must_use]
    pub fn with_labels(mut self, labels: Option<Box<dyn Labels>>) -> Self {
        self.labels = labels;
        self
    }

    /// Whether it has its own `/var`, as the running system's root has. That of a deployment is
    /// elsewhere.
    pub(crate) fn is_whole(&self) -> bool {
        self.var.is_none()
    }

    /// The path at which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The location of `path`: links of its parents are followed below this root. Below `/var`,
    /// `/run` and `/tmp` those have to be root's, or of the user that this program runs as.
    ///
    /// # Errors
    /// [`Error::Path`] for a path that is not allowed, [`Error::Read`] if a parent cannot be read.
    pub fn locate(&self, path: &str) -> Result<Location> {
        resolve(path, LastComponent::Kept, |parent| self.read_link(parent))
    }

    /// What decides which entry `path` is: its location, and that of each link that was followed on
    /// the way.
    ///
    /// # Errors
    /// Those of [`Self::locate`].
    pub(crate) fn ways(&self, path: &str) -> Result<Vec<Location>> {
        let mut ways = Vec::new();
        let at = resolve(path, LastComponent::Kept, |parent| {
            let target = self.read_link(parent)?;
            if target.is_some() {
                ways.push(parent.clone());
            }
            Ok(target)
        })?;
        ways.push(at);
        Ok(ways)
    }

    /// Whether `path` is outside this root's tree: a deployment's `/var` is the state root's.
    ///
    /// # Errors
    /// Those of [`Self::locate`].
    pub fn is_elsewhere(&self, path: &str) -> Result<bool> {
        Ok(self.var.is_some() && self.locate(path)?.scope() == PathScope::Shared)
    }

    /// The location of `path`, with a link at the path itself followed too.
    ///
    /// # Errors
    /// Those of [`Self::locate`].
    pub fn follow(&self, path: &str) -> Result<Location> {
        resolve(path, LastComponent::Followed, |parent| {
            self.read_link(parent)
        })
    }

    /// What is at a location. A file's content is read whole.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn look(&self, at: &Location) -> Result<Found> {
        self.look_by(at, |file| {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        })
    }

    /// The same with the digest of a file's content, of which it holds a part at a time.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub(crate) fn read_digest(&self, at: &Location) -> Result<Found<Digest>> {
        self.look_by(at, |file| {
            let mut digester = Digester::default();
            let mut part = vec![0; PART];
            loop {
                let count = match file.read(&mut part) {
                    Ok(0) => return Ok(digester.finish()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    count => count?,
                };
                digester.update(part.get(..count).unwrap_or_default());
            }
        })
    }

    fn look_by<B>(
        &self,
        at: &Location,
        read: impl FnOnce(&mut File) -> io::Result<B>,
    ) -> Result<Found<B>> {
        match self.look_inner(at, read) {
            // Also where another program removes it in between.
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(Found::Nothing),
            found => found.map_err(|source| read_error(at, source)),
        }
    }

    /// [`Self::locate`] and [`Self::look`].
    ///
    /// # Errors
    /// Theirs.
    pub fn inspect(&self, path: &str) -> Result<Found> {
        self.look(&self.locate(path)?)
    }

    /// A file's content, following a link at the path itself too, below this root; `None` if it is
    /// no regular file.
    ///
    /// # Errors
    /// Those of [`Self::inspect`].
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        Ok(match self.look(&self.follow(path)?)? {
            Found::File { bytes, .. } => Some(bytes),
            Found::Nothing | Found::Link(_) | Found::Directory { .. } | Found::Other => None,
        })
    }

    /// What the file system knows of an entry besides its state; `None` if nothing is there.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub(crate) fn inode(&self, at: &Location) -> Result<Option<Inode>> {
        let (directory, name) = at.split();
        let read = || -> std::result::Result<Inode, Errno> {
            let directory = self.open_directory_at(directory)?;
            let stat = fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            Ok(Inode {
                number: stat.st_ino,
                is_shared: is_file && stat.st_nlink > 1,
                changed_secs: stat.st_ctime,
            })
        };
        match read() {
            Ok(inode) => Ok(Some(inode)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(read_error(at, error.into())),
        }
    }

    /// Names in a directory, sorted; empty for a missing directory.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn list(&self, at: &Location) -> Result<Vec<String>> {
        let directory = match self.open_directory_at(at.as_str()) {
            Ok(directory) => directory,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Vec::new()),
            Err(error) => return Err(read_error(at, error.into())),
        };
        let mut names = Vec::new();
        let entries = fs::Dir::new(directory).map_err(|error| read_error(at, error.into()))?;
        for entry in entries {
            let entry = entry.map_err(|error| read_error(at, error.into()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Syncs the file systems of this root to disk.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn sync(&self) -> Result<()> {
        let write = |error: Errno| Error::Write {
            path: self.path.display().to_string(),
            source: error.into(),
        };
        fs::syncfs(&self.tree).map_err(write)?;
        self.var
            .as_ref()
            .map_or(Ok(()), |var| fs::syncfs(var).map_err(write))
    }

    /// The handle and the relative path of `path` (absolute and clean), for system calls.
    fn anchor<'a>(&'a self, path: &'a str) -> (BorrowedFd<'a>, &'a str) {
        let relative = path.strip_prefix('/').unwrap_or(path);
        let below_var = relative.strip_prefix("var").and_then(|rest| {
            if rest.is_empty() {
                Some(".")
            } else {
                rest.strip_prefix('/')
            }
        });
        match (&self.var, below_var) {
            (Some(var), Some(rest)) => (var.as_fd(), rest),
            _ if relative.is_empty() => (self.tree.as_fd(), "."),
            _ => (self.tree.as_fd(), relative),
        }
    }

    /// Opens below the root without following links: the path is resolved already, and a link that
    /// appeared since is an error.
    pub(crate) fn open_at(
        &self,
        path: &str,
        flags: OFlags,
        mode: fs::Mode,
    ) -> std::result::Result<OwnedFd, Errno> {
        let (anchor, relative) = self.anchor(path);
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        fs::openat2(anchor, relative, flags | OFlags::CLOEXEC, mode, resolve)
    }

    pub(super) fn open_directory_at(&self, path: &str) -> std::result::Result<OwnedFd, Errno> {
        self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY, fs::Mode::empty())
    }

    pub(crate) fn read_link(&self, at: &Location) -> Result<Option<String>> {
        let (directory, name) = at.split();
        let directory = match self.open_directory_at(directory) {
            Ok(directory) => directory,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(read_error(at, error.into())),
        };
        let target = match fs::readlinkat(&directory, name, Vec::new()) {
            Ok(target) => target,
            Err(Errno::INVAL | Errno::NOENT) => return Ok(None),
            Err(error) => return Err(read_error(at, error.into())),
        };
        let reject = |why| Error::Path {
            path: at.to_string(),
            why,
        };
        // Where users and services own directories, a link of theirs could lead root to write where
        // they may not.
        if matches!(at.scope(), PathScope::Shared | PathScope::Volatile) {
            let stat = fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|error| read_error(at, error.into()))?;
            let is_trusted = stat.st_uid == 0 || stat.st_uid == geteuid().as_raw();
            if !is_trusted {
                return Err(reject("is a link that root does not own"));
            }
        }
        let target = target.into_string();
        Ok(Some(target.map_err(|_| {
            reject("is a link to a path that is not UTF-8")
        })?))
    }

    fn look_inner<B>(
        &self,
        at: &Location,
        read: impl FnOnce(&mut File) -> io::Result<B>,
    ) -> io::Result<Found<B>> {
        let (directory, name) = at.split();
        let directory = self.open_directory_at(directory)?;
        let stat = fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = fs::openat(&directory, name, flags, fs::Mode::empty())?;
                let stat = fs::fstat(&file)?;
                Ok(Found::File {
                    bytes: read(&mut File::from(file))?,
                    mode: permissions(stat.st_mode),
                    owner: owner(&stat),
                })
            }
            FileType::Symlink => {
                let target = fs::readlinkat(&directory, name, Vec::new())?;
                Ok(Found::Link(LinkTarget::new(target.into_bytes())))
            }
            FileType::Directory => Ok(Found::Directory {
                mode: permissions(stat.st_mode),
                owner: owner(&stat),
            }),
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Ok(Found::Other),
        }
    }
}

const fn owner(stat: &fs::Stat) -> OwnerIds {
    OwnerIds {
        uid: stat.st_uid,
        gid: stat.st_gid,
    }
}

/// The bits of `st_mode` that a configuration can set.
fn permissions(st_mode: u32) -> Mode {
    Mode(st_mode & 0o7777)
}

pub(super) fn read_error(at: &Location, source: io::Error) -> Error {
    Error::Read {
        path: at.to_string(),
        source,
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd> {
    fs::open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        fs::Mode::empty(),
    )
    .map_err(|error| Error::Read {
        path: path.display().to_string(),
        source: error.into(),
    })
}
