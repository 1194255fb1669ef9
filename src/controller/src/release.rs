//! The controller as an operator of a release: the release's images go into the ControllerConfig,
//! and ClusterOperator `machine-config` says how far the cluster is.
//!
//! - [`images`]: what the release's `ConfigMap`s say, and what of it the ControllerConfig lacks
//! - [`daemons`]: whether the release's daemons run
//! - [`required`]: whether the pools are there that a release waits for
//! - [`steps`]: which step is next, and how far it is
//! - [`status`]: the status of the ClusterOperator
//! - [`streams`]: the stream of the release's OS
//! - `operating`: requests

pub mod daemons;
pub mod images;
pub(crate) mod operating;
pub mod required;
pub mod status;
pub mod steps;
pub mod streams;

use std::fmt;
use std::sync::Arc;

use crate::version::VERSION;

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

    /// As text.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::settled;
    use crate::release::images::ReleaseMap;
    use crate::store::Store;
    use cluster::cache::WatchEvent;
    use serde_json::json;

    #[test]
    fn only_a_controller_of_a_release_takes_its_images_over() {
        let table = [("", false), (PLACEHOLDER, false), ("4.2.0", true)];
        for (named, is_of_a_release) in table {
            let store = Store {
                version: ReleaseVersion::named(named),
                ..Store::default()
            };
            settled().0.fill(&store);
            assert!(!store.has_release(), "{named}");
            let map = json!({ "metadata": { "name": images::OS_IMAGE, "resourceVersion": "1" } });
            let map = ReleaseMap::parse(serde_json::from_value(map).unwrap());
            store.os_image.apply(WatchEvent::Synced(vec![map]));
            assert_eq!(store.has_release(), is_of_a_release, "{named}");
            assert_eq!(store.snapshot().has_release, is_of_a_release);
        }
    }
}
