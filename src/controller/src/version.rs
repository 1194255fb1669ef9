//! Which release this is.

use std::fmt;
use std::sync::Arc;

use chassis::program::VERSION;

/// What the program calls itself in requests.
pub(crate) const USER_AGENT: &str = concat!("mcc/", env!("CARGO_PKG_VERSION"));

/// What stands for the release's version in a manifest that no release was made of.
const PLACEHOLDER: &str = "0.0.1-snapshot";

/// Version of the release that this controller belongs to, compared as an opaque string; outside a
/// release, the program's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseVersion {
    text: Arc<str>,
    is_named: bool,
}

impl ReleaseVersion {
    /// The version that the Deployment names. Outside a release it names none, and the program's
    /// own counts.
    pub fn named(version: &str) -> Self {
        if version.is_empty() || version == PLACEHOLDER {
            Self::default()
        } else {
            Self {
                text: version.into(),
                is_named: true,
            }
        }
    }

    /// Whether the controller belongs to a release. One that does not leaves the `ConfigMap`s of
    /// the cluster's release to that release's own operator.
    pub const fn is_of_a_release(&self) -> bool {
        self.is_named
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Default for ReleaseVersion {
    fn default() -> Self {
        Self {
            text: VERSION.into(),
            is_named: false,
        }
    }
}

impl fmt::Display for ReleaseVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
