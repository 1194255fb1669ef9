//! SELinux labels of written files.

use std::fmt;
use std::os::fd::AsRawFd as _;

use rustix::io::Errno;

use super::Result;
use super::path::Location;
use super::root::Root;
use super::shipped::read_error;
use super::write::{FILE_TYPE, KIND};

/// The extended attribute of an SELinux label.
pub(crate) const LABEL: &str = "security.selinux";

/// Buffer for a label, in bytes: more than a label with all its categories needs.
pub(crate) const LABEL_MAX: usize = 4096;

/// Finds the SELinux label of a path by the policy of the written root.
///
/// On a host without a policy, files keep the kernel's default label.
pub trait Labels: fmt::Debug {
    /// The label of `path` (absolute, as the booted system sees it), for `st_mode`; `None` if
    /// the policy does not name one.
    ///
    /// # Errors
    /// The policy's own message.
    fn label(&self, path: &str, st_mode: u32) -> std::result::Result<Option<String>, String>;
}

/// Labels regular files as another file is labelled.
#[derive(Debug)]
pub(super) struct Like(String);

impl Like {
    /// The label of the entry at `path`, of a link its own; `None` for a missing or unlabelled
    /// entry.
    pub(super) fn of(root: &Root, path: &str) -> Result<Option<Self>> {
        let at = root.locate(path)?;
        match label_of(root, &at) {
            Ok(label) => Ok(Some(Self(String::from_utf8_lossy(&label).into_owned()))),
            // The last two: a file without a label, a file system without labels.
            Err(Errno::NOENT | Errno::NODATA | Errno::NOTSUP) => Ok(None),
            Err(error) => Err(read_error(&at, error.into())),
        }
    }
}

fn label_of(root: &Root, at: &Location) -> std::result::Result<Vec<u8>, Errno> {
    let (directory, name) = at.split();
    let directory = root.open_directory_at(directory)?;
    // A link cannot be opened for its attributes, so its path below the directory's handle is used.
    let path = format!("/proc/self/fd/{}/{name}", directory.as_raw_fd());
    let mut label = vec![0; LABEL_MAX];
    let length = rustix::fs::lgetxattr(path, LABEL, &mut label)?;
    label.truncate(length);
    Ok(label)
}

impl Labels for Like {
    fn label(&self, _path: &str, st_mode: u32) -> std::result::Result<Option<String>, String> {
        Ok((st_mode & KIND == FILE_TYPE).then(|| self.0.clone()))
    }
}
