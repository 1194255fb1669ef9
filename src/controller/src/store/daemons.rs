//! What is kept of the DaemonSet of the node daemons.

use k8s_openapi::api::apps::v1::DaemonSet;
use operator::watch::kept::KeptPart;

/// The DaemonSet, and its container.
pub const NAME: &str = "machine-config-daemon";

/// What is kept of the DaemonSet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DaemonRollout {
    pub(crate) image: String,
    pub(crate) is_observed: bool,
    pub(crate) desired: i32,
    pub(crate) updated: i32,
    pub(crate) unavailable: i32,
}

impl KeptPart for DaemonRollout {
    type Object = DaemonSet;

    fn of(object: DaemonSet) -> Self {
        let status = object.status.unwrap_or_default();
        let containers = object.spec.and_then(|spec| spec.template.spec);
        let mut containers = containers.into_iter().flat_map(|spec| spec.containers);
        let own = containers.find(|container| container.name == NAME);
        Self {
            is_observed: status.observed_generation >= object.metadata.generation,
            image: own.and_then(|own| own.image).unwrap_or_default(),
            desired: status.desired_number_scheduled,
            updated: status.updated_number_scheduled.unwrap_or_default(),
            unavailable: status.number_unavailable.unwrap_or_default(),
        }
    }
}
