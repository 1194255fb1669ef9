//! Scenarios: what is known, the calls that a pass makes, in order, and no others.

use std::sync::Mutex;

use api::{ControllerConfig, MachineConfig, MachineConfigPool};
use apimock::{Call, Reply, Script};
use cluster::access::Access;
use cluster::events::Speaker;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use k8s_openapi::api::core::v1::Node;
use kube::client::Body;
use kube::core::PartialObjectMeta;
use machineconfig::render::{Base, Source, render};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::configs::ConfigMeta;
use crate::version::{BUILD, VERSION};

const OLD: &str = "rendered-worker-old";
const MANAGER: &str = "fieldManager=machine-config-controller";
const GROUP: &str = "/apis/machineconfiguration.openshift.io/v1";
const NOW: &str = "2026-11-21T19:17:00Z";

fn clock() -> Timestamp {
    NOW.parse().unwrap()
}

fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

/// What the cluster holds, as the API server writes it.
#[derive(Clone, Default)]
struct Cluster {
    pools: Vec<Value>,
    nodes: Vec<Value>,
    configs: Vec<Value>,
    controller_configs: Vec<Value>,
}

impl Cluster {
    fn fill(&self, store: &Store) {
        let pools = self
            .pools
            .iter()
            .map(|pool| Pool::parse(read::<MachineConfigPool>(pool)));
        store.learn_pools(News::All(pools.collect()));
        let nodes = self
            .nodes
            .iter()
            .map(|node| NodeView::parse(read::<Node>(node)));
        store.learn_nodes(News::All(nodes.collect()));
        let configs = self
            .configs
            .iter()
            .map(|config| ConfigMeta::parse(read::<PartialObjectMeta<MachineConfig>>(config)));
        store.learn_configs(News::All(configs.collect()));
        let configs = self.controller_configs.iter().map(read::<ControllerConfig>);
        store.learn_controller_configs(News::All(configs.collect()));
    }
}

/// What was said, as reason and message.
type Said = Arc<Mutex<Vec<(String, String)>>>;

/// An API server that takes events and keeps what they say.
fn listener(said: &Said) -> kube::Client {
    let said = Arc::clone(said);
    let service = tower::service_fn(move |request: Request<Body>| {
        let said = Arc::clone(&said);
        async move {
            let event: Value = serde_json::from_slice(&request.into_body().collect_bytes().await?)?;
            let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
            said.lock().unwrap().push((text("reason"), text("message")));
            Ok::<_, tower::BoxError>(Response::new(Full::new(Bytes::from("{}"))))
        }
    });
    kube::Client::new(service, "default")
}

/// Runs `passes` passes over the cluster; tells what was said and the last delay.
async fn passes(
    cluster: &Cluster,
    calls: Vec<Call>,
    passes: usize,
) -> (Vec<(String, String)>, Duration) {
    let (script, client) = Script::start(calls);
    let said = Said::default();
    let speaker = Speaker {
        component: "machineconfigcontroller".to_owned(),
        host: String::new(),
        namespace: "mco".to_owned(),
    };
    let (recorder, sending) = Recorder::new(Arc::new(Access::of_client(listener(&said))), speaker);
    tokio::spawn(sending);
    let store = Arc::new(Store::default());
    cluster.fill(&store);
    let mut controller = Controller::new(
        Requests::new(Arc::new(Access::of_client(client))),
        store,
        recorder.clone(),
        Arc::new(Figures::default()),
        clock,
    );
    let work = Box::pin(async {
        let mut delay = Duration::ZERO;
        for _ in 0..passes {
            delay = controller.pass().await;
        }
        recorder.flush().await;
        delay
    });
    let delay = script.drive(work).await;
    let said = said.lock().unwrap().clone();
    (said, delay)
}

fn source(name: &str, spec: &Value) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "generation": 1,
            "labels": { "machineconfiguration.openshift.io/role": "worker" }
        },
        "spec": spec
    })
}

fn metadata(object: &Value) -> Value {
    json!({ "metadata": object["metadata"] })
}

fn spec_with(argument: &str) -> Value {
    json!({ "kernelArguments": [argument] })
}

/// Name and spec that sources of role `worker` render to.
fn rendered(sources: &[Value]) -> (String, Value) {
    let sources: Vec<Source> = sources
        .iter()
        .map(|source| Source {
            name: source["metadata"]["name"].as_str().unwrap().to_owned(),
            role: Some("worker".to_owned()),
            generated_by: None,
            spec: serde_json::to_value(read::<MachineConfig>(source).spec).unwrap(),
        })
        .collect();
    let rendered = render("worker", &sources, &Base::default()).unwrap();
    (rendered.name, rendered.spec.to_value())
}

