//! Scenarios: cached objects; the calls that a reconcile makes, in order, and no others.

mod calls;
mod faults;
mod generated;
mod image_mode;
mod initial;
mod pausing;
mod pins;
mod policy;
mod responses;
mod room;
mod settings;
mod stopping;
mod stored;

use std::cell::Cell;
use std::sync::Mutex;

use apimock::{Call, Reply, Script};
use chassis::program::{BUILD, VERSION};
use cluster::access::Access;
use cluster::events::Speaker;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use kube::client::Body;
use serde_json::{Value, json};

use self::calls::{
    GROUP, MANAGER, NOW, assign_body, claim_body, condition, is_paused, list_sources, none_waits,
    patch, patched, rolling, set_status, status, taint_body,
};
use super::*;
use crate::fixture::{
    Cluster, OLD, metadata, node, owner, pool, read, reference, rendered, rendered_for, settled,
    source, spec_with,
};

thread_local! {
    /// How many minutes have passed since [`NOW`]: a test has a thread of its own.
    static MINUTES: Cell<i64> = const { Cell::new(0) };
}

fn clock() -> Timestamp {
    let now: Timestamp = NOW.parse().unwrap();
    now + SignedDuration::from_mins(MINUTES.get())
}

/// The requests that sent events: verb and path, and the body.
type SentEvents = Arc<Mutex<Vec<(String, Value)>>>;

/// An API server that takes events and keeps them.
fn listener(sent: &SentEvents) -> kube::Client {
    let sent = Arc::clone(sent);
    let service = tower::service_fn(move |request: Request<Body>| {
        let sent = Arc::clone(&sent);
        async move {
            let what = format!("{} {}", request.method(), request.uri());
            let event: Value = serde_json::from_slice(&request.into_body().collect_bytes().await?)?;
            sent.lock().unwrap().push((what, event));
            Ok::<_, tower::BoxError>(Response::new(Full::new(Bytes::from("{}"))))
        }
    });
    kube::Client::new(service, "default")
}

fn speaker() -> Speaker {
    Speaker {
        component: "machineconfigcontroller".to_owned(),
        host: String::new(),
        namespace: "mco".to_owned(),
    }
}

/// Work, and when it is next; `None` where it failed.
type Results = Vec<(String, Option<Next>)>;

fn settled_work() -> Results {
    ["new nodes", "pool worker"]
        .map(|work| (work.to_owned(), Some(Next::Settled)))
        .into()
}

/// Reconciles all work of the cluster, `times` over. Returns the events, as reason and message, and
/// the results of the last time.
async fn reconciled(
    cluster: &Cluster,
    calls: Vec<Call>,
    times: usize,
) -> (Vec<(String, String)>, Results) {
    let store = Store::default();
    cluster.fill(&store);
    let (sent, results) = reconciled_in(&store, calls, times).await;
    (events_of(sent), results)
}

/// Reason and message of each event.
fn events_of(sent: Vec<(String, Value)>) -> Vec<(String, String)> {
    let events = sent.into_iter().map(|(what, event)| {
        assert_eq!(what, "POST /api/v1/namespaces/mco/events");
        let text = |key: &str| event[key].as_str().unwrap().to_owned();
        (text("reason"), text("message"))
    });
    events.collect()
}

/// The same over a store that the calls can reach. Returns the requests that sent events.
async fn reconciled_in(
    store: &Store,
    calls: Vec<Call>,
    times: usize,
) -> (Vec<(String, Value)>, Results) {
    reconciled_at(store, calls, &vec![0; times]).await
}

/// The same once at each of these minutes.
async fn reconciled_at(
    store: &Store,
    calls: Vec<Call>,
    minutes: &[i64],
) -> (Vec<(String, Value)>, Results) {
    let (script, client) = Script::start(calls);
    let sent = SentEvents::default();
    let access = Arc::new(Access::of_client(listener(&sent)));
    // The cluster's own work is done where a test is about it.
    let duties = if store.settings.table().values().next().is_none() {
        Duties::Pools
    } else {
        Duties::All
    };
    let (recorder, sending) = Recorder::new(access, speaker());
    tokio::spawn(sending);
    let controller = Controller::new(
        Requests::new(Arc::new(Access::of_client(client))),
        store.clone(),
        recorder.clone(),
        Arc::new(ControllerMetrics::default()),
        clock,
    )
    .with_duties(duties);
    let work = Box::pin(async {
        let mut results = Results::new();
        for minutes in minutes {
            results.clear();
            MINUTES.set(*minutes);
            // These have tests of their own.
            let is_other =
                |work: &Work| !matches!(work, Work::NodeObjects | Work::Unused | Work::Build(_));
            for work in controller.keys().into_iter().filter(is_other) {
                let next = controller.reconcile(&work).await.ok();
                results.push((work.to_string(), next));
            }
        }
        recorder.flush().await;
        results
    });
    let results = script.drive(work).await;
    let sent = sent.lock().unwrap().clone();
    (sent, results)
}

