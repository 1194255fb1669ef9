//! The switch that stops the cluster, and what of a release it lets go on.
//!
//! A release that has not begun is not retrieved, and not accepted. Of one that has begun, the
//! manifests that were done are kept as they are, and no further one is begun; those in hand are
//! finished. A release that is applied whole is kept as before.

use api::config::ClusterVersion;
use api::stop::StopSwitch;
use release::graph::{Ordering, Task};

use crate::validation::WantedRelease;

/// The reason of conditions while the cluster is stopped.
pub const REASON: &str = "Stopped";

/// The switch of a ClusterVersion, if it is set.
pub fn switch(object: &ClusterVersion) -> Option<StopSwitch> {
    StopSwitch::read(object.metadata.annotations.as_ref())
}

/// Whether the switch keeps a release from being retrieved and accepted, while the one of the image
/// `applied` is applied. One whose application had begun, as the history says, is no new one: it is
/// retrieved again after a restart.
pub fn holds_request(object: &ClusterVersion, wanted: &WantedRelease, applied: &str) -> bool {
    let WantedRelease::Other(wanted) = wanted else {
        return false;
    };
    let status = object.status.as_ref();
    let newest = status.and_then(|status| status.history.first());
    let has_begun = newest.is_some_and(|newest| newest.image == wanted.image);
    switch(object).is_some() && wanted.image != applied && !has_begun
}

/// Whether a manifest may begin while the cluster is stopped, of a release of which so many were
/// `done` before: as many as that, in the order of the release, so that none of a run level that
/// had not begun does.
pub const fn may_begin(task: Task, ordering: Ordering, done: usize) -> bool {
    match ordering {
        Ordering::Reconciling { .. } => true,
        Ordering::Updating | Ordering::Initializing => task < done,
    }
}

#[cfg(test)]
mod tests {
    use api::config::Release;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_release_that_has_not_begun_is_held() {
        let object = |stop: Option<&str>, newest: &str| -> ClusterVersion {
            let annotations = stop.map(|value| json!({ "slipway.dev/stop": value }));
            let entry = json!({
                "state": "Partial", "version": "", "image": newest, "verified": false,
                "startedTime": "2026-01-01T00:00:00Z", "completionTime": null
            });
            serde_json::from_value(json!({
                "metadata": { "name": "version", "annotations": annotations },
                "spec": { "clusterID": "" },
                "status": { "desired": { "version": "", "image": "" }, "history": [entry] },
            }))
            .unwrap()
        };
        let other = |image: &str| {
            WantedRelease::Other(Release {
                image: image.to_owned(),
                ..Release::default()
            })
        };
        for (stop, newest, wanted, expected) in [
            (None, "a", other("b"), false),
            (Some(""), "a", other("b"), true),
            (Some("{}"), "a", other("b"), true),
            // It is applied, or had begun.
            (Some(""), "a", other("a"), false),
            (Some(""), "b", other("b"), false),
            // A request that was withdrawn is no new release.
            (Some(""), "b", WantedRelease::Own, false),
        ] {
            let object = object(stop, newest);
            let found = holds_request(&object, &wanted, "a");
            assert_eq!(found, expected, "{stop:?} {newest} {wanted:?}");
        }
    }

    #[test]
    fn what_was_done_is_kept_and_nothing_else_begins() {
        for (task, ordering, done, expected) in [
            (0, Ordering::Updating, 0, false),
            (0, Ordering::Updating, 1, true),
            (1, Ordering::Updating, 1, false),
            (1, Ordering::Initializing, 1, false),
            (7, Ordering::Reconciling { attempt: 3 }, 0, true),
        ] {
            assert_eq!(may_begin(task, ordering, done), expected, "{task} {done}");
        }
    }
}
