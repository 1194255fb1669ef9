//! What is kept of the `ConfigMap`s by which a release names its images.

use std::collections::BTreeMap;

use cluster::cache::CachedKind;
use k8s_openapi::api::core::v1::ConfigMap;

/// ConfigMap with the release's OS image. Without it the controller belongs to no release.
pub const OS_IMAGE: &str = "machine-config-osimageurl";

/// ConfigMap with the release's images of components.
pub const COMPONENT_IMAGES: &str = "machine-config-operator-images";

/// `ConfigMap`s by which a release names its images.
#[derive(Debug)]
pub enum ReleaseMaps {}

/// What is kept of such a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseMap {
    name: String,
    version: String,
    /// Its data.
    pub data: BTreeMap<String, String>,
}

impl ReleaseMap {
    /// Reads the ConfigMap.
    pub fn parse(object: ConfigMap) -> Self {
        Self {
            name: object.metadata.name.unwrap_or_default(),
            version: object.metadata.resource_version.unwrap_or_default(),
            data: object.data.unwrap_or_default(),
        }
    }
}

impl CachedKind for ReleaseMaps {
    type Entry = ReleaseMap;

    fn name(entry: &ReleaseMap) -> &str {
        &entry.name
    }

    fn version(entry: &ReleaseMap) -> &str {
        &entry.version
    }

    fn has_same_content(one: &ReleaseMap, other: &ReleaseMap) -> bool {
        one.data == other.data
    }
}