/// Reconciles one piece of work.
async fn reconciled_one(store: &Store, calls: Vec<Call>, work: &Work) {
    let (script, client) = Script::start(calls);
    let access = Arc::new(Access::of_client(client));
    let (recorder, _sending) = Recorder::new(Arc::clone(&access), speaker());
    let metrics = Arc::new(ControllerMetrics::default());
    let controller = Controller::new(
        Requests::new(access),
        store.clone(),
        recorder,
        metrics,
        clock,
    );
    let next = Box::pin(script.drive(controller.reconcile(work))).await;
    assert_eq!(next.unwrap(), Next::Settled);
}

/// A round that assigns all nodes, so many of them: the store, the calls up to the claim, the pool
/// and the nodes after it.
fn round_of(count: usize) -> (Store, Vec<Call>, Value, Vec<Value>, String) {
    let (mut cluster, sources, target) = settled();
    let names: Vec<String> = (1..=count).map(|number| format!("n{number:02}")).collect();
    cluster.nodes = names.iter().map(|name| node(name, OLD)).collect();
    cluster.pools[0]["spec"]["maxUnavailable"] = json!("100%");
    let store = Store::default();
    cluster.fill(&store);
    let mut pool = cluster.pools[0].clone();
    let all: serde_json::Map<_, _> = names.into_iter().map(|name| (name, json!("5"))).collect();
    let path = format!("{GROUP}/machineconfigpools/worker");
    let claim = claim_body("10", &target, &Value::Object(all));
    let calls = vec![list_sources(&sources), patch(&path, &mut pool, claim, "11")];
    (store, calls, pool, cluster.nodes, target)
}

/// The assignments of these nodes, each written.
fn assignments(nodes: &mut [Value], target: &str) -> Vec<Call> {
    let assign = |node: &mut Value| {
        let path = format!(
            "/api/v1/nodes/{}",
            node["metadata"]["name"].as_str().unwrap()
        );
        patch(&path, node, assign_body("5", target), "6")
    };
    nodes.iter_mut().map(assign).collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_pool_is_rendered_then_its_first_node_is_assigned() {
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
    let mut pool = cluster.pools[0].clone();
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
                    "machineconfiguration.openshift.io/release-image-version": VERSION,
                    "slipway.dev/without-controller-config": "true"
                },
                "ownerReferences": [{
                    "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
                    "name": "worker", "uid": "uid-worker", "controller": true, "blockOwnerDeletion": true
                }]
            },
            "spec": spec
        }),
        Reply::Object(
            201,
            json!({ "metadata": {
                "name": target, "resourceVersion": "9", "ownerReferences": [owner("worker")]
            } }),
        ),
    ));
    let path = format!("{GROUP}/machineconfigpools/worker");
    let configuration = json!({ "name": target, "source": [reference("50-a"), reference("60-b")] });
    let body = json!({ "metadata": { "resourceVersion": "10" }, "spec": { "configuration": configuration } });
    calls.push(patch(&path, &mut pool, body, "11"));
    calls.push(patch(
        &path,
        &mut pool,
        claim_body("11", &target, &json!({ "n1": "5" })),
        "12",
    ));
    calls.push(patch(
        "/api/v1/nodes/n1",
        &mut nodes[0],
        assign_body("5", &target),
        "6",
    ));
    calls.push(patch(
        "/api/v1/nodes/n2",
        &mut nodes[1],
        taint_body("5", &target),
        "7",
    ));
    let waiting = condition(
        "Waiting",
        true,
        "Budget",
        "n2: 1 may be out at once, out: n1",
    );
    let changes = status(&rolling(&target, &waiting), [2, 0, 0, 1, 0]);
    calls.push(set_status(&mut pool, &changes, "13"));

    let (events, results) = reconciled(&cluster, calls, 2).await;
    assert_eq!(
        events,
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
    assert_eq!(results, settled_work());
}

