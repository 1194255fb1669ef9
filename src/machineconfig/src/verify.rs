//! What must hold on a host in a configuration, and the judgement over what was observed.

use serde::{Deserialize, Serialize};

use crate::plan::{Digest, Mode, Owner};

/// One thing that must hold on the running host. All are local: none needs a network.
///
/// Source: `daemon.md` 4.1, with owners and enablement checked too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "expect")]
pub enum Expectation {
    /// The booted deployment's record names this configuration (and image, if any).
    Record {
        /// Configuration name.
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
    /// A regular file with these bytes, mode and owner.
    File {
        /// Absolute path.
        path: String,
        /// Content.
        digest: Digest,
        /// Permission bits, compared exactly.
        mode: Mode,
        /// Owning user.
        user: Owner,
        /// Owning group.
        group: Owner,
    },
    /// The unit's path is a link to `/dev/null`.
    Masked {
        /// Unit name.
        unit: String,
    },
    /// `systemctl is-enabled` agrees.
    Enabled {
        /// Unit name.
        unit: String,
        /// What is wanted.
        enabled: bool,
    },
    /// The unit is active once the system is up; only asked where the unit exists.
    Active {
        /// Unit name.
        unit: String,
    },
}
