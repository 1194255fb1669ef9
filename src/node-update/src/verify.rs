//! What must hold on a host in a configuration, and the judgement over what was observed.
//!
//! - [`expectations`]: from a configuration to what must hold
//! - [`judge`]: from what was seen to what does not

mod expectations;
mod judge;

pub use expectations::{expectations, files_and_units};
pub(crate) use expectations::{expectations_of, started};
pub use judge::judge;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plan::{FileState, Mode, Owners, Target};

/// One thing that must hold on the running host. All are local: none needs a network.
///
/// Source: `docs/reference/daemon.md`, "Verification", with owners and enablement checked too.
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
    /// A regular file, all of it compared exactly.
    File {
        /// Absolute path.
        path: String,
        /// What is at the path.
        #[serde(flatten)]
        file: FileState<Owners>,
    },
    /// The unit's path is a link to `/dev/null`.
    Masked {
        /// Unit name.
        unit: String,
    },
    /// `systemctl is-enabled` agrees, or there is no such unit: one that the configuration brings
    /// is expected as a file too.
    Enabled {
        /// Unit name.
        unit: String,
        /// What is desired.
        enabled: bool,
    },
    /// The unit is there and runs: neither masked nor kept by its own conditions.
    Runs {
        /// Unit name.
        unit: String,
    },
    /// The unit, which the update touched, did not fail, and does not wait to be started; only
    /// asked where the unit exists and its conditions are met.
    Started {
        /// Unit name.
        unit: String,
    },
    /// The unit is active once the system is up; only asked where the unit exists.
    Active {
        /// Unit name.
        unit: String,
    },
}

/// What was seen on the host for one expectation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Nothing is at the path, or no record is there.
    Nothing,
    /// The record of the booted deployment.
    Record {
        /// Configuration name.
        config: String,
        /// Image pull spec.
        image: Option<String>,
    },
    /// How often the argument stands in `/proc/cmdline`.
    Times(usize),
    /// A regular file. User and group are as the expectation names them where those are the same
    /// accounts, else ids.
    File(FileState<Owners>),
    /// A symbolic link.
    Link {
        /// What it points to.
        target: String,
    },
    /// A directory, with its permission bits.
    Directory(Mode),
    /// Something else at the path, by its kind: "socket", ….
    Other(String),
    /// What `systemctl is-enabled` or the unit's `ActiveState` says.
    Unit(String),
    /// It could not be looked at, and why.
    Unreadable(String),
}

/// An expectation that does not hold: a sentence for people. It never shows contents.
///
/// Source: the texts of `docs/reference/daemon.md`, "Verification", where one exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch(pub(crate) String);

/// The sentence that says what of `at` does not hold.
///
/// Source: `docs/reference/daemon.md`, "Verification".
pub fn unexpected_state(at: &Target, mismatches: &str) -> String {
    let name = at.image.as_ref().unwrap_or(&at.config);
    format!("unexpected on-disk state validating against {name}: {mismatches}")
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
