//! Files below a root: looked at, put in place and taken away, never following a link out of it.
//!
//! Every write is beside the target, synced, renamed and its directory synced, with owner, mode and
//! label set before the rename: at any point the path holds its old content or its new one, whole.

mod labels;
mod path;
mod prior;
mod root;
mod shipped;
mod write;

#[cfg(test)]
mod tests;

pub use labels::Labels;
pub use path::{Location, Place};
pub use root::{Found, Root};
pub use write::Content;

use std::io;

/// What went wrong with a path.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path is not one that may be used: relative, with `..`, empty, or through too many links.
    #[error("path {path:?} {why}")]
    Path {
        /// As it was given.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Something could not be opened or read.
    #[error("cannot read {path}")]
    Read {
        /// Path below the root.
        path: String,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// Something could not be put in place.
    #[error("cannot write {path}")]
    Write {
        /// Path below the root.
        path: String,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// Something could not be taken away.
    #[error("cannot remove {path}")]
    Remove {
        /// Path below the root.
        path: String,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// The SELinux label of a path is not to be had.
    #[error("cannot find the label of {path}: {message}")]
    Label {
        /// Path below the root.
        path: String,
        /// The policy's word.
        message: String,
    },
}

type Result<T> = std::result::Result<T, Error>;
