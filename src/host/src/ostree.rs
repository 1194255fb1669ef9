//! Deployments and images, by libostree: the only module that links it.
//!
//! Images are fetched with the last published version of `ostree-ext`, and the `ostree` that it
//! re-exports. Deployments are never staged: `ostree-finalize-staged` would switch the boot loader
//! before Slipway can write into the merged `/etc`.

mod bootable;
mod cause;
mod deploy;
mod derived;
mod fetch;
mod freeze;
mod image;
mod label;
mod layer;
mod listing;
mod namespace;
mod origin;
mod refs;
mod repository;
mod room;
mod sysroot;
#[cfg(test)]
mod tests;

use std::error::Error as StdError;
use std::io;

pub use cause::FetchCause;
pub use fetch::Fetcher;
pub use image::Fetched;
pub use listing::ListedDeployment;
pub use namespace::{enter_namespace, run_in_root};
pub use sysroot::{Deployments, live_root};

use ostree_ext::glib;

/// Why an operation on deployments or images failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program cannot enter a mount namespace of its own.
    #[error("cannot enter a mount namespace of its own")]
    Namespace(#[source] io::Error),
    /// An operation of libostree failed.
    #[error("cannot {operation}")]
    Ostree {
        /// The operation: `load the deployments`, `deploy <commit>`.
        operation: String,
        #[source]
        source: glib::Error,
    },
    /// The host has not booted a deployment.
    #[error("this host has not booted an ostree deployment")]
    NotBooted,
    /// A named deployment does not exist.
    #[error("there is no deployment {deployment}")]
    NoDeployment { deployment: String },
    /// Another program holds the lock of the deployments.
    #[error("another program holds the lock of the deployments")]
    Locked,
    /// An image cannot be fetched.
    #[error("cannot fetch {image}{cause}")]
    Fetch {
        image: String,
        /// The class of the error.
        cause: FetchCause,
        /// The error of the registry or the library.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A string is no pull spec.
    #[error("{image:?} is no pull spec of an image")]
    PullSpec { image: String },
    /// An image's commit cannot be booted.
    #[error("{image} cannot be booted: {why}")]
    NotBootable {
        /// Its pull spec, or the commit.
        image: String,
        why: String,
    },
    /// A file system has too little free space.
    #[error("{what} needs {needed} bytes in {place}, where {free} are free")]
    NoRoom {
        what: String,
        place: &'static str,
        /// Needed space, in bytes.
        needed: u64,
        /// Free space, in bytes.
        free: u64,
    },
    /// An image to deploy was not fetched.
    #[error("{image} is not on this host: it has not been fetched")]
    NotFetched { image: String },
    /// A directory cannot be read or written.
    #[error(transparent)]
    Files(#[from] crate::files::Error),
    /// A path could not be read or written.
    #[error("cannot use {path}")]
    Io {
        path: String,
        #[source]
        source: io::Error,
    },
    /// Accounts of the new OS cannot be added to the merged databases.
    #[error(transparent)]
    Accounts(#[from] crate::accounts::Error),
}

impl Error {
    /// Whether a retry is useless until the image, the plan or the host changes.
    pub fn is_final(&self) -> bool {
        match self {
            Self::PullSpec { .. }
            | Self::NotBootable { .. }
            | Self::NoRoom { .. }
            | Self::NotFetched { .. }
            | Self::Accounts(_)
            | Self::NotBooted => true,
            Self::Fetch { cause, .. } => cause.is_final(),
            Self::Namespace(_)
            | Self::Ostree { .. }
            | Self::NoDeployment { .. }
            | Self::Locked
            | Self::Files(_)
            | Self::Io { .. } => false,
        }
    }
}

type Result<T> = std::result::Result<T, Error>;

/// Adds the attempted operation to libostree's errors.
trait ErrorContext<T> {
    fn during(self, operation: impl FnOnce() -> String) -> Result<T>;
}

impl<T> ErrorContext<T> for std::result::Result<T, glib::Error> {
    fn during(self, operation: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Ostree {
            operation: operation(),
            source,
        })
    }
}
