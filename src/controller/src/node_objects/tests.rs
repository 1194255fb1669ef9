use std::sync::Arc;

use apimock::{Call, Reply, Script};
use cluster::access::Access;
use cluster::events::{Recorder, Speaker};
use http::Method;
use jiff::Timestamp;
use operator::Reconcile as _;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{Cluster, OLD, node, pool, read};
use crate::metrics::ControllerMetrics;
use crate::reconcile::Controller;
use crate::requests::Requests;
use crate::store::Store;
use crate::work::Work;

const OBJECTS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfignodes";

fn object(node: &str, uid: &str, pool: &str, desired: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode",
        "metadata": {
            "name": node, "resourceVersion": "7",
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid }],
        },
        "spec": {
            "configVersion": { "desired": desired }, "node": { "name": node }, "pool": { "name": pool },
        },
    })
}

fn written(node: &str, pool: &str, desired: &str, reply: Option<Reply>) -> Call {
    let object = object(node, &format!("uid-{node}"), pool, desired);
    let mut body = object.clone();
    let metadata = body["metadata"].as_object_mut().unwrap();
    metadata.remove("resourceVersion");
    let path = format!("{OBJECTS}/{node}?fieldManager=machine-config-operator&force=true");
    Call::patch(&path, body, reply.unwrap_or_else(|| Reply::ok(object)))
}

/// Reconciles MachineConfigNodes twice: the second time there is nothing to do.
async fn reconcile(nodes: Vec<Value>, objects: &[Value], calls: Vec<Call>) -> Vec<Next> {
    reconcile_in(Store::default(), nodes, objects, calls).await
}

async fn reconcile_in(
    store: Store,
    nodes: Vec<Value>,
    objects: &[Value],
    calls: Vec<Call>,
) -> Vec<Next> {
    let cluster = Cluster {
        nodes,
        ..Cluster::default()
    };
    reconcile_cluster(store, cluster, objects, calls).await
}

async fn reconcile_cluster(
    store: Store,
    cluster: Cluster,
    objects: &[Value],
    calls: Vec<Call>,
) -> Vec<Next> {
    let pools = [vec![pool(Some(OLD))], cluster.pools.clone()].concat();
    Cluster { pools, ..cluster }.fill(&store);
    let objects = objects
        .iter()
        .map(|object| NodeAssignment::parse(read(object)));
    store
        .node_objects
        .apply(WatchEvent::Synced(objects.collect()));
    let (script, client) = Script::start(calls);
    let access = Arc::new(Access::of_client(client));
    let speaker = Speaker {
        component: "test".to_owned(),
        host: "test".to_owned(),
        namespace: "test".to_owned(),
    };
    let (recorder, _sending) = Recorder::new(Arc::clone(&access), speaker);
    let metrics = Arc::new(ControllerMetrics::default());
    let clock = || Timestamp::UNIX_EPOCH;
    let controller = Controller::new(Requests::new(access), store, recorder, metrics, clock);
    let twice = async {
        let first = controller.reconcile(&Work::NodeObjects).await.unwrap();
        vec![
            first,
            controller.reconcile(&Work::NodeObjects).await.unwrap(),
        ]
    };
    let results = Box::pin(script.drive(twice)).await;
    assert_eq!(script.remaining(), 0);
    results
}

fn labelled(mut node: Value, labels: Value) -> Value {
    node["metadata"]["labels"] = labels;
    node
}

#[tokio::test]
async fn every_node_has_an_object_with_its_pool_and_assignment() {
    let mut unassigned = labelled(node("d", OLD), json!({}));
    unassigned["metadata"]["annotations"] = json!({});
    let nodes = vec![
        node("a", OLD),
        node("b", OLD),
        node("c", "rendered-worker-new"),
        unassigned,
        labelled(node("e", OLD), json!({ "kubernetes.io/os": "windows" })),
    ];
    let objects = [
        object("b", "uid-b", "worker", OLD),
        object("c", "uid-c", "worker", OLD),
    ];
    let calls = vec![
        written("a", "worker", OLD, None),
        written("c", "worker", "rendered-worker-new", None),
        written("d", "not-yet-set", "not-yet-set", None),
    ];
    assert_eq!(reconcile(nodes, &objects, calls).await, [Next::Settled; 2]);
}

#[tokio::test]
async fn object_of_a_node_that_was_recreated_gets_its_owner() {
    let objects = [object("a", "uid-before", "worker", OLD)];
    let calls = vec![written("a", "worker", OLD, None)];
    assert_eq!(
        reconcile(vec![node("a", OLD)], &objects, calls).await,
        [Next::Settled; 2]
    );
}

