//! Deployments and images, by libostree: the only module that links it.
//!
//! Images come by `ostree-ext` at the last version on the registry, with the `ostree` that it
//! re-exports. Nothing is ever staged: `ostree-finalize-staged` switches the boot loader before anyone
//! can write into the merged `/etc`.

mod bootable;
mod deploy;
mod fetch;
mod freeze;
mod label;
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

pub use fetch::{Fetched, Fetcher};
pub use listing::Deployment;
pub use namespace::enter_namespace;
pub use sysroot::{Deployments, live_root};

use ostree_ext::glib;

/// What went wrong with deployments or images.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No mount namespace of our own is to be had.
    #[error("cannot enter a mount namespace of its own")]
    Namespace(#[source] io::Error),
    /// libostree could not do it.
    #[error("cannot {operation}")]
    Ostree {
        /// What was tried: `load the deployments`, `deploy <commit>`.
        operation: String,
        /// libostree's word.
        #[source]
        source: glib::Error,
    },
    /// The host does not run on a deployment.
    #[error("this host has not booted an ostree deployment")]
    NotBooted,
    /// A deployment that is named is not there.
    #[error("there is no deployment {deployment}")]
    NoDeployment {
        /// Its checksum and serial.
        deployment: String,
    },
    /// Somebody else writes deployments.
    #[error("another program holds the lock of the deployments")]
    Locked,
    /// An image cannot be fetched.
    #[error("cannot fetch {image}")]
    Fetch {
        /// Its pull spec.
        image: String,
        /// What the registry or the library said.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A pull spec is none.
    #[error("{image:?} is no pull spec of an image")]
    PullSpec {
        /// What was given.
        image: String,
    },
    /// An image's commit cannot be booted.
    #[error("{image} cannot be booted: {why}")]
    NotBootable {
        /// Its pull spec, or the commit.
        image: String,
        /// What it lacks.
        why: String,
    },
    /// There is not enough room.
    #[error("{what} needs {needed} bytes in {place}, where {free} are free")]
    NoRoom {
        /// What needs it.
        what: String,
        /// Where.
        place: &'static str,
        /// How much it needs.
        needed: u64,
        /// How much there is.
        free: u64,
    },
    /// An image was not fetched before it was to be deployed.
    #[error("{image} is not on this host: it has not been fetched")]
    NotFetched {
        /// Its pull spec.
        image: String,
    },
    /// A directory cannot be read or written.
    #[error(transparent)]
    Files(#[from] crate::files::Error),
    /// Something of the file system could not be read or written.
    #[error("cannot use {path}")]
    Io {
        /// Where.
        path: String,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// Accounts of the new OS cannot be carried into the merged ones.
    #[error(transparent)]
    Accounts(#[from] crate::accounts::Error),
}

/// What a registry says of an image that will be no different a minute later.
const FINAL: &[&str] = &[
    "manifest unknown",
    "name unknown",
    "not found",
    "unauthorized",
    "authentication required",
    "denied",
    "bearer token: invalid status code from registry 4",
    "invalid reference format",
    "unsupported",
    "no image found in manifest list",
    "Source image rejected",
    "No space left on device",
    "min-free-space",
];

impl Error {
    /// Whether trying again is of no use: the image, the plan or the host has to change first.
    pub fn is_final(&self) -> bool {
        match self {
            Self::PullSpec { .. }
            | Self::NotBootable { .. }
            | Self::NoRoom { .. }
            | Self::NotFetched { .. }
            | Self::Accounts(_)
            | Self::NotBooted => true,
            Self::Fetch { source, .. } => {
                let text = crate::execute::chain(&**source);
                FINAL.iter().any(|word| text.contains(word))
            }
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

/// Names what libostree was to do, for its errors.
trait Doing<T> {
    fn doing(self, operation: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for std::result::Result<T, glib::Error> {
    fn doing(self, operation: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Ostree {
            operation: operation(),
            source,
        })
    }
}