fn pool(target: Option<&str>) -> Value {
    let configuration = target.map_or_else(
        || json!({}),
        |name| json!({ "name": name, "source": [reference("50-a")] }),
    );
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": { "name": "worker", "uid": "uid-worker", "resourceVersion": "10", "generation": 2 },
        "spec": {
            "configuration": configuration,
            "machineConfigSelector": { "matchLabels": { "machineconfiguration.openshift.io/role": "worker" } },
            "nodeSelector": { "matchLabels": { "node-role.kubernetes.io/worker": "" } },
            "paused": false
        }
    })
}

fn reference(name: &str) -> Value {
    json!({ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "name": name })
}

fn node(name: &str, current: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": "5",
            "labels": { "node-role.kubernetes.io/worker": "" },
            "annotations": {
                "machineconfiguration.openshift.io/currentConfig": current,
                "machineconfiguration.openshift.io/desiredConfig": current,
                "machineconfiguration.openshift.io/state": "Done"
            }
        },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] }
    })
}

/// `object` after a merge patch, in another version.
fn patched(object: &Value, patch: &Value, version: &str) -> Value {
    fn merge(into: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *into = patch.clone();
            return;
        };
        if !into.is_object() {
            *into = json!({});
        }
        for (key, value) in patch {
            if value.is_null() {
                into.as_object_mut().unwrap().remove(key);
            } else {
                merge(&mut into[key], value);
            }
        }
    }
    let mut object = object.clone();
    merge(&mut object, patch);
    object["metadata"]["resourceVersion"] = json!(version);
    object
}

/// A patch and its answer; changes `object` as the API server would.
fn patch(path: &str, object: &mut Value, body: Value, version: &str) -> Call {
    *object = patched(object, &body, version);
    Call::patch(
        &format!("{path}?{MANAGER}"),
        body,
        Reply::ok(object.clone()),
    )
}

fn list(items: &[Value]) -> Reply {
    Reply::ok(json!({ "metadata": { "resourceVersion": "99" }, "items": items }))
}

fn list_sources(items: &[Value]) -> Call {
    Call::get(
        &format!(
            "{GROUP}/machineconfigs?limit=250&labelSelector=machineconfiguration.openshift.io%2Frole%3Dworker"
        ),
        list(items),
    )
}

fn read_pool(pool: &Value) -> Call {
    Call::get(
        &format!("{GROUP}/machineconfigpools/worker"),
        Reply::ok(pool.clone()),
    )
}

fn list_nodes(items: &[Value]) -> Call {
    Call::get(
        "/api/v1/nodes?limit=250&labelSelector=node-role.kubernetes.io%2Fworker%3D",
        list(items),
    )
}

