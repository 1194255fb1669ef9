//! A file system that a killed run left frozen.
//!
//! libostree freezes `/boot` and thaws it at once, so that a boot loader finds what its journal
//! has. The child that it has thaw in its place takes the end of its parent for the end of the
//! freeze: killed in between, `/boot` stays frozen, and no program can make it writable.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use tracing::warn;

// Source: `FITHAW` in `linux/fs.h`, whose argument the kernel ignores.
nix::ioctl_none_bad!(
    fithaw,
    nix::request_code_readwrite!(b'X', 120, size_of::<i32>())
);

/// Thaws the file system of a directory. Another program freezes it for a moment only, and an early
/// thaw does no harm.
pub(super) fn thaw(directory: &Path) {
    let thaw = || -> std::io::Result<()> {
        let directory = File::open(directory)?;
        #[expect(
            unsafe_code,
            reason = "nix leaves the safety of a request to its caller"
        )]
        // SAFETY: the request takes no argument and touches no memory of this program.
        unsafe { fithaw(directory.as_raw_fd()) }?;
        Ok(())
    };
    // One that was not frozen is busy for another reason, which the one who waits for it tells.
    if thaw().is_ok() {
        warn!(path = %directory.display(), "thawed a file system left frozen");
    }
}
