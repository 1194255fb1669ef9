//! Whether programs run as they should.

use serde_json::Value;

/// What a workload still waits for; none where it runs as its newest form says, on all nodes that
/// are Ready.
///
/// Shape: a Deployment or DaemonSet as the API server has it; `away` is how many nodes are not
/// Ready. Other kinds are not waited for.
pub fn waits_for(object: &Value, away: u64) -> Option<String> {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_u64);
    let generation = number("/metadata/generation");
    if number("/status/observedGeneration") < generation {
        return Some("its controller has not seen it yet".to_owned());
    }
    let of_status = |field: &str| number(&format!("/status/{field}")).unwrap_or(0);
    let (wanted, updated, available) = match object.get("kind").and_then(Value::as_str) {
        Some("Deployment") => (
            number("/spec/replicas").unwrap_or(1),
            of_status("updatedReplicas"),
            of_status("availableReplicas"),
        ),
        Some("DaemonSet") => (
            of_status("desiredNumberScheduled").saturating_sub(away),
            of_status("updatedNumberScheduled"),
            of_status("numberAvailable"),
        ),
        _ => return None,
    };
    if updated < wanted {
        return Some(format!("{updated} of {wanted} are updated"));
    }
    (available < wanted).then(|| format!("{available} of {wanted} are available"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_workload_runs_once_all_that_can_be_there_is() {
        let object = |kind: &str, spec: Value, status: Value| json!({"kind": kind, "metadata": {"generation": 2}, "spec": spec, "status": status});
        let daemons = |updated: u64, available: u64| {
            object(
                "DaemonSet",
                json!({}),
                json!({
                    "observedGeneration": 2, "desiredNumberScheduled": 3,
                    "updatedNumberScheduled": updated, "numberAvailable": available,
                }),
            )
        };
        let unseen = json!({"observedGeneration": 1, "availableReplicas": 1, "updatedReplicas": 1});
        let done = json!({"observedGeneration": 2, "availableReplicas": 2, "updatedReplicas": 2});
        let two = json!({"replicas": 2});
        for (what, object, away, expected) in [
            (
                "unseen",
                object("Deployment", json!({}), unseen),
                0,
                Some("its controller has not seen it yet"),
            ),
            (
                "no status",
                object("Deployment", json!({}), json!({})),
                0,
                Some("its controller has not seen it yet"),
            ),
            ("done", object("Deployment", two.clone(), done), 0, None),
            (
                "fewer",
                object(
                    "Deployment",
                    two,
                    json!({"observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 1}),
                ),
                0,
                Some("1 of 2 are available"),
            ),
            ("old pods", daemons(1, 3), 0, Some("1 of 3 are updated")),
            ("a node is away", daemons(3, 2), 1, None),
            (
                "one more is not",
                daemons(3, 1),
                1,
                Some("1 of 2 are available"),
            ),
            (
                "no workload",
                object("Service", json!({}), json!({"observedGeneration": 2})),
                0,
                None,
            ),
        ] {
            assert_eq!(waits_for(&object, away).as_deref(), expected, "{what}");
        }
    }
}
