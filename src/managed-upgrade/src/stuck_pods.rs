//! Pods on a node that is drained: which of them may be removed by force.

use std::collections::BTreeMap;

use api::machineconfiguration::annotation;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use node::drain::{Pod, Verdict, judge};
use pool::selector::Selector;
use regex::Regex;
use serde::Deserialize as _;
use serde_json::Value;
use upgrade_plan::drain_help::StuckPod;

/// The pods of a node that may be removed, from objects. Spared are those that the node's daemon
/// spares, and those that the settings (by namespace) or an annotation exempts. `since` is the
/// start of the drain.
pub(crate) fn read_pods(
    pods: &[Value],
    budgets: &[Value],
    ignored: &[Regex],
    since: Option<Timestamp>,
) -> Vec<StuckPod> {
    let kept = pods.iter().filter(|pod| {
        let annotations = pod.pointer("/metadata/annotations");
        let exempt = annotations.and_then(|all| all.get(annotation::NO_FORCED_DRAIN)?.as_str());
        let namespace = text(pod, "/metadata/namespace");
        exempt != Some("true")
            && !is_spared(pod, since)
            && !ignored.iter().any(|pattern| pattern.is_match(&namespace))
    });
    kept.map(|pod| {
        let namespace = text(pod, "/metadata/namespace");
        let labels = pod.pointer("/metadata/labels").cloned();
        let labels = labels.and_then(|labels| serde_json::from_value(labels).ok());
        let labels: BTreeMap<String, String> = labels.unwrap_or_default();
        let finalizers = pod
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array);
        let mut near = budgets
            .iter()
            .filter(|budget| text(budget, "/metadata/namespace") == namespace);
        StuckPod {
            name: text(pod, "/metadata/name"),
            uid: text(pod, "/metadata/uid"),
            is_terminating: pod.pointer("/metadata/deletionTimestamp").is_some(),
            // It is the end of the grace period, and not the moment of the deletion.
            ends: time(pod, "/metadata/deletionTimestamp"),
            has_finalizers: finalizers.is_some_and(|all| !all.is_empty()),
            has_budget: near.any(|budget| selects(budget.pointer("/spec/selector"), &labels)),
            namespace,
        }
    })
    .collect()
}

/// Whether the node's daemon leaves a pod alone in a drain, or it cannot be read whether it does.
fn is_spared(pod: &Value, since: Option<Timestamp>) -> bool {
    let Ok(seen) = Pod::deserialize(pod) else {
        return true;
    };
    let created = time(pod, "/metadata/creationTimestamp");
    // Removed, one that the scheduler puts on a cordoned node would come again.
    let has_come_back =
        seen.tolerates_cordon && matches!((created, since), (Some(at), Some(since)) if at > since);
    has_come_back || matches!(judge(&seen, None), Verdict::Skip(_))
}

fn text(object: &Value, pointer: &str) -> String {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    object.pointer(pointer)?.as_str()?.parse().ok()
}

/// Whether a budget's selector selects a pod. What cannot be read protects it.
fn selects(selector: Option<&Value>, labels: &BTreeMap<String, String>) -> bool {
    let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
        return false;
    };
    let parsed = serde_json::from_value::<LabelSelector>(selector.clone());
    let parsed = parsed.map(|selector| Selector::parse("spec.selector", Some(&selector)));
    match parsed {
        Ok(Ok(Selector::Everything) | Err(_)) | Err(_) => true,
        Ok(Ok(selector)) => selector.matches(labels),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use upgrade_plan::fixture::at;

    #[test]
    fn exempt_pods_stay_and_budgets_protect_those_of_their_namespace() {
        let pod = |name: &str, change: Value| {
            let mut pod = json!({
                "metadata": {
                    "namespace": "shop", "name": name, "uid": name, "labels": { "app": "web" },
                },
                "status": { "phase": "Running" },
            });
            for (pointer, value) in change.as_object().unwrap() {
                pod["metadata"][pointer] = value.clone();
            }
            pod
        };
        let owner = |version: &str, is_controller: bool| {
            json!([{
                "apiVersion": version, "kind": "DaemonSet", "name": "d", "controller": is_controller
            }])
        };
        let mut finished = pod("finished", json!({}));
        finished["status"]["phase"] = json!("Succeeded");
        let came = |minute: i64| {
            let created = at(minute).to_string();
            let name = if minute > 0 { "came-back" } else { "was-there" };
            let mut pod = pod(name, json!({ "creationTimestamp": created }));
            pod["spec"] = json!({ "tolerations": [{ "operator": "Exists" }] });
            pod
        };
        let pods = [
            pod("plain", json!({})),
            pod(
                "other",
                json!({ "labels": { "app": "db" }, "finalizers": ["a/b"] }),
            ),
            pod("elsewhere", json!({ "namespace": "bank" })),
            pod("set", json!({ "ownerReferences": owner("apps/v1", true) })),
            // The daemon evicts these: no DaemonSet makes them again.
            pod(
                "owned",
                json!({ "ownerReferences": owner("apps/v1", false) }),
            ),
            pod(
                "of-group",
                json!({ "ownerReferences": owner("example.com/v1", true) }),
            ),
            came(-1),
            came(1),
            json!({ "metadata": { "name": "unreadable" } }),
            pod(
                "mirror",
                json!({ "annotations": { "kubernetes.io/config.mirror": "" } }),
            ),
            pod(
                "exempt",
                json!({ "annotations": { "slipway.dev/no-forced-drain": "true" } }),
            ),
            pod("ignored", json!({ "namespace": "openshift-etcd" })),
            finished,
        ];
        let budget = |selector: Value| json!({ "metadata": { "namespace": "shop" }, "spec": { "selector": selector } });
        let ignored = [Regex::new("^openshift-").unwrap()];
        let read = |budgets: &[Value]| {
            let found = read_pods(&pods, budgets, &ignored, Some(at(0)));
            let shown = |pod: StuckPod| (pod.name, pod.has_budget);
            found.into_iter().map(shown).collect::<Vec<_>>()
        };
        let names = |plain, other| {
            let of_app = ["owned", "of-group", "was-there"].map(|name| (name, plain));
            let first = [("plain", plain), ("other", other), ("elsewhere", false)];
            let all = first.into_iter().chain(of_app);
            all.map(|(name, has_budget)| (name.to_owned(), has_budget))
                .collect::<Vec<_>>()
        };
        let by_expression =
            json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ["web"] }] });
        let table = [
            (vec![], names(false, false)),
            (
                vec![budget(json!({ "matchLabels": { "app": "web" } }))],
                names(true, false),
            ),
            (vec![budget(by_expression)], names(true, false)),
            (vec![budget(json!({}))], names(true, true)),
            (vec![budget(Value::Null)], names(false, false)),
        ];
        for (budgets, expected) in table {
            assert_eq!(read(&budgets), expected, "{budgets:?}");
        }
    }

    #[test]
    fn grace_period_of_a_pod_ends_with_its_deletion_timestamp() {
        let pod = |deleted: Value| {
            let name = json!({
                "namespace": "shop", "name": "web", "uid": "1", "deletionTimestamp": deleted
            });
            let pods = [json!({ "metadata": name })];
            let found = read_pods(&pods, &[], &[], None);
            (found[0].is_terminating, found[0].ends)
        };
        assert_eq!(pod(json!(at(5).to_string())), (true, Some(at(5))));
        assert_eq!(pod(json!("soon")), (true, None));
    }
}