fn claim_body(version: &str, target: &str, nodes: &Value) -> Value {
    let round = format!(r#"{{"target":"{target}","nodes":{nodes}}}"#);
    json!({ "metadata": { "resourceVersion": version, "annotations": { "slipway.dev/round": round } } })
}

fn tell_body(version: &str, target: &str) -> Value {
    json!({ "metadata": {
        "resourceVersion": version,
        "annotations": { "machineconfiguration.openshift.io/desiredConfig": target }
    } })
}

fn taint_body(version: &str) -> Value {
    json!({
        "metadata": { "resourceVersion": version },
        "spec": { "taints": [{ "effect": "PreferNoSchedule", "key": "UpdateInProgress" }] }
    })
}

fn condition(r#type: &str, holds: bool, reason: &str, message: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({ "type": r#type, "status": status, "lastTransitionTime": NOW, "reason": reason, "message": message })
}

/// Counters in the order machine, updated, ready, unavailable, degraded.
fn status(conditions: &[Value], counts: [u32; 5]) -> Value {
    json!({
        "conditions": conditions,
        "degradedMachineCount": counts[4],
        "machineCount": counts[0],
        "observedGeneration": 2,
        "readyMachineCount": counts[2],
        "unavailableMachineCount": counts[3],
        "updatedMachineCount": counts[1]
    })
}

fn set_status(pool: &mut Value, changes: &Value, version: &str) -> Call {
    let body = json!({ "metadata": { "resourceVersion": pool["metadata"]["resourceVersion"] }, "status": changes });
    patch(
        &format!("{GROUP}/machineconfigpools/worker/status"),
        pool,
        body,
        version,
    )
}

/// The conditions of a pool that rolls to `target` without trouble.
fn rolling(target: &str, waiting: &Value) -> Vec<Value> {
    vec![
        condition("Updated", false, "", ""),
        condition(
            "Updating",
            true,
            "",
            &format!("All nodes are updating to MachineConfig {target}"),
        ),
        condition("RenderDegraded", false, "", ""),
        condition("NodeDegraded", false, "", ""),
        condition("RolloutDegraded", false, "", ""),
        condition("Degraded", false, "", ""),
        waiting.clone(),
    ]
}

fn nobody_waits() -> Value {
    condition("Waiting", false, "", "")
}

/// A pool that was rendered before, its source, and its target.
fn settled() -> (Cluster, Vec<Value>, String) {
    let sources = vec![source("50-a", &spec_with("a=1"))];
    let (target, _) = rendered(&sources);
    let cluster = Cluster {
        pools: vec![pool(Some(&target))],
        configs: vec![
            metadata(&sources[0]),
            json!({ "metadata": { "name": target, "uid": "r", "resourceVersion": "3", "annotations": {
                "machineconfiguration.openshift.io/generated-by-controller-version": BUILD,
                "machineconfiguration.openshift.io/release-image-version": VERSION
            } } }),
        ],
        ..Cluster::default()
    };
    (cluster, sources, target)
}

#[tokio::test(start_paused = true)]
async fn a_new_pool_is_rendered_then_its_first_node_is_told() {
    let sources = vec![
        source("50-a", &spec_with("a=1")),
        source("60-b", &spec_with("b=1")),
    ];
    let (target, spec) = rendered(&sources);
    let cluster = Cluster {
        pools: vec![pool(None)],
        nodes: vec![node("n1", OLD), node("n2", OLD)],
        configs: sources.iter().map(metadata).collect(),
        ..Cluster::default()
    };
    let mut known = cluster.pools[0].clone();
    let mut nodes = cluster.nodes.clone();
    let mut calls = vec![list_sources(&sources)];
    calls.push(Call::post(
        &format!("{GROUP}/machineconfigs?{MANAGER}"),
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": {
                "name": target,
                "annotations": {
                    "machineconfiguration.openshift.io/generated-by-controller-version": BUILD,
                    "machineconfiguration.openshift.io/release-image-version": VERSION
                },
                "ownerReferences": [{
                    "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
                    "name": "worker", "uid": "uid-worker", "controller": true, "blockOwnerDeletion": true
                }]
            },
            "spec": spec
        }),
        Reply::Object(201, json!({ "metadata": { "name": target, "resourceVersion": "9" } })),
    ));
    let path = format!("{GROUP}/machineconfigpools/worker");
    let configuration = json!({ "name": target, "source": [reference("50-a"), reference("60-b")] });
    let body = json!({ "metadata": { "resourceVersion": "10" }, "spec": { "configuration": configuration } });
    calls.push(patch(&path, &mut known, body, "11"));
    calls.push(read_pool(&known));
    calls.push(list_nodes(&nodes));
    calls.push(patch(
        &path,
        &mut known,
        claim_body("11", &target, &json!({ "n1": "5" })),
        "12",
    ));
    calls.push(patch(
        "/api/v1/nodes/n1",
        &mut nodes[0],
        tell_body("5", &target),
        "6",
    ));
    calls.push(patch(
        "/api/v1/nodes/n2",
        &mut nodes[1],
        taint_body("5"),
        "7",
    ));
    let waiting = condition(
        "Waiting",
        true,
        "Budget",
        "n2: 1 may be out at once, out: n1",
    );
    let changes = status(&rolling(&target, &waiting), [2, 0, 0, 1, 0]);
    calls.push(set_status(&mut known, &changes, "13"));

    let (said, delay) = passes(&cluster, calls, 2).await;
    assert_eq!(
        said,
        [
            (
                "RenderedConfigGenerated".to_owned(),
                format!(
                    "{target} successfully generated (release version: {VERSION}, controller version: {BUILD})"
                )
            ),
            (
                "SetDesiredConfig".to_owned(),
                format!("Targeted node n1 to MachineConfig: {target}")
            ),
        ]
    );
    assert_eq!(delay, RESYNC);
}

