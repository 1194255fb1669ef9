//! A mount namespace of our own, in which `/sysroot` and `/boot` may be written.

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::{Error, Result};

/// Leaves the host's mount namespace for a copy of it. libostree then mounts `/sysroot` and `/boot`
/// writable in it; nobody else sees that.
///
/// It must be called before a second thread is there: only the calling thread and those it starts
/// later move.
///
/// # Errors
/// [`Error::Namespace`].
pub fn enter_namespace() -> Result<()> {
    #[expect(unsafe_code, reason = "the one call that rustix marks so; see below")]
    // SAFETY: unsafe is only what `FILES` would do to descriptors shared with other threads.
    let left = unsafe { unshare_unsafe(UnshareFlags::NEWNS) };
    left.map_err(|error| Error::Namespace(error.into()))?;
    // What the host mounts from now on still shows here, and nothing of ours there.
    mount_change(
        "/",
        MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
    )
    .map_err(|error| Error::Namespace(error.into()))
}
