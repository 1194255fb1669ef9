//! The controller as an operator of a release: the release's images go into the ControllerConfig,
//! and ClusterOperator `machine-config` says how far the cluster is.
//!
//! - [`images`]: what the release's `ConfigMap`s say, and what of it the ControllerConfig lacks
//! - [`daemons`]: whether the release's daemons run
//! - [`required`]: whether the pools are there that a release waits for
//! - [`steps`]: which step is next, and how far it is
//! - [`status`]: the status of the ClusterOperator
//! - `operating`: requests

pub mod daemons;
pub mod images;
mod operating;
pub mod required;
pub mod status;
pub mod steps;

use std::fmt;
use std::sync::Arc;

use crate::version::VERSION;

/// What stands for the release's version in a manifest that no release was made of.
const PLACEHOLDER: &str = "0.0.1-snapshot";

/// Version of the release that this controller belongs to, compared as an opaque string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseVersion(Arc<str>);

impl ReleaseVersion {
    /// The version that the Deployment names. Outside a release it names none, and the program's
    /// own counts.
    pub fn named(version: &str) -> Self {
        if version.is_empty() || version == PLACEHOLDER {
            Self::default()
        } else {
            Self(version.into())
        }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for ReleaseVersion {
    fn default() -> Self {
        Self(VERSION.into())
    }
}

impl fmt::Display for ReleaseVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
