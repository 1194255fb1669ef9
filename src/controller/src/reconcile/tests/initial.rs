//! Nodes that were provisioned for a custom pool.

use cluster::cache::TableChange;

use super::*;

/// A pool `edge` that is rendered, its sources, a node whose initial pool it is, and the body that
/// labels that one.
fn initial() -> (Cluster, Vec<Value>, Value, Value) {
    let sources = vec![source("50-a", &spec_with("a=1"))];
    let (target, _) = rendered_for("edge", &sources);
    let mut edge = pool(Some(&target));
    edge["metadata"]["name"] = json!("edge");
    edge["metadata"]["uid"] = json!("uid-edge");
    edge["spec"]["nodeSelector"] = json!({ "matchLabels": { "node-role.kubernetes.io/edge": "" } });
    let mut config = json!({ "metadata": { "name": target, "uid": "r", "resourceVersion": "3", "annotations": {
        "machineconfiguration.openshift.io/generated-by-controller-version": BUILD,
        "machineconfiguration.openshift.io/release-image-version": VERSION,
        "slipway.dev/without-controller-config": "true"
    } } });
    config["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "name": "edge", "uid": "uid-edge", "controller": true
    }]);
    let mut initial = node("n1", &target);
    initial["metadata"]["annotations"]["machineconfiguration.openshift.io/firstPivotConfig"] =
        json!(target);
    let body = json!({ "metadata": {
        "resourceVersion": "5",
        "labels": { "node-role.kubernetes.io/edge": "" },
        "annotations": { "machineconfiguration.openshift.io/customPoolLabelsApplied": "" }
    } });
    let cluster = Cluster {
        pools: vec![edge],
        nodes: vec![initial.clone()],
        configs: vec![metadata(&sources[0]), config],
        ..Cluster::default()
    };
    (cluster, sources, initial, body)
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_initial_pool_a_custom_pool_gets_its_labels_first() {
    let (cluster, _, mut initial, body) = initial();
    let calls = vec![patch("/api/v1/nodes/n1", &mut initial, body, "6")];
    let store = Store::default();
    cluster.fill(&store);
    // The pool wakes for the node: it has its labels by then.
    let woken = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&woken);
    store
        .nodes
        .listen(move |change| listener.lock().unwrap().push(change.clone()));
    let (script, client) = Script::start(calls);
    let access = Arc::new(Access::of_client(client));
    let (recorder, _sending) = Recorder::new(Arc::clone(&access), speaker());
    let metrics = Arc::new(ControllerMetrics::default());
    let controller = Controller::new(Requests::new(access), store, recorder, metrics, clock);
    let next = Box::pin(script.drive(controller.reconcile(&Work::NewNodes))).await;
    assert_eq!(next.unwrap(), Next::Settled);
    let woken = woken.lock().unwrap();
    let [TableChange::One(Some(_), Some(after))] = woken.as_slice() else {
        panic!("{woken:?}");
    };
    assert!(after.labels.contains_key("node-role.kubernetes.io/edge"));
}

