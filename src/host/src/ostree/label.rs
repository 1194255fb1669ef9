//! SELinux labels by the policy of the written deployment.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use ostree_ext::gio::Cancellable;
use ostree_ext::ostree;
use rustix::fs::{Mode, OFlags, open};

use super::{Error, ErrorContext as _, Result};
use crate::files::Labels;

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
    fn label(&self, path: &str, st_mode: u32) -> std::result::Result<Option<String>, String> {
        let label = self.policy.label(path, st_mode, Cancellable::NONE);
        label
            .map(|label| label.map(Into::into))
            .map_err(|error| error.to_string())
    }
}
