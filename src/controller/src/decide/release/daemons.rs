//! Whether the daemons of the release run: they go before the nodes' OS.

use crate::store::daemons::{DaemonRollout, NAME};

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
    use operator::watch::kept::KeptPart as _;
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
        DaemonRollout::of(serde_json::from_value(object).unwrap())
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
