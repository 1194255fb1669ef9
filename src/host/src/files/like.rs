//! Labels new files as another file is labelled.

use std::os::fd::AsRawFd as _;

use rustix::io::Errno;

use super::Result;
use super::labels::{FILE_TYPE, KIND, LABEL, LABEL_MAX, LabelError, Labels};
use super::path::Location;
use super::root::{Root, read_error};

/// Labels regular files as another file is labelled.
#[derive(Debug)]
struct Like(String);

impl Like {
    /// The label of the entry at `path`, of a link its own; `None` for a missing or unlabelled
    /// entry.
    fn of(root: &Root, path: &str) -> Result<Option<Self>> {
        let at = root.locate(path)?;
        match label_of(root, &at) {
            Ok(label) => Ok(Some(Self(String::from_utf8_lossy(&label).into_owned()))),
            // The last two: a file without a label, a file system without labels.
            Err(Errno::NOENT | Errno::NODATA | Errno::NOTSUP) => Ok(None),
            Err(error) => Err(read_error(&at, error.into())),
        }
    }
}

impl Root {
    /// The same root, whose new files get the label of the file at `path`, or the kernel's default
    /// label if that has none.
    ///
    /// # Errors
    /// Those of [`Self::locate`], and [`Error::Read`](super::Error::Read).
    pub fn labelled_like(self, path: &str) -> Result<Self> {
        let like = Like::of(&self, path)?;
        Ok(self.with_labels(like.map(|like| Box::new(like) as Box<dyn Labels>)))
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
    fn label(&self, _path: &str, st_mode: u32) -> std::result::Result<Option<String>, LabelError> {
        Ok((st_mode & KIND == FILE_TYPE).then(|| self.0.clone()))
    }
}
