//! Extended attributes of files, except the SELinux label.

use std::io;
use std::os::fd::OwnedFd;

use node_update::plan::{Attribute, AttributeName, Attributes};
use rustix::fs::{self, OFlags, XattrFlags};
use rustix::io::Errno;

use super::Result;
use super::labels::LABEL;
use super::path::Location;
use super::root::Root;
use super::shipped::read_error;

impl Root {
    /// The extended attributes of a regular file, except its label: the policy names that.
    ///
    /// # Errors
    /// [`Error::Read`](super::Error::Read).
    pub fn attributes(&self, at: &Location) -> Result<Attributes> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let read = || -> io::Result<Attributes> {
            let file = self.open_at(at.as_str(), flags, fs::Mode::empty())?;
            let mut attributes = Attributes::new();
            for name in names(&file)? {
                if name == LABEL.as_bytes() {
                    continue;
                }
                match value(&file, &name) {
                    Ok(value) => {
                        attributes.insert(AttributeName::new(name), Attribute(value));
                    }
                    // Removed since it was listed.
                    Err(Errno::NODATA) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(attributes)
        };
        read().map_err(|source| read_error(at, source))
    }
}

/// Sets attributes of a new file, after its owner and mode: a change of either clears some.
pub(super) fn set(file: &OwnedFd, attributes: &Attributes) -> io::Result<()> {
    for (name, Attribute(value)) in attributes {
        fs::fsetxattr(file, name.as_bytes(), value, XattrFlags::empty())?;
    }
    Ok(())
}

fn names(file: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let length = match fs::flistxattr_query(file) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut names = vec![0; length];
    let length = fs::flistxattr(file, &mut names)?;
    names.truncate(length);
    Ok(names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(<[u8]>::to_vec)
        .collect())
}

fn value(file: &OwnedFd, name: &[u8]) -> std::result::Result<Vec<u8>, Errno> {
    let length = fs::fgetxattr_query(file, name)?;
    let mut value = vec![0; length];
    let length = fs::fgetxattr(file, name, &mut value)?;
    value.truncate(length);
    Ok(value)
}