#[tokio::test(start_paused = true)]
async fn a_finished_pool_costs_nothing() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", &target)];
    cluster.pools[0]["status"] = json!({ "conditions": rolling(&target, &nobody_waits()) });
    let mut known = cluster.pools[0].clone();
    let mut conditions = rolling(&target, &nobody_waits());
    conditions[0] = condition(
        "Updated",
        true,
        "",
        &format!("All nodes are updated with MachineConfig {target}"),
    );
    conditions[1] = condition("Updating", false, "", "");
    let mut changes = status(&conditions, [1, 1, 1, 0, 0]);
    changes["configuration"] = cluster.pools[0]["spec"]["configuration"].clone();
    changes
        .as_object_mut()
        .unwrap()
        .retain(|_, value| *value != json!(0));
    let calls = vec![
        list_sources(&sources),
        set_status(&mut known, &changes, "11"),
    ];
    let (said, delay) = passes(&cluster, calls, 5).await;
    assert_eq!(
        said,
        [(
            "Completed".to_owned(),
            format!("Pool worker has completed update to MachineConfig {target}")
        )]
    );
    assert_eq!(delay, RESYNC);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_another_replica_won_tells_nobody() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD), node("n2", OLD)];
    let mut known = cluster.pools[0].clone();
    let path = format!("{GROUP}/machineconfigpools/worker");
    let conflict = Reply::failure(409, "Conflict", "the object has been modified");
    let mut calls = vec![
        list_sources(&sources),
        read_pool(&known),
        list_nodes(&cluster.nodes),
        Call::patch(
            &format!("{path}?{MANAGER}"),
            claim_body("10", &target, &json!({ "n1": "5" })),
            conflict,
        ),
    ];
    // The next look finds the other's claim: its node counts as out, whoever writes it.
    known = patched(
        &known,
        &claim_body("10", &target, &json!({ "n2": "5" })),
        "11",
    );
    let mut nodes = cluster.nodes.clone();
    calls.push(read_pool(&known));
    calls.push(list_nodes(&nodes));
    calls.push(patch(
        &path,
        &mut known,
        claim_body("11", &target, &json!({ "n2": "5" })),
        "12",
    ));
    let conflict = Reply::failure(409, "Conflict", "the object has been modified");
    calls.push(Call::patch(
        &format!("/api/v1/nodes/n2?{MANAGER}"),
        tell_body("5", &target),
        conflict,
    ));
    calls.push(patch(
        "/api/v1/nodes/n1",
        &mut nodes[0],
        taint_body("5"),
        "6",
    ));
    calls.push(patch(
        "/api/v1/nodes/n2",
        &mut nodes[1],
        taint_body("5"),
        "8",
    ));
    let waiting = condition(
        "Waiting",
        true,
        "Budget",
        "n2: 1 may be out at once, out: n1",
    );
    let changes = status(&rolling(&target, &waiting), [2, 0, 0, 0, 0]);
    calls.push(set_status(&mut known, &changes, "13"));
    let (said, delay) = passes(&cluster, calls, 2).await;
    assert_eq!(said, []);
    assert!(delay < Duration::from_secs(2), "{delay:?}");
}

