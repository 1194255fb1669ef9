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

use crate::plan::{FileState, Mode, Owners, Target};

/// What was seen on the host for one expectation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Nothing is at the path, or no record is there.
    Nothing,
    /// The record of the booted deployment.
    Record {
        config: String,
        /// Image pull spec.
        image: Option<String>,
    },
    /// How often the argument stands in `/proc/cmdline`.
    Times(usize),
    /// A regular file. User and group are as the expectation names them where those are the same
    /// accounts, else ids.
    File(FileState<Owners>),
    Link {
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
