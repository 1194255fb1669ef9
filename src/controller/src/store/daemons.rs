//! What is kept of the DaemonSet of the node daemons.

use cluster::cache::CachedKind;
use k8s_openapi::api::apps::v1::DaemonSet;

/// The DaemonSet, and its container.
pub const NAME: &str = "machine-config-daemon";

/// The kind DaemonSet; one counts.
#[derive(Debug)]
pub enum DaemonSets {}

/// What is kept of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DaemonRollout {
    name: String,
    version: String,
    pub(crate) image: String,
    pub(crate) is_observed: bool,
    pub(crate) desired: i32,
    pub(crate) updated: i32,
    pub(crate) unavailable: i32,
}

impl DaemonRollout {
    /// Reads the DaemonSet.
    pub fn parse(object: DaemonSet) -> Self {
        let status = object.status.unwrap_or_default();
        let containers = object.spec.and_then(|spec| spec.template.spec);
        let mut containers = containers.into_iter().flat_map(|spec| spec.containers);
        let own = containers.find(|container| container.name == NAME);
        Self {
            is_observed: status.observed_generation >= object.metadata.generation,
            name: object.metadata.name.unwrap_or_default(),
            version: object.metadata.resource_version.unwrap_or_default(),
            image: own.and_then(|own| own.image).unwrap_or_default(),
            desired: status.desired_number_scheduled,
            updated: status.updated_number_scheduled.unwrap_or_default(),
            unavailable: status.number_unavailable.unwrap_or_default(),
        }
    }
}

impl CachedKind for DaemonSets {
    type Entry = DaemonRollout;

    fn name(entry: &DaemonRollout) -> &str {
        &entry.name
    }

    fn version(entry: &DaemonRollout) -> &str {
        &entry.version
    }

    fn has_same_content(one: &DaemonRollout, other: &DaemonRollout) -> bool {
        let mut other = other.clone();
        other.version.clone_from(&one.version);
        *one == other
    }
}
