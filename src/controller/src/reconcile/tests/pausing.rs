//! Pools that are paused, before a round and in the middle of one.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_paused_pool_is_rendered_and_assigns_no_node() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD)];
    cluster.pools[0]["spec"]["paused"] = json!(true);
    let mut pool = cluster.pools[0].clone();
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
    conditions.push(is_paused());
    let calls = vec![
        list_sources(&sources),
        set_status(&mut pool, &status(&conditions, [1, 0, 0, 0, 0]), "11"),
    ];
    reconciled(&cluster, calls, 2).await;
}

/// `pool` as an administrator pauses it.
fn paused(pool: &Value, version: &str) -> Value {
    patched(pool, &json!({ "spec": { "paused": true } }), version)
}

/// The status of a pool that is paused while `out` of its nodes are on their way.
fn paused_status(target: &str, waiting: &str, counts: [u32; 5]) -> Value {
    let waiting = condition("Waiting", true, "Paused", waiting);
    let mut conditions = rolling(target, &waiting);
    let why = format!("Pool is paused; will not update to MachineConfig {target}");
    conditions[1] = condition("Updating", false, "", &why);
    conditions.push(is_paused());
    status(&conditions, counts)
}

#[tokio::test(start_paused = true)]
async fn a_pause_stops_a_round_between_two_nodes() {
    let (store, mut calls, mut pool, mut nodes, target) = round_of(WRITES + 2);
    // The watch delivers the pause while the first writes are under way.
    let mut under_way = assignments(&mut nodes[..WRITES], &target);
    let first = under_way.remove(0);
    pool = paused(&pool, "12");
    let (watch, event) = (store.clone(), Pool::parse(read(&pool)));
    calls.push(first.meanwhile(move || watch.pools.apply(WatchEvent::Applied(event.clone()))));
    calls.extend(under_way);
    let waiting = "n17, n18: the pool is paused";
    let changes = paused_status(&target, waiting, [18, 0, 0, 16, 0]);
    calls.push(set_status(&mut pool, &changes, "13"));
    let (events, _) = reconciled_in(&store, calls, 2).await;

    let message = format!("Set target for 16 nodes to MachineConfig: {target}");
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": "worker.18ea257cf066b800", "namespace": "mco" },
        "involvedObject": {
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "name": "worker", "namespace": "mco", "uid": "uid-worker"
        },
        "type": "Normal", "reason": "SetDesiredConfig", "message": message,
        "source": { "component": "machineconfigcontroller", "host": "" },
        "reportingComponent": "machineconfigcontroller",
        "firstTimestamp": NOW, "lastTimestamp": NOW, "count": 1
    });
    assert_eq!(
        events,
        [("POST /api/v1/namespaces/mco/events".to_owned(), event)]
    );
}

/// An assignment that was claimed and not written when the pool was paused comes first when it
/// resumes.
#[tokio::test(start_paused = true)]
async fn a_pool_that_goes_on_assigns_those_first_that_were_claimed_before_the_pause() {
    let (mut cluster, sources, target) = settled();
    // n0 is the older: without the claim it would have its rendered first.
    cluster.nodes = vec![node("n0", OLD), node("n1", OLD)];
    let claim = claim_body("9", &target, &json!({ "n1": "5" }));
    cluster.pools[0] = patched(&cluster.pools[0], &claim, "10");
    let mut pool = cluster.pools[0].clone();
    let mut nodes = cluster.nodes.clone();
    let path = format!("{GROUP}/machineconfigpools/worker");
    let again = claim_body("10", &target, &json!({ "n1": "5" }));
    let waiting = "n0: 1 may be out at once, out: n1";
    let waiting = condition("Waiting", true, "Budget", waiting);
    let changes = status(&rolling(&target, &waiting), [2, 0, 0, 1, 0]);
    let calls = vec![
        list_sources(&sources),
        patch(&path, &mut pool, again, "11"),
        patch(
            "/api/v1/nodes/n1",
            &mut nodes[1],
            assign_body("5", &target),
            "6",
        ),
        patch(
            "/api/v1/nodes/n0",
            &mut nodes[0],
            taint_body("5", &target),
            "7",
        ),
        set_status(&mut pool, &changes, "12"),
    ];
    reconciled(&cluster, calls, 2).await;
}

/// Each configuration is read once, however often the pool is reconciled.
#[tokio::test(start_paused = true)]
async fn authorities_that_a_paused_pool_misses_are_read_once_and_counted() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD), node("n2", OLD)];
    cluster.configs.push(json!({
        "metadata": { "name": OLD, "uid": "uid-old", "resourceVersion": "1", "generation": 1 }
    }));
    cluster.pools[0]["spec"]["paused"] = json!(true);
    let mut pool = cluster.pools[0].clone();
    let config = |name: &str, text: &str| {
        let file = json!({ "path": "/etc/kubernetes/ca.crt", "contents": { "source": text } });
        let config = json!({ "spec": { "config": { "storage": { "files": [file] } } } });
        let path = format!("{GROUP}/machineconfigs/{name}");
        Call::get(&path, Reply::ok(config))
    };
    let waiting = "n1, n2: the pool is paused";
    let changes = paused_status(&target, waiting, [2, 0, 0, 0, 0]);
    let gone = Reply::failure(404, "NotFound", "it is gone");
    let old = format!("{GROUP}/machineconfigs/{OLD}");
    // One that cannot be read is read again.
    let calls = vec![
        list_sources(&sources),
        Call::get(&old, gone),
        set_status(&mut pool, &changes, "11"),
        config(OLD, "data:,1"),
        config(&target, "data:,2"),
    ];
    let store = Store::default();
    cluster.fill(&store);
    let (script, client) = Script::start(calls);
    let access = Arc::new(Access::of_client(client));
    let (recorder, _sending) = Recorder::new(Arc::clone(&access), speaker());
    let metrics = Arc::new(ControllerMetrics::default());
    let registry = metrics.registry();
    let controller = Controller::new(Requests::new(access), store, recorder, metrics, clock);
    let work = Work::Pool("worker".to_owned());
    let work = Box::pin(async {
        let mut counted = Vec::new();
        for _ in 0..3 {
            controller.reconcile(&work).await.unwrap();
            let text = registry.text().unwrap();
            let lines = text.lines();
            let mut lines = lines.filter(|line| line.starts_with("mcc_pool_missed_authorities{"));
            counted.push(lines.next().map(str::to_owned));
        }
        counted
    });
    let one = Some("mcc_pool_missed_authorities{pool=\"worker\"} 1".to_owned());
    assert_eq!(script.drive(work).await, [None, one.clone(), one]);
}
