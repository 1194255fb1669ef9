//! SELinux labels by the policy of the written deployment.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use ostree_ext::gio::Cancellable;
use ostree_ext::ostree;
use rustix::fs::{Mode, OFlags, XattrFlags, lgetxattr, lsetxattr, open};
use rustix::io::Errno;

use super::{Error, ErrorContext as _, Result};
use crate::files::{LABEL, LABEL_MAX, LabelError, Labels};

/// Gives entries of `/etc` of the new deployment at `target` the labels of its policy. libostree
/// merges a changed file with the label that the policy of `origin` names, and no plan writes a
/// file that stays as it is. A label that the origin's policy does not name stays: an administrator
/// or a program chose it.
///
/// # Errors
/// Those of reading the policies, and [`Error::Io`].
pub(super) fn relabel_merged(origin: &Path, target: &Path) -> Result<()> {
    let (Some(of_origin), Some(of_target)) = (Policy::of(origin)?, Policy::of(target)?) else {
        return Ok(());
    };
    let mut directories = vec![target.join("etc")];
    while let Some(directory) = directories.pop() {
        let failed = |path: &Path, source: io::Error| Error::Io {
            path: path.display().to_string(),
            source,
        };
        let entries = fs::read_dir(&directory).map_err(|error| failed(&directory, error))?;
        for entry in entries {
            let path = entry.map_err(|error| failed(&directory, error))?.path();
            let metadata = path.symlink_metadata();
            let metadata = metadata.map_err(|error| failed(&path, error))?;
            // A name that no policy can name keeps its label.
            let inside = path.strip_prefix(target).ok().and_then(Path::to_str);
            if let Some(inside) = inside {
                let relabelled = relabel(&path, &format!("/{inside}"), |inside| {
                    let label = |policy: &Policy| policy.label(inside, metadata.mode());
                    Ok((label(&of_origin)?, label(&of_target)?))
                });
                relabelled.map_err(|error| failed(&path, error))?;
            }
            if metadata.is_dir() {
                directories.push(path);
            }
        }
    }
    Ok(())
}

/// Gives one entry the label that [`new_label`] chooses.
fn relabel(
    path: &Path,
    inside: &str,
    labels: impl FnOnce(&str) -> std::result::Result<(Option<String>, Option<String>), LabelError>,
) -> io::Result<()> {
    let mut buffer = vec![0; LABEL_MAX];
    let has = match lgetxattr(path, LABEL, &mut buffer) {
        Ok(length) => {
            let text = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default());
            Some(text.trim_end_matches('\0').to_owned())
        }
        Err(Errno::NODATA) => None,
        // The file system has none.
        Err(Errno::NOTSUP) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let (of_origin, of_target) = labels(inside).map_err(io::Error::other)?;
    let new = new_label(has.as_deref(), of_origin.as_deref(), of_target.as_deref());
    new.map_or(Ok(()), |new| {
        Ok(lsetxattr(path, LABEL, new.as_bytes(), XattrFlags::empty())?)
    })
}

/// The label that an entry gets, if another than it has. Users of SELinux do not count: what an
/// administrator writes is labelled with theirs.
fn new_label<'a>(
    has: Option<&str>,
    of_origin: Option<&str>,
    of_target: Option<&'a str>,
) -> Option<&'a str> {
    let kind = |label: &str| label.split_once(':').map(|(_, kind)| kind.to_owned());
    let (is, was, target) = (has.and_then(kind), of_origin.and_then(kind), of_target?);
    let is_right = is == kind(target);
    (!is_right && (is.is_none() || is == was)).then_some(target)
}

/// The policy of a root.
#[derive(Debug)]
pub(super) struct Policy {
    policy: ostree::SePolicy,
    // The policy reads its files through this descriptor.
    _root: OwnedFd,
}

impl Policy {
    /// The policy of the OS at `root`; `None` if it has none.
    ///
    /// Source: `/etc/selinux/config` and the policy it names, as libostree finds them.
    pub(super) fn of(root: &Path) -> Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(root, flags, Mode::empty()).map_err(|error| Error::Io {
            path: root.display().to_string(),
            source: error.into(),
        })?;
        let policy = ostree::SePolicy::new_at(directory.as_raw_fd(), Cancellable::NONE)
            .during(|| format!("read the SELinux policy of {}", root.display()))?;
        Ok(policy.csum().is_some().then_some(Self {
            policy,
            _root: directory,
        }))
    }
}

impl Labels for Policy {
    fn label(&self, path: &str, st_mode: u32) -> std::result::Result<Option<String>, LabelError> {
        let label = self.policy.label(path, st_mode, Cancellable::NONE)?;
        Ok(label.map(Into::into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_has_the_origins_label_gets_the_targets() {
        let (old, new) = (
            "system_u:object_r:etc_t:s0",
            "system_u:object_r:shadow_t:s0",
        );
        let own = "system_u:object_r:tmp_t:s0";
        let of_administrator = "unconfined_u:object_r:etc_t:s0";
        let table = [
            (Some(old), Some(old), Some(new), Some(new)),
            (Some(of_administrator), Some(old), Some(new), Some(new)),
            (None, Some(old), Some(new), Some(new)),
            (None, None, Some(new), Some(new)),
            (Some(new), Some(old), Some(new), None),
            (Some(own), Some(old), Some(new), None),
            (Some(of_administrator), Some(old), Some(old), None),
            (Some(old), Some(old), None, None),
        ];
        for (has, of_origin, of_target, expected) in table {
            let label = new_label(has, of_origin, of_target);
            assert_eq!(label, expected, "{has:?} {of_origin:?} {of_target:?}");
        }
    }
}
