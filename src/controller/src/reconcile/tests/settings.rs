//! The status of the cluster's settings.

use super::*;

const PATH: &str = "/apis/operator.openshift.io/v1/machineconfigurations/cluster";

fn cluster(settings: &Value) -> Cluster {
    Cluster {
        settings: vec![metadata(settings)],
        ..Cluster::default()
    }
}

/// MachineConfiguration `cluster`: the policy for `/etc/mine`, and the status.
fn settings(actions: &Value, status: &Value) -> Value {
    json!({
        "metadata": { "name": "cluster", "uid": "uid-cluster", "resourceVersion": "7", "generation": 3 },
        "spec": { "nodeDisruptionPolicy": { "files": [{ "path": "/etc/mine", "actions": actions }] } },
        "status": status
    })
}

fn reads(settings: &Value) -> Call {
    Call::get(PATH, Reply::ok(settings.clone()))
}

/// A patch of the status that changes `settings`.
fn writes(settings: &mut Value, status: &Value) -> Call {
    let body = json!({ "metadata": { "resourceVersion": "7" }, "status": status });
    patch(&format!("{PATH}/status"), settings, body, "8")
}

fn degraded(holds: bool, reason: &str, message: &str) -> Value {
    let mut condition = condition("NodeDisruptionPolicyDegraded", holds, reason, message);
    condition["observedGeneration"] = json!(3);
    condition
}

fn foreign() -> Value {
    condition("BootImageUpdateDegraded", true, "Broken", "the other's")
}

/// Policies in force: the defaults, and `actions` for `/etc/mine`.
fn in_force(actions: &Value) -> Value {
    let golden = include_str!("../../../tests/golden/default-policies.json");
    let mut policies: Value = serde_json::from_str(golden).unwrap();
    let files = policies["files"].as_array_mut().unwrap();
    files.push(json!({ "path": "/etc/mine", "actions": actions }));
    json!({ "clusterPolicies": policies })
}

const INVALID: &str =
    "spec.nodeDisruptionPolicy.files[0].actions: None stands beside other actions";

#[tokio::test(start_paused = true)]
async fn policy_is_merged_into_the_status_once_and_foreign_fields_stay() {
    let actions = json!([{ "type": "Drain" }, { "type": "Restart", "restart": { "serviceName": "mine.service" } }]);
    let before =
        json!({ "conditions": [foreign()], "managedBootImagesStatus": { "machineManagers": [] } });
    let mut object = settings(&actions, &before);
    let cluster = cluster(&object);
    let first = reads(&object);
    let status = json!({
        "conditions": [foreign(), degraded(false, "AsExpected", "")],
        "nodeDisruptionPolicyStatus": in_force(&actions),
        "observedGeneration": 3
    });
    let write = writes(&mut object, &status);
    let calls = vec![first, write];
    let (events, results) = reconciled(&cluster, calls, 3).await;
    assert_eq!(events, []);
    assert_eq!(results[1], ("settings".to_owned(), Some(Next::Settled)));
    // Nor does a new process write anything.
    let calls = vec![reads(&object)];
    let (_, results) = reconciled(&self::cluster(&object), calls, 3).await;
    assert_eq!(results[1], ("settings".to_owned(), Some(Next::Settled)));
}

#[tokio::test(start_paused = true)]
async fn invalid_policy_is_reported_once_and_the_status_in_force_stays() {
    let before = json!({ "nodeDisruptionPolicyStatus": in_force(&json!([{ "type": "None" }])), "observedGeneration": 2 });
    let mut object = settings(&json!([{ "type": "None" }, { "type": "Drain" }]), &before);
    let cluster = cluster(&object);
    let first = reads(&object);
    let condition = degraded(true, "InvalidNodeDisruptionPolicy", INVALID);
    let write = writes(&mut object, &json!({ "conditions": [condition] }));
    let calls = vec![first, write];
    let (events, _) = reconciled(&cluster, calls, 3).await;
    let expected = ("InvalidNodeDisruptionPolicy".to_owned(), INVALID.to_owned());
    assert_eq!(events, [expected]);
}

#[tokio::test(start_paused = true)]
async fn repaired_policy_is_in_force_again() {
    let condition = degraded(true, "InvalidNodeDisruptionPolicy", INVALID);
    let before = json!({ "conditions": [condition], "observedGeneration": 2 });
    let none = json!([{ "type": "None" }]);
    let mut object = settings(&none, &before);
    let cluster = cluster(&object);
    let first = reads(&object);
    let status = json!({
        "conditions": [degraded(false, "AsExpected", "")],
        "nodeDisruptionPolicyStatus": in_force(&none),
        "observedGeneration": 3
    });
    let write = writes(&mut object, &status);
    let (events, _) = reconciled(&cluster, vec![first, write], 1).await;
    assert_eq!(events, []);
}

#[tokio::test(start_paused = true)]
async fn settings_that_changed_meanwhile_are_tried_again_and_deleted_ones_are_gone() {
    let object = settings(&json!([{ "type": "None" }]), &json!({}));
    let missing = Reply::failure(404, "NotFound", "not found");
    let conflict = Reply::failure(409, "Conflict", "it changed");
    let status = json!({
        "conditions": [degraded(false, "AsExpected", "")],
        "nodeDisruptionPolicyStatus": in_force(&json!([{ "type": "None" }])),
        "observedGeneration": 3
    });
    let body = json!({ "metadata": { "resourceVersion": "7" }, "status": status });
    let path = format!("{PATH}/status?{MANAGER}");
    let write = |reply| Call::patch(&path, body.clone(), reply);
    let table = [
        (vec![Call::get(PATH, missing.clone())], Next::Gone),
        (vec![reads(&object), write(conflict)], Next::Retry),
    ];
    for (calls, expected) in table {
        let (_, results) = reconciled(&cluster(&object), calls, 1).await;
        assert_eq!(results[1], ("settings".to_owned(), Some(expected)));
    }
}