/// It is in the pool `worker` by its labels, and was made with the configuration of another.
#[tokio::test(start_paused = true)]
async fn a_node_without_its_initial_labels_is_assigned_nothing() {
    let (mut cluster, sources, initial, body) = initial();
    let (target, _) = rendered(&sources);
    cluster.pools.push(pool(Some(&target)));
    let mut config = cluster.configs[1].clone();
    config["metadata"]["name"] = json!(target);
    config["metadata"]["ownerReferences"][0]["uid"] = json!("uid-worker");
    cluster.configs.push(config);
    let refusal = Reply::failure(403, "Forbidden", "nodes is forbidden");
    let label = Call::patch(&format!("/api/v1/nodes/n1?{MANAGER}"), body, refusal);
    assert!(initial["metadata"]["labels"]["node-role.kubernetes.io/worker"].is_string());

    let mut calls = vec![label];
    for mut pool in cluster.pools.clone() {
        let config = pool["spec"]["configuration"].clone();
        let target = config["name"].as_str().unwrap().to_owned();
        let mut conditions = rolling(&target, &none_waits());
        let updated = format!("All nodes are updated with MachineConfig {target}");
        conditions[0] = condition("Updated", true, "", &updated);
        conditions[1] = condition("Updating", false, "", "");
        let mut changes = status(&conditions, [0; 5]);
        changes["configuration"] = config;
        calls.push(list_sources(&sources));
        calls.push(set_status(&mut pool, &changes, "11"));
    }
    let (_, results) = reconciled(&cluster, calls, 1).await;
    assert_eq!(results[0].1, Some(Next::Retry));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_labelled_is_tried_again_and_keeps_no_pool_waiting() {
    let (cluster, sources, _, body) = initial();
    let mut edge = cluster.pools[0].clone();
    let target = edge["spec"]["configuration"]["name"].clone();
    let target = target.as_str().unwrap();
    let mut conditions = rolling(target, &none_waits());
    let updated = format!("All nodes are updated with MachineConfig {target}");
    conditions[0] = condition("Updated", true, "", &updated);
    conditions[1] = condition("Updating", false, "", "");
    let mut changes = status(&conditions, [0; 5]);
    changes["configuration"] = edge["spec"]["configuration"].clone();
    let refused = || {
        let refusal = Reply::failure(403, "Forbidden", "nodes is forbidden");
        Call::patch(
            &format!("/api/v1/nodes/n1?{MANAGER}"),
            body.clone(),
            refusal,
        )
    };
    let calls = vec![
        refused(),
        list_sources(&sources),
        set_status(&mut edge, &changes, "11"),
        refused(),
    ];
    let (events, results) = reconciled(&cluster, calls, 2).await;
    assert_eq!(events, []);
    let next = results.into_iter().map(|(_, next)| next);
    assert_eq!(
        next.collect::<Vec<_>>(),
        [Some(Next::Retry), Some(Next::Settled)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_is_left_alone_while_its_pool_tells_no_labels_and_a_lost_pool_is_named_once() {
    let (mut cluster, _, initial, _) = initial();
    let expressions = json!([{ "key": "zone", "operator": "In", "values": ["a", "b"] }]);
    cluster.pools[0]["spec"]["nodeSelector"] = json!({ "matchExpressions": expressions });
    let mut lost = node("n2", OLD);
    lost["metadata"]["annotations"]["machineconfiguration.openshift.io/firstPivotConfig"] =
        json!("rendered-far-edge-0123456789abcdef0123456789abcdef");
    cluster.nodes = vec![initial, lost];
    let store = Store::default();
    cluster.fill(&store);
    let sent = SentEvents::default();
    let (script, client) = Script::start(vec![]);
    let listening = Arc::new(Access::of_client(listener(&sent)));
    let (recorder, sending) = Recorder::new(listening, speaker());
    tokio::spawn(sending);
    let metrics = Arc::new(ControllerMetrics::default());
    let requests = Requests::new(Arc::new(Access::of_client(client)));
    let controller = Controller::new(requests, store.clone(), recorder.clone(), metrics, clock);
    let work = async {
        for _ in 0..2 {
            let next = controller.reconcile(&Work::NewNodes).await.unwrap();
            assert_eq!(next, Next::Settled);
        }
        recorder.flush().await;
    };
    Box::pin(script.drive(work)).await;
    let events = events_of(sent.lock().unwrap().clone());
    let parts = [
        "spec.nodeSelector of MachineConfigPool edge does not tell which labels",
        "MachineConfigPool far-edge is gone",
    ];
    assert_eq!(events.len(), parts.len(), "{events:?}");
    for ((reason, message), part) in events.iter().zip(parts) {
        assert_eq!(reason, "InitialLabelsMissing");
        assert!(message.contains(part), "{message}");
    }
    let snapshot = store.snapshot();
    let pools = snapshot.pools.values().map(|pool| pool.view.clone());
    let pools: Vec<_> = pools.collect();
    let sorted = snapshot.sort(snapshot.nodes.values().map(Arc::as_ref), &pools);
    assert!(pools.iter().all(|pool| {
        let members = sorted.of(&pool.name);
        members.iter().all(|node| node.name != "n1")
    }));
}
