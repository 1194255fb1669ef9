//! ClusterVersion of a release that is installed: the first one, and what it waits for.

use api::ConditionStatus;
use api::config::{ClusterConditionType, ClusterVersionStatus, HistoryState, cluster_version};
use release::PullSpec;
use release::manifest::{self, Manifest};
use release::pull_spec::is_same_image;
use serde_json::json;

/// The first ClusterVersion of a cluster: created where none is, and never changed.
///
/// Shape: `cluster_id` is a UUID, by which update services count clusters.
///
/// # Errors
/// Those of a manifest; the text has no such fault.
pub fn first(cluster_id: &str) -> Result<Vec<Manifest>, manifest::Error> {
    let object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "metadata": {
            "name": cluster_version::NAME,
            "annotations": { "release.openshift.io/create-only": "true" },
        },
        "spec": { "clusterID": cluster_id },
    });
    Manifest::parse("cluster-version.json", object.to_string().as_bytes())
}

/// What a release still waits for; none where it is completed, and is the newest of the cluster.
///
/// Shape: the status of ClusterVersion `version`; none where it has none yet.
pub fn waits_for_release(
    status: Option<&ClusterVersionStatus>,
    release: &PullSpec,
) -> Option<String> {
    let unseen = || Some("its operator has not reported yet".to_owned());
    let Some(status) = status else {
        return unseen();
    };
    let Some(newest) = status.history.first() else {
        return unseen();
    };
    if !is_same_image(&newest.image, release.as_str()) {
        return Some(format!("the cluster is at {} still", newest.image));
    }
    if newest.state == HistoryState::Completed {
        return None;
    }
    let words = |r#type: &ClusterConditionType| {
        let condition = status.condition(r#type)?;
        let is_so = condition.status == ConditionStatus::True && !condition.message.is_empty();
        is_so.then(|| condition.message.clone())
    };
    words(&ClusterConditionType::Failing)
        .or_else(|| words(&ClusterConditionType::Progressing))
        .or_else(unseen)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn digest(of: char) -> String {
        format!("r.example/release@sha256:{}", of.to_string().repeat(64))
    }

    fn waits(status: &Value) -> Option<String> {
        let status: ClusterVersionStatus = serde_json::from_value(status.clone()).unwrap();
        waits_for_release(Some(&status), &digest('a').parse().unwrap())
    }

    fn at(state: &str, image: &str, conditions: &Value) -> Value {
        json!({
            "history": [{
                "state": state, "image": image, "verified": false,
                "startedTime": "2026-01-01T00:00:00Z", "completionTime": null,
            }],
            "conditions": conditions,
        })
    }

    fn condition(r#type: &str, status: &str, message: &str) -> Value {
        json!({
            "type": r#type, "status": status, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    }

    #[test]
    fn only_the_release_itself_completes_it() {
        let (own, other) = (digest('a'), digest('b'));
        let mirrored = own.replace("r.example", "mirror.example");
        let none = json!([]);
        let failing = condition("Failing", "True", "no rights");
        let working = condition("Progressing", "True", "Working towards 1.0.0");
        let unseen = "its operator has not reported yet";
        for (status, expected) in [
            (json!({}), unseen),
            (at("Completed", &own, &none), ""),
            (at("Completed", &mirrored, &none), ""),
            (at("Partial", &own, &none), unseen),
            (
                at("Partial", &own, &json!([working])),
                "Working towards 1.0.0",
            ),
            (at("Partial", &own, &json!([working, failing])), "no rights"),
            (
                at(
                    "Partial",
                    &own,
                    &json!([condition("Failing", "Unknown", "x")]),
                ),
                unseen,
            ),
        ] {
            assert_eq!(waits(&status).unwrap_or_default(), expected, "{status}");
        }
        let still = waits(&at("Completed", &other, &none));
        assert_eq!(still, Some(format!("the cluster is at {other} still")));
        let none = waits_for_release(None, &own.parse().unwrap());
        assert_eq!(none.as_deref(), Some(unseen));
    }
}
