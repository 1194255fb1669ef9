//! Pools with a rollout policy.

use std::time::Duration;

use super::calls::list;
use super::*;

/// A policy of the pool `worker`.
fn policy(spec: &Value) -> Value {
    json!({ "metadata": { "name": "worker", "resourceVersion": "1" }, "spec": spec })
}

#[tokio::test(start_paused = true)]
async fn a_policy_holds_its_pool_until_its_time_comes() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD)];
    cluster.policies = vec![policy(&json!({ "startAfter": "2026-11-21T20:17:00Z" }))];
    let mut pool = cluster.pools[0].clone();
    let mut nodes = cluster.nodes.clone();
    let waiting = condition(
        "Waiting",
        true,
        "RolloutPolicy",
        "n1: the rollout policy starts at 2026-11-21T20:17:00Z",
    );
    let calls = vec![
        list_sources(&sources),
        patch(
            "/api/v1/nodes/n1",
            &mut nodes[0],
            taint_body("5", &target),
            "6",
        ),
        set_status(
            &mut pool,
            &status(&rolling(&target, &waiting), [1, 0, 0, 0, 0]),
            "11",
        ),
    ];
    let (_, results) = reconciled(&cluster, calls, 2).await;
    let hour = Next::After(Duration::from_hours(1));
    let expected = [
        ("new nodes".to_owned(), Some(Next::Settled)),
        ("pool worker".to_owned(), Some(hour)),
    ];
    assert_eq!(results, expected);
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_cannot_be_followed_stops_its_pool_and_is_named() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD)];
    cluster.policies = vec![policy(&json!({ "canaries": { "soak": "long" } }))];
    let mut pool = cluster.pools[0].clone();
    let why =
        "RolloutPolicy worker: spec.canaries.soak: \"long\" is no duration such as 30m or 1h30m";
    let reason = "InvalidRolloutPolicy";
    let mut conditions = rolling(
        &target,
        &condition("Waiting", true, reason, &format!("n1: {why}")),
    );
    let stopped = format!("Pool update stopped: {why}");
    conditions[1] = condition("Updating", false, "", &stopped);
    conditions[4] = condition("RolloutDegraded", true, reason, why);
    conditions[5] = condition("Degraded", true, "", why);
    let calls = vec![
        list_sources(&sources),
        set_status(&mut pool, &status(&conditions, [1, 0, 0, 0, 0]), "11"),
    ];
    let (events, results) = reconciled(&cluster, calls, 2).await;
    assert_eq!(events, [(reason.to_owned(), why.to_owned())]);
    assert_eq!(results, settled_work());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_drained_is_claimed_and_assigned_what_it_runs() {
    let (mut cluster, sources, target) = settled();
    let mut n1 = node("n1", OLD);
    let annotations = &mut n1["metadata"]["annotations"];
    annotations["machineconfiguration.openshift.io/desiredConfig"] = json!(target);
    annotations["machineconfiguration.openshift.io/state"] = json!("Working");
    annotations["machineconfiguration.openshift.io/desiredDrain"] =
        json!(format!("drain-{target}"));
    annotations["slipway.dev/cordoned-by"] = json!("1");
    // The node's clock is wrong: the drain began when it was first seen.
    annotations["slipway.dev/drain-since"] = json!("2026-11-20T18:47:00Z");
    n1["spec"]["unschedulable"] = json!(true);
    cluster.nodes = vec![n1];
    cluster.policies = vec![policy(&json!({ "quarantine": { "drainLimit": "30m" } }))];
    let mut pool = cluster.pools[0].clone();
    let mut nodes = cluster.nodes.clone();
    let why = format!(
        "could not be drained for MachineConfig {target} in time; it stays cordoned and is passed \
         over until it is uncordoned"
    );
    let mut waiting = condition("Waiting", true, "NodesQuarantined", &format!("n1: {why}"));
    waiting["lastTransitionTime"] = json!("2026-11-21T19:47:00Z");
    let pool_path = format!("{GROUP}/machineconfigpools/worker");
    let give_up = json!({ "metadata": { "resourceVersion": "5", "annotations": {
        "machineconfiguration.openshift.io/desiredConfig": OLD,
        "slipway.dev/cordoned-by": null,
        "slipway.dev/quarantined": target
    } } });
    let claim = claim_body("11", &target, &json!({ "n1": "5" }));
    let calls = vec![
        list_sources(&sources),
        set_status(
            &mut pool,
            &status(&rolling(&target, &none_waits()), [1, 0, 0, 1, 0]),
            "11",
        ),
        // Half an hour later.
        patch(&pool_path, &mut pool, claim, "12"),
        patch("/api/v1/nodes/n1", &mut nodes[0], give_up, "6"),
        patch(
            "/api/v1/nodes/n1",
            &mut nodes[0],
            taint_body("6", &target),
            "7",
        ),
        set_status(
            &mut pool,
            &json!({ "conditions": rolling(&target, &waiting) }),
            "13",
        ),
    ];
    let store = Store::default();
    cluster.fill(&store);
    let (events, results) = reconciled_at(&store, calls, &[0, 30, 30]).await;
    let events = events_of(events);
    let message = "node n1 could not be drained in time; it stays cordoned and is passed over \
                   until it is uncordoned";
    let quarantined = ("NodeQuarantined".to_owned(), message.to_owned());
    assert_eq!(events, [quarantined]);
    assert_eq!(results, settled_work());
}

