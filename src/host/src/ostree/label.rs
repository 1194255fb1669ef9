//! SELinux labels by the policy of the deployment that is written to.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use ostree_ext::gio::Cancellable;
use ostree_ext::ostree;
use rustix::fs::{Mode, OFlags, open};

use super::{Doing as _, Error, Result};
use crate::files::Labels;

/// The policy of a root.
#[derive(Debug)]
pub(super) struct Policy {
    policy: ostree::SePolicy,
    // The policy reads its files through this.
    _root: OwnedFd,
}

impl Policy {
    /// The policy that the OS at `root` has; none where it has none.
    ///
    /// Source: `/etc/selinux/config` and the policy it names, as libostree finds them. There is no
    /// SELinux in the lab: that labels are asked for with the right paths is tested, what a real
    /// policy answers is libostree's.
    pub(super) fn of(root: &Path) -> Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(root, flags, Mode::empty()).map_err(|error| Error::Io {
            path: root.display().to_string(),
            source: error.into(),
        })?;
        let policy = ostree::SePolicy::new_at(directory.as_raw_fd(), Cancellable::NONE)
            .doing(|| format!("read the SELinux policy of {}", root.display()))?;
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
