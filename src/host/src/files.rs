//! Files below a root: read, replaced and removed, without following a link out of it.
//!
//! Every write goes to a temporary file beside the target, with owner, mode and label; it is
//! synced, renamed, and its directory synced. At any moment the path has its old or its new
//! content.

mod attributes;
mod labels;
mod like;
mod path;
mod prior;
mod root;
mod shipped;
mod write;

#[cfg(test)]
mod tests;

#[cfg(feature = "ostree")]
pub(crate) use labels::{LABEL, LABEL_MAX};
pub use labels::{LabelError, Labels};
pub use path::{Location, PathScope};
pub(crate) use root::Inode;
pub use root::{Found, Root};
pub use write::Content;

use std::io;

/// Why a path cannot be used, read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path is not allowed: relative, with `..`, empty, or with too many links.
    #[error("path {path:?} {why}")]
    Path { path: String, why: &'static str },
    /// An entry could not be opened or read.
    #[error("cannot read {path}")]
    Read {
        /// Path below the root.
        path: String,
        #[source]
        source: io::Error,
    },
    /// An entry could not be written.
    #[error("cannot write {path}")]
    Write {
        /// Path below the root.
        path: String,
        #[source]
        source: io::Error,
    },
    /// An entry could not be removed.
    #[error("cannot remove {path}")]
    Remove {
        /// Path below the root.
        path: String,
        #[source]
        source: io::Error,
    },
    /// The policy has failed to give the SELinux label of a path.
    #[error("cannot find the label of {path}")]
    Label {
        /// Path below the root.
        path: String,
        source: LabelError,
    },
}

type Result<T> = std::result::Result<T, Error>;
