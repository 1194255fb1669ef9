//! What is kept of ClusterVersion `version`: the switch that stops the cluster.

use api::config::{ClusterVersion, cluster_version};
use api::stop::StopSwitch;
use cluster::cache::{Cache, CachedKind, Table};
use kube::core::PartialObjectMeta;
use operator::{Operator, Wake, WatchForm, WatchScope, Watched};

use crate::work::Work;

/// The kind ClusterVersion, of which metadata is watched: its status changes with each manifest of
/// an update.
#[derive(Debug)]
pub enum ClusterStops {}

/// The switch of a ClusterVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterStop {
    pub name: String,
    /// Version of the object that was read.
    pub resource_version: String,
    pub switch: Option<StopSwitch>,
}

impl CachedKind for ClusterStops {
    type Entry = ClusterStop;

    fn name(entry: &ClusterStop) -> &str {
        &entry.name
    }

    fn version(entry: &ClusterStop) -> &str {
        &entry.resource_version
    }

    fn has_same_content(one: &ClusterStop, other: &ClusterStop) -> bool {
        one.switch == other.switch
    }
}

impl Watched for ClusterStops {
    type Object = PartialObjectMeta<ClusterVersion>;

    const FORM: WatchForm<ClusterStop> = WatchForm::Metadata;

    fn parse(object: PartialObjectMeta<ClusterVersion>) -> ClusterStop {
        let metadata = object.metadata;
        ClusterStop {
            switch: StopSwitch::read(metadata.annotations.as_ref()),
            name: metadata.name.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        }
    }
}

/// Has the operator watch the switch. A cluster without the kind has none.
pub(crate) fn watch(operator: Operator<Work>, stops: &Cache<ClusterStops>) -> Operator<Work> {
    let scope = WatchScope::cluster().named(cluster_version::NAME);
    operator.watch(stops, scope.optional(), |_, _| Wake::All)
}

/// The cluster's switch, if it is set.
pub(crate) fn switch(stops: &Table<ClusterStops>) -> Option<StopSwitch> {
    stops.get(cluster_version::NAME)?.switch.clone()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::read;

    #[test]
    fn only_the_switch_is_a_change() {
        let parse = |version: &str, annotations: serde_json::Value| {
            ClusterStops::parse(read(&json!({ "metadata": {
                "name": "version", "resourceVersion": version, "annotations": annotations
            } })))
        };
        let stopped = json!({ "slipway.dev/stop": "" });
        let table = [
            (parse("1", json!({})), parse("2", json!({ "a": "b" })), true),
            (parse("1", json!({})), parse("2", stopped.clone()), false),
            (parse("1", stopped.clone()), parse("2", stopped), true),
        ];
        for (one, other, is_same) in table {
            let found = ClusterStops::has_same_content(&one, &other);
            assert_eq!(found, is_same, "{one:?} {other:?}");
        }
    }
}
