//! What must hold on a host.

use serde::{Deserialize, Serialize};

use super::{FileState, Owners};

/// One thing that must hold on the running host. All are local: none needs a network.
///
/// Source: `docs/reference/daemon.md`, "Verification", with owners and enablement checked too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "expect")]
pub enum Expectation {
    /// The booted deployment's record names this configuration (and image, if any).
    Record {
        config: String,
        /// Image pull spec.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<String>,
    },
    /// `/proc/cmdline` holds this argument at least `times` times.
    KernelArgument {
        /// `key` or `key=value`, as the kernel splits.
        argument: String,
        /// How often the configuration names it.
        times: usize,
    },
    /// A regular file, all of it compared exactly.
    File {
        /// Absolute path.
        path: String,
        /// What is at the path.
        #[serde(flatten)]
        file: FileState<Owners>,
    },
    /// The unit's path is a link to `/dev/null`.
    Masked { unit: String },
    /// `systemctl is-enabled` agrees, or there is no such unit: one that the configuration brings
    /// is expected as a file too.
    Enabled { unit: String, enabled: bool },
    /// The unit is there and runs: neither masked nor kept by its own conditions.
    Runs { unit: String },
    /// The unit, which the update touched, did not fail, and does not wait to be started; only
    /// asked where the unit exists and its conditions are met.
    Started { unit: String },
    /// The unit is active once the system is up; only asked where the unit exists.
    Active { unit: String },
}