#[tokio::test(start_paused = true)]
async fn a_finished_pool_costs_nothing() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", &target)];
    cluster.pools[0]["status"] = json!({ "conditions": rolling(&target, &none_waits()) });
    let mut pool = cluster.pools[0].clone();
    let mut conditions = rolling(&target, &none_waits());
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
        set_status(&mut pool, &changes, "11"),
    ];
    let (events, results) = reconciled(&cluster, calls, 5).await;
    assert_eq!(
        events,
        [(
            "Completed".to_owned(),
            format!("Pool worker has completed update to MachineConfig {target}")
        )]
    );
    assert_eq!(results, settled_work());
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_another_replica_won_assigns_no_node() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD), node("n2", OLD)];
    let store = Store::default();
    cluster.fill(&store);
    let path = format!("{GROUP}/machineconfigpools/worker");
    // Its watch delivers the other's claim afterwards: that node counts as out of service.
    let theirs = claim_body("10", &target, &json!({ "n2": "5" }));
    let mut pool = patched(&cluster.pools[0], &theirs, "11");
    let (watch, event) = (store.clone(), Pool::parse(read(&pool)));
    let conflict = || Reply::failure(409, "Conflict", "the object has been modified");
    let claim = Call::patch(
        &format!("{path}?{MANAGER}"),
        claim_body("10", &target, &json!({ "n1": "5" })),
        conflict(),
    );
    let claim = claim.meanwhile(move || watch.pools.apply(WatchEvent::Applied(event.clone())));
    let mut calls = vec![list_sources(&sources), claim];
    let mut nodes = cluster.nodes.clone();
    calls.push(patch(
        &path,
        &mut pool,
        claim_body("11", &target, &json!({ "n2": "5" })),
        "12",
    ));
    calls.push(Call::patch(
        &format!("/api/v1/nodes/n2?{MANAGER}"),
        assign_body("5", &target),
        conflict(),
    ));
    calls.push(patch(
        "/api/v1/nodes/n1",
        &mut nodes[0],
        taint_body("5", &target),
        "6",
    ));
    calls.push(patch(
        "/api/v1/nodes/n2",
        &mut nodes[1],
        taint_body("5", &target),
        "8",
    ));
    // The claimed node stays out of service until the next claim, whatever its version.
    let waiting = condition(
        "Waiting",
        true,
        "Budget",
        "n1: 1 may be out at once, out: n2",
    );
    let changes = status(&rolling(&target, &waiting), [2, 0, 0, 0, 0]);
    calls.push(set_status(&mut pool, &changes, "13"));
    let (events, results) = reconciled_in(&store, calls, 2).await;
    assert_eq!(events, []);
    assert_eq!(results[1].1, Some(Next::Retry));
}

/// Another controller claimed and assigned it. A watch that has not delivered it must not let a
/// second one go.
#[tokio::test(start_paused = true)]
async fn a_claimed_node_that_the_watch_has_not_delivered_holds_the_round() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD)];
    let claim = claim_body("9", &target, &json!({ "n0": "4" }));
    cluster.pools[0] = patched(&cluster.pools[0], &claim, "10");
    let calls = vec![
        list_sources(&sources),
        Call::get("/api/v1/nodes/n0", Reply::ok(node("n0", OLD))),
    ];
    let (_, results) = reconciled(&cluster, calls, 1).await;
    assert_eq!(results[1].1, Some(Next::Retry));
}

/// Two masters and their arbiter are three voters: the claims of all lie on the pool `master`.
#[tokio::test(start_paused = true)]
async fn an_arbiter_is_claimed_on_the_pool_of_the_masters() {
    let (mut cluster, sources, _) = settled();
    let control_plane = |name: &str| {
        let (target, _) = rendered_for(name, &sources);
        let mut pool = pool(Some(&target));
        pool["metadata"]["name"] = json!(name);
        pool["metadata"]["uid"] = json!(format!("uid-{name}"));
        let role = format!("node-role.kubernetes.io/{name}");
        pool["spec"]["nodeSelector"] = json!({ "matchLabels": { role: "" } });
        let mut config = cluster.configs[1].clone();
        config["metadata"]["name"] = json!(target);
        config["metadata"]["ownerReferences"] = json!([owner(name)]);
        (pool, config, target)
    };
    let (master, masters_config, _) = control_plane("master");
    let (arbiter, config, target) = control_plane("arbiter");
    let voter = |name: &str, role: &str| {
        let mut node = node(name, OLD);
        node["metadata"]["labels"] = json!({ format!("node-role.kubernetes.io/{role}"): "" });
        node
    };
    cluster.configs.extend([masters_config, config]);
    cluster.nodes = vec![
        voter("a0", "arbiter"),
        voter("m0", "master"),
        voter("m1", "master"),
    ];
    cluster.pools = vec![arbiter.clone(), master.clone()];
    let (mut holder, mut pool) = (master, arbiter);
    let mut nodes = cluster.nodes.clone();
    let claim = claim_body("10", &target, &json!({ "a0": "5" }));
    let path = format!("{GROUP}/machineconfigpools/master");
    let changes = status(&rolling(&target, &none_waits()), [1, 0, 0, 1, 0]);
    let calls = vec![
        list_sources(&sources),
        patch(&path, &mut holder, claim, "11"),
        patch(
            "/api/v1/nodes/a0",
            &mut nodes[0],
            assign_body("5", &target),
            "6",
        ),
        set_status(&mut pool, &changes, "12"),
    ];
    let store = Store::default();
    cluster.fill(&store);
    reconciled_one(&store, calls, &Work::Pool("arbiter".to_owned())).await;
    let master = store.pools.get("master").unwrap();
    assert_eq!(master.view.claim.nodes["a0"], "5");
}