#[tokio::test(start_paused = true)]
async fn a_paused_pool_is_rendered_and_tells_nobody() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD)];
    cluster.pools[0]["spec"]["paused"] = json!(true);
    let mut known = cluster.pools[0].clone();
    let mut conditions = rolling(
        &target,
        &condition("Waiting", true, "Paused", "n1: the pool is paused"),
    );
    conditions[1] = condition(
        "Updating",
        false,
        "",
        &format!("Pool is paused; will not update to MachineConfig {target}"),
    );
    let calls = vec![
        list_sources(&sources),
        set_status(&mut known, &status(&conditions, [1, 0, 0, 0, 0]), "11"),
    ];
    passes(&cluster, calls, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_budget_is_said_and_moves_nobody() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD)];
    cluster.pools[0]["spec"]["maxUnavailable"] = json!("abc");
    let mut known = cluster.pools[0].clone();
    let why = "pool worker: spec.maxUnavailable: \"abc\" is neither a number nor a percentage such as \"10%\"";
    let waiting = condition(
        "Waiting",
        true,
        "InvalidMaxUnavailable",
        "n1: spec.maxUnavailable of the pool is invalid",
    );
    let mut conditions = rolling(&target, &waiting);
    conditions[4] = condition("RolloutDegraded", true, "InvalidMaxUnavailable", why);
    conditions[5] = condition("Degraded", true, "", why);
    let calls = vec![
        list_sources(&sources),
        set_status(&mut known, &status(&conditions, [1, 0, 0, 0, 0]), "11"),
    ];
    let (said, _) = passes(&cluster, calls, 2).await;
    assert_eq!(said, [("InvalidMaxUnavailable".to_owned(), why.to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_bad_source_is_named_and_nothing_is_stored() {
    let (mut cluster, _, target) = settled();
    cluster.nodes = vec![node("n1", &target)];
    let bad = source(
        "99-bad",
        &json!({ "config": {
            "ignition": { "version": "3.4.0" },
            "storage": { "files": [{ "path": "etc/relative", "contents": { "source": "data:," } }] }
        } }),
    );
    cluster.configs.push(metadata(&bad));
    let known = cluster.pools[0].clone();
    let (script, client) = Script::start(vec![list_sources(&[
        source("50-a", &spec_with("a=1")),
        bad,
    ])]);
    let store = Store::default();
    cluster.fill(&store);
    let requests = Requests::new(Arc::new(Access::of_client(client)));
    let (snapshot, pool) = (store.snapshot(), Pool::parse(read(&known)));
    let mut last = None;
    let work = Box::pin(async {
        let first = rendering::turn(&requests, &snapshot, pool.clone(), &mut last).await;
        // Nothing changed: it is not read again.
        let again = rendering::turn(&requests, &snapshot, pool, &mut last).await;
        let outcome = first.unwrap().outcome;
        assert_eq!(outcome, again.unwrap().outcome);
        outcome.unwrap().unwrap_err()
    });
    let outcome = script.drive(work).await;
    for part in [
        "Failed to render configuration for pool worker: could not generate rendered MachineConfig: ",
        "\"99-bad\"",
        "storage.files[0]",
    ] {
        assert!(outcome.contains(part), "{part} is not in {outcome}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_in_two_custom_pools_stops_neither() {
    let (mut cluster, _, _) = settled();
    cluster.configs.clear();
    let custom = |name: &str| {
        let mut pool = pool(None);
        pool["metadata"]["name"] = json!(name);
        pool["metadata"]["uid"] = json!(name);
        let role = format!("node-role.kubernetes.io/{name}");
        pool["spec"]["nodeSelector"] = json!({ "matchLabels": { role: "" } });
        pool["spec"]["machineConfigSelector"] = json!({});
        pool
    };
    cluster.pools = vec![custom("gpu"), custom("infra")];
    let mut both = node("n1", OLD);
    both["metadata"]["labels"] =
        json!({ "node-role.kubernetes.io/gpu": "", "node-role.kubernetes.io/infra": "" });
    let mut one = node("n2", OLD);
    one["metadata"]["labels"] = json!({ "node-role.kubernetes.io/gpu": "" });
    cluster.nodes = vec![both, one];
    let why = "node n1 belongs to 2 custom roles, cannot proceed with this Node: pools gpu, infra select it by spec.nodeSelector";
    let report = |name: &str, count: u32| {
        let conditions = [
            condition("Updated", false, "", ""),
            condition(
                "Updating",
                false,
                "",
                "Pool has no rendered MachineConfig yet",
            ),
            condition("NodeDegraded", false, "", ""),
            condition("RolloutDegraded", true, "NodeInTwoPools", why),
            condition("Degraded", true, "", why),
            nobody_waits(),
        ];
        let body = json!({ "metadata": { "resourceVersion": "10" }, "status": status(&conditions, [count, 0, 0, 0, 0]) });
        let path = format!("{GROUP}/machineconfigpools/{name}/status?{MANAGER}");
        let written = patched(&custom(name), &body, "11");
        Call::patch(&path, body, Reply::ok(written))
    };
    let calls = vec![report("gpu", 1), report("infra", 0)];
    let (said, _) = passes(&cluster, calls, 2).await;
    let selecting =
        "This machineconfigpool is selecting all machineconfigs. A non-empty selector is required.";
    let expected = [
        ("SelectingAll", selecting),
        ("NodeInTwoPools", why),
        ("SelectingAll", selecting),
        ("NodeInTwoPools", why),
    ];
    let expected = expected.map(|(reason, message)| (reason.to_owned(), message.to_owned()));
    assert_eq!(said, expected);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_tried_again_and_says_nothing() {
    let (mut cluster, _, _) = settled();
    cluster.nodes = vec![];
    let sources = format!(
        "{GROUP}/machineconfigs?limit=250&labelSelector=machineconfiguration.openshift.io%2Frole%3Dworker"
    );
    let calls = vec![Call::get(&sources, Reply::Broken)];
    let (said, delay) = passes(&cluster, calls, 1).await;
    assert_eq!(said, []);
    assert!(delay < Duration::from_secs(1), "{delay:?}");
}
