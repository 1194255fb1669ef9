//! Where runs leave their logs: one folder per suite and test, so that runs beside each other share none.

use std::path::PathBuf;

use crate::workspace;

/// Folder of a test's logs: `<suite>/<test>` below `$SLIPWAY_LOGS` (absolute), or below the workspace's `target`.
pub fn folder(suite: &str, test: &str) -> PathBuf {
    let root =
        std::env::var_os("SLIPWAY_LOGS").map_or_else(|| workspace().join("target"), PathBuf::from);
    root.join(suite).join(test)
}
