//! Upstream's data, with which tests compare where it is there.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::skipped;

/// Names the folder of the data.
const FOLDER: &str = "SLIPWAY_DATA";

/// A path below the folder of upstream's data, which is `$SLIPWAY_DATA`, else `../shared/data`
/// beside the checkout. None where the path is not there: then `what` is skipped.
///
/// Source: `docs/development/upstream-data.md`.
///
/// # Errors
///
/// It is not there, and is required: see [`skipped`].
pub fn upstream_data(path: &str, what: &str) -> Result<Option<PathBuf>> {
    let named = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty());
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data");
    let found = named.map_or_else(beside, PathBuf::from).join(path);
    if found.exists() {
        return Ok(Some(found));
    }
    let place = found.display();
    skipped(&format!(
        "{what} ({place} is not there: `make upstream-data`)"
    ))?;
    Ok(None)
}
