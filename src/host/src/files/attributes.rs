//! Extended attributes of files, except the SELinux label.

use std::io;
use std::os::fd::OwnedFd;

use node_update::plan::{Attribute, AttributeName, Attributes};
use rustix::fs::{self, OFlags, XattrFlags};
use rustix::io::Errno;

use super::Result;
use super::labels::LABEL;
use super::path::Location;
use super::root::{Root, read_error};

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use node_update::plan::{Digest, Prior};

    use super::super::Error;
    use super::*;

    #[test]
    fn an_attribute_with_any_name_is_observed_and_restored() {
        let host = tempfile::tempdir().unwrap();
        let file = host.path().join("etc/a");
        std::fs::create_dir(host.path().join("etc")).unwrap();
        std::fs::File::create(&file).unwrap();
        let name: &[u8] = b"user.\xff";
        fs::setxattr(&file, name, b"1", XattrFlags::empty()).unwrap();
        let root = Root::open(host.path(), None).unwrap();
        let at = root.locate("/etc/a").unwrap();
        let mut priors = BTreeMap::new();
        let mut keep = |_: &Digest, _: &[u8]| Ok::<_, Error>(());
        root.observe(&at, &mut priors, &mut keep).unwrap();
        // As the journal stores them.
        let stored = serde_json::to_string(&priors).unwrap();
        let priors: BTreeMap<String, Prior> = serde_json::from_str(&stored).unwrap();
        root.remove(&at).unwrap();
        root.restore(&priors, &mut |_| Ok::<_, Error>(Vec::new()))
            .unwrap();
        let mut value = [0; 8];
        let length = fs::getxattr(&file, name, &mut value[..]).unwrap();
        assert_eq!(value.get(..length), Some(&b"1"[..]));
    }
}
