//! A mount namespace of our own, in which `/sysroot` and `/boot` may be written.

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::{Error, Result};

/// Leaves the host's mount namespace for a copy of it. libostree then mounts `/sysroot` and `/boot`
/// writable in it; other programs do not see that.
///
/// It must be called before a second thread is there: only the calling thread and those it starts
/// later move.
///
/// # Errors
/// [`Error::Namespace`].
pub fn enter_namespace() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| Error::Namespace(error.into()))?;
    // What the host mounts from now on still shows here, and nothing of ours there.
    let (nothing, slave) = (None::<&str>, MsFlags::MS_SLAVE | MsFlags::MS_REC);
    mount(nothing, "/", nothing, slave, nothing).map_err(|error| Error::Namespace(error.into()))
}