#[tokio::test]
async fn object_without_a_node_is_removed_as_it_was_read() {
    let objects = [object("gone", "uid-gone", "worker", OLD)];
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "resourceVersion": "7" },
    });
    let path = format!("{OBJECTS}/gone");
    let delete = |reply| Call::new(Method::DELETE, &path, reply).with_body(options.clone());
    let changed = Reply::failure(409, "Conflict", "it has changed");
    let gone = Reply::failure(404, "NotFound", "it is gone");
    let calls = vec![delete(changed), delete(gone)];
    assert_eq!(
        reconcile(vec![], &objects, calls).await,
        [Next::Retry, Next::Settled]
    );
}

#[tokio::test]
async fn object_that_is_refused_keeps_no_other_waiting() {
    let refused = Reply::failure(500, "InternalError", "not now");
    let calls = vec![
        written("a", "worker", OLD, Some(refused)),
        written("b", "worker", OLD, None),
        written("a", "worker", OLD, None),
    ];
    let nodes = vec![node("a", OLD), node("b", OLD)];
    assert_eq!(
        reconcile(nodes, &[], calls).await,
        [Next::Retry, Next::Settled]
    );
}

#[tokio::test]
async fn object_that_was_deleted_is_made_anew_and_named_on_its_node() {
    let store = Store::default();
    let deleted = NodeAssignment::parse(read(&object("a", "uid-a", "worker", OLD)));
    store.lost_objects.note(Some(&deleted), None);
    let gone = NodeAssignment {
        name: "gone".to_owned(),
        ..deleted
    };
    store.lost_objects.note(Some(&gone), None);
    let mut made = object("a", "uid-a", "worker", OLD);
    made["metadata"]["uid"] = json!("uid-new");
    let named = |reply| {
        let body = json!({ "metadata": {
            "resourceVersion": "5",
            "annotations": { "slipway.dev/machine-config-node": "uid-new" }
        } });
        let path = "/api/v1/nodes/a?fieldManager=machine-config-controller";
        Call::patch(path, body, reply)
    };
    let changed = Reply::failure(409, "Conflict", "it has changed");
    let calls = vec![
        written("a", "worker", OLD, Some(Reply::ok(made))),
        named(changed),
        named(Reply::ok(node("a", OLD))),
    ];
    assert_eq!(
        reconcile_in(store, vec![node("a", OLD)], &[], calls).await,
        [Next::Retry, Next::Settled]
    );
}

#[tokio::test]
async fn node_that_left_all_pools_loses_the_marks_of_a_waiting_one() {
    let mut left = labelled(node("a", OLD), json!({}));
    let annotations = &mut left["metadata"]["annotations"];
    annotations["slipway.dev/next-config"] = json!("rendered-worker-new");
    annotations["slipway.dev/next-bytes-per-second"] = json!("100000");
    annotations["slipway.dev/desired-pins"] = json!("edge=1.0a1b2c3d");
    left["spec"]["taints"] = json!([
        { "key": "theirs", "effect": "NoSchedule" },
        { "key": "UpdateInProgress", "effect": "PreferNoSchedule" }
    ]);
    let cleared = |reply| {
        let body = json!({
            "metadata": {
                "resourceVersion": "5",
                "annotations": {
                    "slipway.dev/desired-pins": null,
                    "slipway.dev/next-bytes-per-second": null,
                    "slipway.dev/next-config": null
                }
            },
            "spec": { "taints": [{ "key": "theirs", "effect": "NoSchedule" }] }
        });
        let path = "/api/v1/nodes/a?fieldManager=machine-config-controller";
        Call::patch(path, body, reply)
    };
    let objects = [object("a", "uid-a", "not-yet-set", OLD)];
    let mut clean = labelled(node("a", OLD), json!({}));
    clean["metadata"]["resourceVersion"] = json!("6");
    let calls = vec![
        cleared(Reply::failure(409, "Conflict", "it has changed")),
        cleared(Reply::ok(clean)),
    ];
    assert_eq!(
        reconcile(vec![left], &objects, calls).await,
        [Next::Retry, Next::Settled]
    );
}

#[tokio::test]
async fn node_that_two_custom_pools_select_keeps_its_pinned_image_sets() {
    let custom = |name: &str| {
        let mut pool = pool(None);
        pool["metadata"]["name"] = json!(name);
        pool["spec"]["nodeSelector"] = json!({ "matchLabels": { name: "" } });
        pool
    };
    let mut contested = labelled(node("a", OLD), json!({ "gpu": "", "infra": "" }));
    contested["metadata"]["annotations"]["slipway.dev/desired-pins"] = json!("edge=1.0a1b2c3d");
    let cluster = Cluster {
        pools: ["gpu", "infra"].map(custom).into(),
        nodes: vec![contested],
        ..Cluster::default()
    };
    let objects = [object("a", "uid-a", "not-yet-set", OLD)];
    let results = reconcile_cluster(Store::default(), cluster, &objects, Vec::new()).await;
    assert_eq!(results, [Next::Settled, Next::Settled]);
}