const ALL: &str = "/apis/operator.openshift.io/v1/machineconfigurations";

/// The request that makes the settings.
fn makes(reply: Reply) -> Call {
    let body = json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration",
        "metadata": { "name": "cluster" }, "spec": { "managementState": "Managed" }
    });
    Call::post(&format!("{ALL}?{MANAGER}"), body, reply)
}

/// Settings that no user wrote, as the API server returns them.
fn made() -> Value {
    json!({
        "metadata": { "name": "cluster", "uid": "uid-cluster", "resourceVersion": "7", "generation": 1 },
        "spec": { "managementState": "Managed" }
    })
}

#[tokio::test(start_paused = true)]
async fn settings_that_no_user_wrote_are_made_and_the_defaults_are_in_force() {
    let mut object = made();
    let mut condition = condition("NodeDisruptionPolicyDegraded", false, "AsExpected", "");
    condition["observedGeneration"] = json!(1);
    let golden = include_str!("../../../tests/golden/default-policies.json");
    let policies: Value = serde_json::from_str(golden).unwrap();
    let status = json!({
        "conditions": [condition],
        "nodeDisruptionPolicyStatus": { "clusterPolicies": policies },
        "observedGeneration": 1
    });
    let create = makes(Reply::ok(object.clone()));
    let read = reads(&object);
    let calls = vec![create, read, writes(&mut object, &status)];
    let store = Store::default();
    reconciled_one(&store, calls, &Work::Settings).await;
    assert!(store.settings.get("cluster").is_some());
    // Those of a person are never written.
    let written = settings(&json!([{ "type": "None" }]), &status);
    cluster(&written).fill(&store);
    let mut after = written.clone();
    let status = json!({
        "conditions": [degraded(false, "AsExpected", "")],
        "nodeDisruptionPolicyStatus": in_force(&json!([{ "type": "None" }])),
        "observedGeneration": 3
    });
    let calls = vec![reads(&written), writes(&mut after, &status)];
    reconciled_one(&store, calls, &Work::Settings).await;
}

#[tokio::test(start_paused = true)]
async fn settings_of_a_faster_writer_stay_and_a_cluster_without_the_kind_has_none() {
    for reply in [
        Reply::failure(409, "AlreadyExists", "it is there"),
        Reply::failure(404, "NotFound", "no such kind"),
    ] {
        let (script, client) = Script::start(vec![makes(reply)]);
        let access = Arc::new(Access::of_client(client));
        let (recorder, _sending) = Recorder::new(Arc::clone(&access), speaker());
        let metrics = Arc::new(ControllerMetrics::default());
        let requests = Requests::new(access);
        let controller = Controller::new(requests, Store::default(), recorder, metrics, clock);
        let next = Box::pin(script.drive(controller.reconcile(&Work::Settings))).await;
        assert_eq!(next.unwrap(), Next::Gone);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_for_boot_images_are_named_and_change_nothing_else() {
    let unsupported = |holds: bool, reason: &str, message: &str| {
        let mut condition = condition("Unsupported", holds, reason, message);
        condition["observedGeneration"] = json!(3);
        condition
    };
    let none = json!([{ "type": "None" }]);
    let good = degraded(false, "AsExpected", "");
    let managed = json!({ "machineManagers": [] });
    let before = json!({
        "conditions": [foreign(), good], "nodeDisruptionPolicyStatus": in_force(&none),
        "observedGeneration": 3, "managedBootImagesStatus": managed
    });
    let mut object = settings(&none, &before);
    object["spec"]["managedBootImages"] = json!({ "machineManagers": [
        { "resource": "machinesets", "selection": { "mode": "All" } }
    ] });
    object["spec"]["bootImageSkewEnforcement"] = json!({ "mode": "Manual" });
    let why = "MachineConfiguration cluster: without effect, because boot images are not handled: spec.managedBootImages.machineManagers[0] (machinesets, mode All), spec.bootImageSkewEnforcement (mode Manual)";
    let conditions = json!([foreign(), good, unsupported(true, "NotImplemented", why)]);
    let first = reads(&object);
    let write = writes(&mut object, &json!({ "conditions": conditions }));
    let cluster = self::cluster(&object);
    let (events, _) = reconciled(&cluster, vec![first, write], 1).await;
    assert_eq!(events, []);
    // Nothing is requested any more.
    let spec = object["spec"].as_object_mut().unwrap();
    spec.remove("managedBootImages");
    spec.remove("bootImageSkewEnforcement");
    object["metadata"]["resourceVersion"] = json!("7");
    let conditions = json!([foreign(), good, unsupported(false, "AsExpected", "")]);
    let first = reads(&object);
    let write = writes(&mut object, &json!({ "conditions": conditions }));
    let (events, _) = reconciled(&cluster, vec![first, write], 1).await;
    assert_eq!(events, []);
}
