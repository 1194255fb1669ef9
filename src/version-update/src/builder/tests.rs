#![expect(clippy::needless_pass_by_value, reason = "json! makes values")]

use api::config::ClusterOperatorStatus;
use release::graph::Ordering;
use release::inventory::{CREATE_ONLY, Entry, ManifestDirectory};
use release::manifest::ObjectId;

use super::*;
use crate::failure::{Effect, Failure};

fn entry(kind: &str, annotations: &[(&str, &str)]) -> Entry {
    Entry {
        directory: ManifestDirectory::Release,
        file: "0000_50_a_b.yaml".to_owned(),
        document: 1,
        id: id(kind),
        api_version: "apps/v1".to_owned(),
        annotations: annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        content: 0,
    }
}

fn id(kind: &str) -> ObjectId {
    let group = match kind {
        "Job" => "batch",
        "CustomResourceDefinition" => "apiextensions.k8s.io",
        "Deployment" | "DaemonSet" => "apps",
        _ => "",
    };
    ObjectId {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: "n".to_owned(),
        name: "a".to_owned(),
    }
}

#[test]
fn cluster_version_owns_what_has_no_other_owner() {
    let owners = |entry: &Entry, owners: Value| {
        let object = json!({ "metadata": { "ownerReferences": owners }, "status": {} });
        let object = prepare(entry, object, "u");
        assert!(object.get("status").is_none());
        object["metadata"]["ownerReferences"].clone()
    };
    let own = json!({ "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "name": "version", "uid": "u" });
    let mut controlled = own.clone();
    controlled["controller"] = json!(true);
    let plain = entry("ConfigMap", &[]);
    assert_eq!(owners(&plain, json!([])), json!([controlled]));
    assert_eq!(owners(&plain, json!([own])), json!([controlled]));
    let other = json!({ "kind": "Node", "name": "x" });
    assert_eq!(owners(&plain, json!([other, own])), json!([other]));
    assert_eq!(
        owners(&entry("ConfigMap", &[(CREATE_ONLY, "true")]), json!([])),
        json!([own])
    );
    // As everywhere else, whatever its case is.
    assert_eq!(
        owners(&entry("ConfigMap", &[(CREATE_ONLY, "True")]), json!([])),
        json!([own])
    );
    assert_eq!(
        owners(&entry("ConfigMap", &[(CREATE_ONLY, "no")]), json!([])),
        json!([controlled])
    );
}

fn workload(containers: Value, volumes: Value) -> Value {
    json!({
        "metadata": { "resourceVersion": "7" },
        "spec": { "template": { "spec": { "containers": containers, "volumes": volumes } } }
    })
}

#[test]
fn what_others_added_to_a_workload_is_removed() {
    let wanted = workload(
        json!([{ "name": "a", "image": "i", "env": [{ "name": "A", "value": "1" }] }]),
        json!([{ "name": "v" }]),
    );
    // Defaults of the API server are no excess.
    let clean = workload(
        json!([{ "name": "a", "image": "i", "env": [{ "name": "A", "value": "1" }], "resources": {}, "imagePullPolicy": "Always" }]),
        json!([{ "name": "v", "emptyDir": {} }]),
    );
    assert_eq!(excess(&id("Deployment"), &wanted, &clean), None);
    let dirty = workload(
        json!([
            { "name": "other" },
            { "name": "a", "image": "i", "env": [{ "name": "A", "value": "1" }, { "name": "B" }], "livenessProbe": {}, "resources": {} }
        ]),
        json!([{ "name": "v", "emptyDir": {} }, { "name": "w" }]),
    );
    let expected = json!({
        "metadata": { "resourceVersion": "7" },
        "spec": { "template": { "spec": {
            "containers": [{ "name": "a", "image": "i", "env": [{ "name": "A", "value": "1" }], "resources": {} }],
            "volumes": [{ "name": "v", "emptyDir": {} }]
        } } }
    });
    assert_eq!(excess(&id("Deployment"), &wanted, &dirty), Some(expected));
    let only = workload(json!([{ "name": "a" }]), Value::Null);
    let dirty = workload(json!([{ "name": "a" }]), json!([{ "name": "w" }]));
    let patch = excess(&id("Deployment"), &only, &dirty).unwrap();
    assert_eq!(
        patch["spec"]["template"]["spec"],
        json!({ "volumes": null })
    );
}

#[test]
fn proxy_is_put_into_named_containers_only() {
    let object = || {
        let mut object = workload(
            json!([{ "name": "a", "env": [{ "name": "NO_PROXY", "value": "old" }, { "name": "Z" }] }, { "name": "b" }]),
            Value::Null,
        );
        object["spec"]["template"]["spec"]["initContainers"] = json!([{ "name": "c" }]);
        object
    };
    let proxy = ClusterProxy {
        http: "http://p".to_owned(),
        https: String::new(),
        none: "x".to_owned(),
    };
    let mut changed = object();
    inject_proxy(&mut changed, "a, c", &proxy).unwrap();
    let pod = &changed["spec"]["template"]["spec"];
    let proxied = json!([{ "name": "HTTP_PROXY", "value": "http://p" }, { "name": "NO_PROXY", "value": "x" }]);
    assert_eq!(pod["initContainers"][0]["env"], proxied);
    assert_eq!(pod["containers"][0]["env"][0], json!({ "name": "Z" }));
    assert_eq!(pod["containers"][1], json!({ "name": "b" }));
    let mut unchanged = object();
    inject_proxy(&mut unchanged, "a,c", &ClusterProxy::default()).unwrap();
    assert_eq!(unchanged, object());
    let error = inject_proxy(&mut object(), "a,x", &proxy).unwrap_err();
    assert_eq!(
        error.to_string(),
        "requested injection for non-existent container: \"x\""
    );
}

fn status(conditions: &[(&str, &str, &str)], rest: Value) -> Value {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(r#type, status, reason)| {
            json!({ "type": r#type, "status": status, "reason": reason, "message": "m" })
        })
        .collect();
    let mut object =
        json!({ "metadata": { "generation": 2 }, "spec": { "replicas": 2 }, "status": rest });
    object["status"]["conditions"] = json!(conditions);
    object
}

/// Kind, object, and its health.
type Case<'a> = (&'a str, Value, &'a str);

fn check(table: &[Case<'_>]) {
    for (kind, object, expected) in table {
        let shown = match health(&id(kind), "t", object, Ordering::Updating) {
            Health::Ready => "ready".to_owned(),
            Health::Waiting(failure) => {
                assert_eq!(failure.effect, Effect::None);
                format!("waits: {}", failure.message)
            }
            Health::Failed(failure) => format!("{}: {}", failure.reason, failure.message),
        };
        assert_eq!(shown, *expected, "{kind} {object}");
    }
}

#[test]
fn definitions_and_deployments_are_waited_for() {
    let rolled = json!({ "observedGeneration": 2, "updatedReplicas": 2 });
    check(&[
        ("ConfigMap", json!({}), "ready"),
        (
            "CustomResourceDefinition",
            json!({}),
            "waits: t does not declare an Established status condition",
        ),
        (
            "CustomResourceDefinition",
            status(&[("Established", "False", "R")], json!({})),
            "waits: t Established=False, R: m",
        ),
        (
            "CustomResourceDefinition",
            status(&[("Established", "True", "")], json!({})),
            "ready",
        ),
        ("Deployment", status(&[], rolled.clone()), "ready"),
        (
            "Deployment",
            json!({ "metadata": { "generation": 1 } }),
            "ready",
        ),
        (
            "Deployment",
            status(
                &[],
                json!({ "observedGeneration": 1, "updatedReplicas": 2 }),
            ),
            "waits: t is rolling out",
        ),
        (
            "Deployment",
            status(
                &[],
                json!({ "observedGeneration": 2, "updatedReplicas": 1 }),
            ),
            "waits: t is rolling out",
        ),
        (
            "Deployment",
            status(
                &[],
                json!({ "observedGeneration": 2, "updatedReplicas": 2, "unavailableReplicas": 1 }),
            ),
            "waits: t is rolling out",
        ),
        (
            "Deployment",
            json!({ "metadata": { "deletionTimestamp": "x" } }),
            "waits: t is being deleted",
        ),
        (
            "Deployment",
            status(&[("ReplicaFailure", "True", "R")], rolled.clone()),
            "WorkloadNotProgressing: deployment n/a has a replica failure R: m",
        ),
        (
            "Deployment",
            status(
                &[("Available", "False", "R"), ("Progressing", "False", "S")],
                rolled.clone(),
            ),
            "WorkloadNotAvailable: deployment n/a is not available R (m)",
        ),
        (
            "Deployment",
            status(
                &[
                    ("Available", "True", ""),
                    ("Progressing", "False", "ProgressDeadlineExceeded"),
                ],
                rolled,
            ),
            "WorkloadNotProgressing: deployment n/a did not finish rolling out: m",
        ),
    ]);
    let rolling = status(&[], json!({}));
    let first = Ordering::Initializing;
    for kind in ["Deployment", "CustomResourceDefinition"] {
        assert_eq!(health(&id(kind), "t", &rolling, first), Health::Ready);
    }
}

/// Judged, or searched for what others have added.
#[test]
fn only_objects_that_are_looked_into_are_read_whole() {
    for (kind, first, later) in [
        ("ConfigMap", false, false),
        ("CustomResourceDefinition", false, true),
        ("Job", true, true),
        ("Deployment", true, true),
        ("DaemonSet", true, true),
    ] {
        let is_read = |ordering| is_read(&id(kind), ordering);
        assert_eq!(is_read(Ordering::Initializing), first, "{kind}");
        assert_eq!(is_read(Ordering::Updating), later, "{kind}");
    }
}

#[test]
fn definition_is_of_the_group_in_its_name() {
    let definition = ObjectId {
        name: "widgets.b.c".to_owned(),
        ..id("CustomResourceDefinition")
    };
    assert!(is_definition(&definition, "b.c"));
    assert!(!is_definition(&definition, "c"));
    let map = ObjectId {
        name: "widgets.b.c".to_owned(),
        ..id("ConfigMap")
    };
    assert!(!is_definition(&map, "b.c"));
}

#[test]
fn daemon_sets_and_jobs_are_waited_for() {
    let spread = json!({ "observedGeneration": 2, "updatedNumberScheduled": 3, "desiredNumberScheduled": 3 });
    check(&[
        ("DaemonSet", status(&[], spread), "ready"),
        (
            "DaemonSet",
            status(
                &[],
                json!({ "observedGeneration": 2, "desiredNumberScheduled": 1 }),
            ),
            "waits: t is rolling out",
        ),
        ("Job", json!({}), "waits: t has not succeeded yet"),
        (
            "Job",
            json!({ "status": { "succeeded": 1, "failed": 1 } }),
            "ready",
        ),
        (
            "Job",
            json!({ "status": { "failed": 1, "active": 1 } }),
            "waits: t has not succeeded yet",
        ),
        (
            "Job",
            json!({ "status": { "failed": 1 } }),
            "UpdatePayloadFailed: Could not update t: deadline exceeded, reason: \"\", message: \"the job has failed, and has no condition that says why\"",
        ),
        (
            "Job",
            status(&[("Failed", "True", "DeadlineExceeded")], json!({})),
            "UpdatePayloadFailed: Could not update t: deadline exceeded, reason: \"DeadlineExceeded\", message: \"m\"",
        ),
    ]);
}

/// An administrator may let the release go on past a degraded operator. Row 17 of
/// `docs/reference/known-weaknesses.md`, "Version operator".
#[test]
fn tolerated_operator_may_be_degraded_and_nothing_else() {
    let object = |list: &str| -> api::config::ClusterVersion {
        let object = json!({
            "metadata": { "name": "version", "annotations": { TOLERATED: list } },
            "spec": { "clusterID": "c" }
        });
        serde_json::from_value(object).unwrap()
    };
    let tolerated = tolerated(&object(" a, ,b "));
    assert_eq!(tolerated, ["a".to_owned(), "b".to_owned()].into());
    let effect = |operator: &str, suffix: &str, effect| {
        let failure = Failure::operator(operator, suffix, effect);
        tolerate(failure, operator, &tolerated).effect
    };
    assert_eq!(
        effect("a", "Degraded", Effect::FailAfterInterval),
        Effect::Report
    );
    assert_eq!(
        effect("c", "Degraded", Effect::FailAfterInterval),
        Effect::FailAfterInterval
    );
    assert_eq!(effect("a", "NotAvailable", Effect::Fail), Effect::Fail);
    assert_eq!(effect("a", "Updating", Effect::None), Effect::None);
}

#[test]
fn operators_are_read_by_availability_degradation_and_versions() {
    let manifest = json!({ "status": { "versions": [{ "name": "operator", "version": "2" }, { "name": "x", "version": "1" }] } });
    let found = |available: &str, degraded: &str, version: &str| -> ClusterOperatorStatus {
        let condition = |r#type: &str, status: &str| json!({ "type": r#type, "status": status, "lastTransitionTime": "2025-01-01T00:00:00Z" });
        let mut conditions = vec![
            condition("Available", available),
            condition("Progressing", "True"),
        ];
        if !degraded.is_empty() {
            conditions.push(condition("Degraded", degraded));
        }
        serde_json::from_value(json!({
            "conditions": conditions,
            "versions": [{ "name": "operator", "version": version }, { "name": "x", "version": "1" }]
        }))
        .unwrap()
    };
    let fault = |manifest: &Value, found: Option<&ClusterOperatorStatus>, ordering| {
        operator_health("a", manifest, found, ordering).map(|fault| (fault.reason, fault.effect))
    };
    let reason = |found: &ClusterOperatorStatus, ordering| fault(&manifest, Some(found), ordering);
    let updating = Ordering::Updating;
    let named = |reason: &str, effect| Some((reason.to_owned(), effect));
    assert_eq!(reason(&found("True", "False", "2"), updating), None);
    assert_eq!(
        reason(&found("False", "True", "1"), updating),
        named("ClusterOperatorNotAvailable", Effect::Fail)
    );
    for degraded in ["True", "", "Unknown"] {
        assert_eq!(
            reason(&found("True", degraded, "1"), updating),
            named("ClusterOperatorDegraded", Effect::FailAfterInterval)
        );
    }
    assert_eq!(
        reason(&found("True", "True", "2"), Ordering::Initializing),
        named("ClusterOperatorDegraded", Effect::Report)
    );
    assert_eq!(
        reason(&found("True", "False", "1"), updating),
        named("ClusterOperatorUpdating", Effect::None)
    );
    assert_eq!(
        reason(&found("True", "False", "1"), Ordering::Initializing),
        None
    );
    assert_eq!(
        fault(&manifest, None, updating),
        named("UpdatePayloadResourceNotFound", Effect::Fail)
    );
    assert_eq!(
        fault(&json!({}), Some(&found("True", "False", "2")), updating),
        named("ClusterOperatorNoVersions", Effect::Fail)
    );
}