fn announces(node: &Value, announced: &str, reply: Option<Reply>) -> Call {
    let name = node["metadata"]["name"].as_str().unwrap();
    let body = json!({ "metadata": {
        "resourceVersion": "5", "annotations": { "slipway.dev/certificates": announced },
    } });
    let path = format!("/api/v1/nodes/{name}?fieldManager=machine-config-controller");
    let mut after = node.clone();
    after["metadata"]["annotations"]["slipway.dev/certificates"] = json!(announced);
    Call::patch(&path, body, reply.unwrap_or_else(|| Reply::ok(after)))
}

fn knows(name: &str, announced: Option<&str>) -> Value {
    let mut node = node(name, OLD);
    node["metadata"]["annotations"]["slipway.dev/certificates"] = json!(announced);
    if announced.is_none() {
        let annotations = node["metadata"]["annotations"].as_object_mut();
        annotations.unwrap().remove("slipway.dev/certificates");
    }
    node
}

fn objects_of(names: &[&str]) -> Vec<Value> {
    let object = |name: &&str| object(name, &format!("uid-{name}"), "worker", OLD);
    names.iter().map(object).collect()
}

#[tokio::test]
async fn other_certificates_are_announced_on_managed_nodes_once() {
    let config = json!({
        "metadata": { "name": "machine-config-controller", "resourceVersion": "7" },
        "spec": { "kubeAPIServerServingCAData": "YQ==" },
    });
    let digest = certificates::digest(&read(&config));
    let mut unmanaged = knows("c", None);
    unmanaged["metadata"]["annotations"] = json!({});
    let (other, new) = (knows("a", Some("other")), knows("b", None));
    let cluster = Cluster {
        nodes: vec![
            other.clone(),
            new.clone(),
            unmanaged,
            knows("d", Some(&digest)),
        ],
        controller_configs: vec![config],
        ..Cluster::default()
    };
    let mut objects = objects_of(&["a", "b", "d"]);
    objects.push(object("c", "uid-c", "worker", "not-yet-set"));
    let changed = Reply::failure(409, "Conflict", "it has changed");
    let calls = vec![
        announces(&other, &digest, None),
        announces(&new, &digest, Some(changed)),
        announces(&new, &digest, None),
    ];
    assert_eq!(
        reconcile_cluster(Store::default(), cluster, &objects, calls).await,
        [Next::Retry, Next::Settled]
    );
}

#[tokio::test]
async fn a_missing_controller_config_takes_no_certificates_away() {
    let new = knows("b", None);
    let nodes = vec![knows("a", Some("digest")), new.clone()];
    let calls = vec![announces(&new, "none", None)];
    let objects = objects_of(&["a", "b"]);
    assert_eq!(
        reconcile(nodes, &objects, calls).await,
        [Next::Settled, Next::Settled]
    );
}

#[tokio::test(start_paused = true)]
async fn an_image_is_written_with_the_configuration_unless_the_definition_has_none() {
    let image = "registry.example/os@sha256:0";
    let mut layered = node("a", OLD);
    layered["metadata"]["annotations"]["machineconfiguration.openshift.io/desiredImage"] =
        json!(image);
    let older = object("a", "uid-a", "worker", "rendered-worker-0");
    let mut body = object("a", "uid-a", "worker", OLD);
    body["spec"]["configImage"] = json!({ "desiredImage": image });
    let stored = body.clone();
    let metadata = body["metadata"].as_object_mut().unwrap();
    metadata.remove("resourceVersion");
    let path = format!("{OBJECTS}/a?fieldManager=machine-config-operator&force=true");
    let apply = |reply| Call::patch(&path, body.clone(), reply);
    let calls = vec![apply(Reply::ok(stored))];
    let nexts = reconcile(vec![layered.clone()], std::slice::from_ref(&older), calls).await;
    assert_eq!(nexts, [Next::Settled, Next::Settled]);
    let refusal = "failed to create typed patch object (/a; \
                   machineconfiguration.openshift.io/v1, Kind=MachineConfigNode): \
                   .spec.configImage: field not declared in schema";
    let calls = vec![
        apply(Reply::failure(500, "InternalError", refusal)),
        written("a", "worker", OLD, None),
    ];
    let nexts = reconcile(vec![layered], &[older], calls).await;
    assert_eq!(nexts, [Next::Settled, Next::Settled]);
}