#[tokio::test(start_paused = true)]
async fn pods_that_no_budget_lets_go_put_their_node_behind_others() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD), node("n2", OLD)];
    cluster.policies = vec![policy(&json!({ "order": ["fewestBlockedPods"] }))];
    let budget = |name: &str, allowed: u32| {
        json!({
            "metadata": { "name": name, "namespace": "a" },
            "spec": { "selector": {
                "matchLabels": { "app": name },
                "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["x", "y"] }]
            } },
            "status": {
                "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
                "disruptionsAllowed": allowed
            }
        })
    };
    let pod = |name: &str, namespace: &str, node: &str, phase: &str| {
        json!({
            "metadata": { "name": name, "namespace": namespace },
            "spec": { "nodeName": node, "containers": [] },
            "status": { "phase": phase }
        })
    };
    let pods = [
        pod("p1", "a", "n1", "Running"),
        // It has ended, and that of another namespace is not the budget's.
        pod("p2", "a", "n2", "Succeeded"),
        pod("p3", "b", "n2", "Running"),
    ];
    let mut pool = cluster.pools[0].clone();
    let mut nodes = cluster.nodes.clone();
    let waiting = condition(
        "Waiting",
        true,
        "Budget",
        "n1: 1 may be out at once, out: n2",
    );
    let pool_path = format!("{GROUP}/machineconfigpools/worker");
    let claim = claim_body("10", &target, &json!({ "n2": "5" }));
    let calls = vec![
        list_sources(&sources),
        Call::get(
            "/apis/policy/v1/poddisruptionbudgets?limit=250",
            list(&[budget("free", 1), budget("stuck", 0)]),
        ),
        Call::get(
            "/api/v1/pods?limit=250&labelSelector=app%3Dstuck%2Ctier%20in%20%28x%2Cy%29",
            list(&pods),
        ),
        patch(&pool_path, &mut pool, claim, "11"),
        patch(
            "/api/v1/nodes/n2",
            &mut nodes[1],
            assign_body("5", &target),
            "6",
        ),
        patch(
            "/api/v1/nodes/n1",
            &mut nodes[0],
            taint_body("5", &target),
            "6",
        ),
        set_status(
            &mut pool,
            &status(&rolling(&target, &waiting), [2, 0, 0, 1, 0]),
            "12",
        ),
    ];
    let (_, results) = reconciled(&cluster, calls, 2).await;
    assert_eq!(results, settled_work());
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_is_seen_to_work_is_claimed_once_and_known_after_a_restart() {
    let (mut cluster, sources, target) = settled();
    let mut n1 = node("n1", &target);
    n1["metadata"]["annotations"]["slipway.dev/since"] = json!("2026-11-20T18:47:00Z");
    cluster.nodes = vec![n1, node("n2", OLD)];
    cluster.policies = vec![policy(&json!({ "canaries": { "soak": "1h" } }))];
    let mut pool = cluster.pools[0].clone();
    let mut nodes = cluster.nodes.clone();
    let pool_path = format!("{GROUP}/machineconfigpools/worker");
    let seen = format!(
        r#"{{"target":"{target}","nodes":{{}},"seen":{{"worker":{{"config":"{target}","step":0,"since":"2026-11-21T19:17:00Z"}}}}}}"#
    );
    let claim = json!({ "metadata": {
        "resourceVersion": "10", "annotations": { "slipway.dev/round": seen }
    } });
    let waiting = condition(
        "Waiting",
        true,
        "RolloutPolicy",
        "n2: the canaries of the rollout policy work until 2026-11-21T20:17:00Z first",
    );
    let taint = taint_body("5", &target);
    let calls = vec![
        list_sources(&sources),
        patch(&pool_path, &mut pool, claim, "11"),
        patch("/api/v1/nodes/n2", &mut nodes[1], taint, "6"),
        set_status(
            &mut pool,
            &status(&rolling(&target, &waiting), [2, 1, 1, 0, 0]),
            "12",
        ),
    ];
    let store = Store::default();
    cluster.fill(&store);
    let (_, results) = reconciled_at(&store, calls, &[0, 15]).await;
    let left = Next::After(Duration::from_mins(45));
    assert_eq!(
        results.last(),
        Some(&("pool worker".to_owned(), Some(left)))
    );
    // Another process, as it reads the pool: nothing restarts.
    let (_, results) = reconciled_at(&store, vec![list_sources(&sources)], &[30]).await;
    let left = Next::After(Duration::from_mins(30));
    assert_eq!(
        results.last(),
        Some(&("pool worker".to_owned(), Some(left)))
    );
}
