//! Responses that come late, and writes that the API server rejects.

use std::time::Duration;

use pool::node::NodeView;

use super::*;
use crate::reconcile::publishing::{PROGRESS_EVERY, progress_after};

fn refused() -> Reply {
    Reply::failure(403, "Forbidden", "admission webhook says no")
}

#[tokio::test(start_paused = true)]
async fn a_node_deleted_within_a_round_is_dropped() {
    let (store, mut calls, mut pool, mut nodes, target) = round_of(3);
    let (watch, gone) = (store.clone(), NodeView::parse(read(&nodes[1])));
    let assign = patch(
        "/api/v1/nodes/n01",
        &mut nodes[0],
        assign_body("5", &target),
        "6",
    );
    calls.push(assign.meanwhile(move || watch.nodes.apply(WatchEvent::Deleted(gone.clone()))));
    calls.push(Call::patch(
        &format!("/api/v1/nodes/n02?{MANAGER}"),
        assign_body("5", &target),
        Reply::failure(404, "NotFound", "nodes n02 not found"),
    ));
    let assign = patch(
        "/api/v1/nodes/n03",
        &mut nodes[2],
        assign_body("5", &target),
        "6",
    );
    calls.push(assign);
    let changes = status(&rolling(&target, &none_waits()), [2, 0, 0, 2, 0]);
    calls.push(set_status(&mut pool, &changes, "12"));
    reconciled_in(&store, calls, 1).await;
    let left = store.snapshot();
    let left: Vec<&str> = left.nodes.values().map(|node| node.name.as_str()).collect();
    assert_eq!(left, ["n01", "n03"]);
}

#[tokio::test(start_paused = true)]
async fn a_pool_deleted_within_a_round_assigns_no_further_node() {
    let (store, mut calls, pool, mut nodes, target) = round_of(WRITES + 2);
    let (watch, gone) = (store.clone(), Pool::parse(read(&pool)));
    let mut under_way = assignments(&mut nodes[..WRITES], &target);
    let first = under_way.remove(0);
    calls.push(first.meanwhile(move || watch.pools.apply(WatchEvent::Deleted(gone.clone()))));
    calls.extend(under_way);
    let (_, results) = reconciled_in(&store, calls, 1).await;
    assert_eq!(results[1].1, Some(Next::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_rejected_assignment_is_named_and_delays_no_other_node() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD), node("n2", OLD)];
    let mut pool = cluster.pools[0].clone();
    let mut nodes = cluster.nodes.clone();
    let path = format!("{GROUP}/machineconfigpools/worker");
    let claim = claim_body("10", &target, &json!({ "n1": "5" }));
    let assign = |body| Call::patch(&format!("/api/v1/nodes/n1?{MANAGER}"), body, refused());
    let why = format!(
        "n1: cannot be assigned: PATCH /api/v1/nodes/n1?{MANAGER}: 403 Forbidden: admission webhook says no; \
         n2: 1 may be out at once, out: n1"
    );
    let waiting = condition("Waiting", true, "NodesNotAssigned", &why);
    let changes = status(&rolling(&target, &waiting), [2, 0, 0, 0, 0]);
    let calls = vec![
        list_sources(&sources),
        patch(&path, &mut pool, claim, "11"),
        assign(assign_body("5", &target)),
        // The taint of one is refused, and the other's is written all the same.
        assign(taint_body("5", &target)),
        patch(
            "/api/v1/nodes/n2",
            &mut nodes[1],
            taint_body("5", &target),
            "7",
        ),
        set_status(&mut pool, &changes, "12"),
    ];
    let (_, results) = reconciled(&cluster, calls, 1).await;
    assert_eq!(results[1].1, None);
}

#[tokio::test(start_paused = true)]
async fn progress_is_not_reported_again_at_once() {
    let (store, mut calls, mut pool, mut nodes, target) = round_of(3);
    calls.extend(assignments(&mut nodes, &target));
    let changes = status(&rolling(&target, &none_waits()), [3, 0, 0, 3, 0]);
    let report = set_status(&mut pool, &changes, "12");
    // While that is on its way a node is done.
    let (watch, mut done) = (store.clone(), nodes[0].clone());
    done["metadata"]["resourceVersion"] = json!("7");
    for key in ["currentConfig", "desiredConfig"] {
        let key = format!("machineconfiguration.openshift.io/{key}");
        done["metadata"]["annotations"][key] = json!(target);
    }
    calls.push(report.meanwhile(move || {
        watch
            .nodes
            .apply(WatchEvent::Applied(NodeView::parse(read(&done))));
    }));
    let (_, results) = reconciled_in(&store, calls, 2).await;
    assert_eq!(
        results[1].1,
        Some(Next::After(PROGRESS_EVERY.unsigned_abs()))
    );
}

#[test]
fn progress_waits_until_its_time_has_come() {
    let at = |second: &str| format!("2026-11-21T19:00:{second}Z").parse().unwrap();
    let table = [
        ("10", "10", Some(5)),
        ("10", "14", Some(1)),
        ("10", "15", None),
        // The clock was set back.
        ("10", "09", None),
    ];
    for (last, now, left) in table {
        let left = left.map(Duration::from_secs);
        assert_eq!(progress_after(at(last), at(now)), left, "{last} {now}");
    }
}
