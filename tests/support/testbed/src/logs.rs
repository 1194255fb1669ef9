//! Where runs leave their files: one folder per suite and test, so that runs beside each other
//! share none.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::workspace;

/// Folder of a test's logs: `<suite>/<test>` below `$SLIPWAY_LOGS` (absolute), or below the
/// workspace's `target`.
pub fn folder(suite: &str, test: &str) -> PathBuf {
    let root =
        std::env::var_os("SLIPWAY_LOGS").map_or_else(|| workspace().join("target"), PathBuf::from);
    root.join(suite).join(test)
}

/// Makes an empty folder, in place of what an earlier run left there.
pub fn empty(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))
}