/// A claim names a newer version of a node than the watch has delivered.
#[tokio::test(start_paused = true)]
async fn a_node_that_the_watch_delivers_late_counts_as_out() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD), node("n2", OLD)];
    let claim = claim_body("9", &target, &json!({ "n2": "7" }));
    cluster.pools[0] = patched(&cluster.pools[0], &claim, "10");
    let (mut pool, mut nodes) = (cluster.pools[0].clone(), cluster.nodes.clone());
    let why = "n1: 1 may be out at once, out: n2";
    let waiting = condition("Waiting", true, "Budget", why);
    let changes = status(&rolling(&target, &waiting), [2, 0, 0, 0, 0]);
    let calls = vec![
        list_sources(&sources),
        patch(
            "/api/v1/nodes/n1",
            &mut nodes[0],
            taint_body("5", &target),
            "6",
        ),
        patch(
            "/api/v1/nodes/n2",
            &mut nodes[1],
            taint_body("5", &target),
            "6",
        ),
        set_status(&mut pool, &changes, "11"),
    ];
    let (_, results) = reconciled(&cluster, calls, 1).await;
    assert_eq!(results[1].1, Some(Next::Retry));
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_controller_config_is_gone_is_degraded_and_not_rolled() {
    let (mut cluster, _, target) = settled();
    cluster.nodes = vec![node("n1", &target)];
    let added = source("60-b", &spec_with("b=1"));
    cluster.configs.push(metadata(&added));
    let mark =
        json!({ "metadata": { "annotations": { "slipway.dev/without-controller-config": null } } });
    cluster.configs[1] = patched(&cluster.configs[1], &mark, "4");
    let why = format!(
        "Failed to render configuration for pool worker: ControllerConfig machine-config-controller is missing: {target}, which the pool names, was made from it. Create it again, or remove spec.configuration of the pool to render without it"
    );
    let updated = format!("All nodes are updated with MachineConfig {target}");
    let mut conditions = rolling(&target, &none_waits());
    conditions[0] = condition("Updated", true, "", &updated);
    conditions[1] = condition("Updating", false, "", "");
    conditions[2] = condition("RenderDegraded", true, "", &why);
    conditions[5] = condition("Degraded", true, "", &why);
    let mut changes = status(&conditions, [1, 1, 1, 0, 0]);
    changes["configuration"] = cluster.pools[0]["spec"]["configuration"].clone();
    let mut pool = cluster.pools[0].clone();
    let calls = vec![set_status(&mut pool, &changes, "11")];
    let (events, _) = reconciled(&cluster, calls, 3).await;
    assert_eq!(events, [("RenderDegraded".to_owned(), why)]);
}

#[tokio::test(start_paused = true)]
async fn a_bad_budget_is_reported_and_assigns_no_node() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD)];
    cluster.pools[0]["spec"]["maxUnavailable"] = json!("abc");
    let mut pool = cluster.pools[0].clone();
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
        set_status(&mut pool, &status(&conditions, [1, 0, 0, 0, 0]), "11"),
    ];
    let (events, _) = reconciled(&cluster, calls, 2).await;
    assert_eq!(
        events,
        [("InvalidMaxUnavailable".to_owned(), why.to_owned())]
    );
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
            none_waits(),
            condition("PinnedImageSetsDegraded", false, "", ""),
        ];
        let body = json!({ "metadata": { "resourceVersion": "10" }, "status": status(&conditions, [count, 0, 0, 0, 0]) });
        let path = format!("{GROUP}/machineconfigpools/{name}/status?{MANAGER}");
        let written = patched(&custom(name), &body, "11");
        Call::patch(&path, body, Reply::ok(written))
    };
    let calls = vec![report("gpu", 1), report("infra", 0)];
    let (events, _) = reconciled(&cluster, calls, 2).await;
    let selecting =
        "This machineconfigpool is selecting all machineconfigs. A non-empty selector is required.";
    let expected = [
        ("SelectingAll", selecting),
        ("NodeInTwoPools", why),
        ("SelectingAll", selecting),
        ("NodeInTwoPools", why),
    ];
    let expected = expected.map(|(reason, message)| (reason.to_owned(), message.to_owned()));
    assert_eq!(events, expected);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_tried_again_and_says_nothing() {
    let (mut cluster, _, _) = settled();
    cluster.nodes = vec![];
    let sources = format!(
        "{GROUP}/machineconfigs?limit=250&labelSelector=machineconfiguration.openshift.io%2Frole%3Dworker"
    );
    let calls = vec![Call::get(&sources, Reply::Broken)];
    let (events, results) = reconciled(&cluster, calls, 1).await;
    assert_eq!(events, []);
    assert_eq!(results[1].1, None);
}
