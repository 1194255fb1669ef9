//! Whether the daemons of the release run: they go before the nodes' OS.

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
    image: String,
    is_observed: bool,
    desired: i32,
    updated: i32,
    unavailable: i32,
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

/// What the daemons lack until each node runs `image`, for people.
pub fn pending(daemons: Option<&DaemonRollout>, image: Option<&str>) -> Option<String> {
    let Some(daemons) = daemons else {
        return Some(format!("DaemonSet {NAME} is missing"));
    };
    if let Some(image) = image
        && daemons.image != image
    {
        return Some(format!(
            "DaemonSet {NAME} has image {:?}, the release has {image:?}",
            daemons.image
        ));
    }
    if !daemons.is_observed {
        return Some(format!("DaemonSet {NAME} is not rolled out yet"));
    }
    (daemons.updated < daemons.desired || daemons.unavailable > 0).then(|| {
        format!(
            "DaemonSet {NAME} has updated {} of {} pods, {} are not available",
            daemons.updated, daemons.desired, daemons.unavailable
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn daemons(generation: i64, status: &Value) -> DaemonRollout {
        let object = json!({
            "metadata": { "name": NAME, "generation": generation },
            "spec": { "selector": {}, "template": { "spec": { "containers": [
                { "name": "beside", "image": "x" }, { "name": NAME, "image": "new" }
            ] } } },
            "status": status
        });
        DaemonRollout::parse(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn daemons_are_there_when_every_node_runs_the_image() {
        let status = |observed: i64, updated: i32, unavailable: i32| json!({ "currentNumberScheduled": 3, "desiredNumberScheduled": 3, "numberMisscheduled": 0, "numberReady": 3, "observedGeneration": observed, "updatedNumberScheduled": updated, "numberUnavailable": unavailable });
        let done = daemons(2, &status(2, 3, 0));
        let table = [
            (Some(&done), Some("new"), None),
            (Some(&done), None, None),
            (None, Some("new"), Some("is missing")),
            (
                Some(&done),
                Some("newer"),
                Some("has image \"new\", the release has \"newer\""),
            ),
            (
                Some(&daemons(3, &status(2, 3, 0))),
                Some("new"),
                Some("is not rolled out yet"),
            ),
            (
                Some(&daemons(2, &status(2, 2, 1))),
                Some("new"),
                Some("has updated 2 of 3 pods, 1 are not available"),
            ),
            (
                Some(&daemons(2, &status(2, 3, 1))),
                Some("new"),
                Some("has updated 3 of 3 pods, 1 are not available"),
            ),
        ];
        for (daemons, image, expected) in table {
            let found = pending(daemons, image);
            match (&found, expected) {
                (Some(found), Some(expected)) => assert!(found.contains(expected), "{found}"),
                (None, None) => {}
                _ => panic!("{found:?} instead of {expected:?}"),
            }
        }
    }
}
