//! Room for what is to come, looked at before it comes.

use std::path::Path;

use super::{Error, Result};

/// How much larger layers may be in the repository than on the wire: gzip brings an OS down to
/// between a half and a third of its size, and objects are kept uncompressed.
pub(super) const UNPACKED_FACTOR: u64 = 3;

/// Bytes that an unprivileged user could still write below `path`.
pub(super) fn free(path: &Path) -> Result<u64> {
    crate::room::free(path).map_err(|source| Error::Io {
        path: path.display().to_string(),
        source,
    })
}

/// Bytes of a block below `path`: no file takes less.
pub(super) fn block(path: &Path) -> Result<u64> {
    crate::room::block(path).map_err(|source| Error::Io {
        path: path.display().to_string(),
        source,
    })
}

/// Refuses what does not fit.
pub(super) fn require(what: &str, place: &'static str, needed: u64, free: u64) -> Result<()> {
    if needed <= free {
        return Ok(());
    }
    Err(Error::NoRoom {
        what: what.to_owned(),
        place,
        needed,
        free,
    })
}
