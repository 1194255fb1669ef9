//! Pinned image sets: named in the pool, assigned to its nodes in turn, counted in its status.

use operator::Watched as _;
use pool::node::NodeView;

use super::*;
use crate::store::pinned_sets::PinnedSets;

const DESIRED: &str = "slipway.dev/desired-pins";
const CURRENT: &str = "slipway.dev/current-pins";

/// A set of the workers.
fn set(name: &str, generation: i64) -> Value {
    json!({ "metadata": {
        "name": name, "uid": "0a1b2c3d-4e5f", "resourceVersion": "1", "generation": generation,
        "labels": { "machineconfiguration.openshift.io/role": "worker" }
    } })
}

/// A pool of nodes that run its configuration; two of them may pull at once.
fn updated_cluster(nodes: &[&str]) -> (Cluster, Vec<Value>, String) {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = nodes.iter().map(|name| node(name, &target)).collect();
    cluster.policies = vec![json!({
        "metadata": { "name": "worker", "resourceVersion": "1" }, "spec": { "pinnedImagePulls": 2 }
    })];
    (cluster, sources, target)
}

fn counts(nodes: u32, updated: u32, generation: Option<u32>) -> Value {
    let mut counts = json!({
        "poolSynchronizerType": "PinnedImageSets", "machineCount": nodes,
        "updatedMachineCount": updated, "readyMachineCount": updated,
        "availableMachineCount": nodes, "unavailableMachineCount": 0
    });
    if let Some(generation) = generation {
        counts["observedGeneration"] = json!(generation);
    }
    json!([counts])
}

fn conditions(target: &str, degraded: &Value) -> Vec<Value> {
    let mut conditions = rolling(target, &none_waits());
    let updated = format!("All nodes are updated with MachineConfig {target}");
    conditions[0] = condition("Updated", true, "", &updated);
    conditions[1] = condition("Updating", false, "", "");
    conditions[7] = degraded.clone();
    conditions
}

fn all_pin() -> Value {
    condition("PinnedImageSetsDegraded", false, "", "")
}

/// The first status of a pool whose nodes run its configuration.
fn first_status(pool: &Value, target: &str, nodes: u32, degraded: &Value) -> Value {
    let mut changes = status(&conditions(target, degraded), [nodes, nodes, nodes, 0, 0]);
    changes["configuration"] = pool["spec"]["configuration"].clone();
    changes
}

fn names(pool: &mut Value, sets: &Value, version: &str) -> Call {
    let body = json!({
        "metadata": { "resourceVersion": pool["metadata"]["resourceVersion"] },
        "spec": { "pinnedImageSets": sets }
    });
    let path = format!("{GROUP}/machineconfigpools/worker");
    patch(&path, pool, body, version)
}

/// A node is assigned this list, or with `null` none.
fn assigns(node: &mut Value, list: &Value, version: &str) -> Call {
    let name = node["metadata"]["name"].as_str().unwrap().to_owned();
    let body = json!({ "metadata": {
        "resourceVersion": node["metadata"]["resourceVersion"], "annotations": { DESIRED: list }
    } });
    patch(&format!("/api/v1/nodes/{name}"), node, body, version)
}

/// The watch brings a node that has what it was assigned.
fn has_pinned(store: &Store, node: &mut Value, version: &str) {
    let annotations = &mut node["metadata"]["annotations"];
    annotations[CURRENT] = annotations[DESIRED].clone();
    node["metadata"]["resourceVersion"] = json!(version);
    let node = NodeView::parse(read(node));
    store.nodes.apply(WatchEvent::Applied(node));
}

fn has_sets(store: &Store, sets: &[Value]) {
    let sets = sets.iter().map(|set| PinnedSets::parse(read(set)));
    store.pinned_sets.apply(WatchEvent::Synced(sets.collect()));
}

#[tokio::test(start_paused = true)]
async fn nodes_pull_in_turn_again_when_a_set_changes_and_drop_at_once() {
    let (mut cluster, sources, target) = updated_cluster(&["n1", "n2", "n3"]);
    cluster.pinned_sets = vec![set("edge", 1), set("core", 4)];
    let store = Store::default();
    cluster.fill(&store);
    let (mut pool, mut nodes) = (cluster.pools[0].clone(), cluster.nodes.clone());
    let list = json!("core=4.0a1b2c3d,edge=1.0a1b2c3d");
    let first = names(
        &mut pool,
        &json!([{ "name": "core" }, { "name": "edge" }]),
        "11",
    );
    let mut changes = first_status(&pool, &target, 3, &all_pin());
    changes["poolSynchronizersStatus"] = counts(3, 0, None);
    let calls = vec![
        list_sources(&sources),
        first,
        assigns(&mut nodes[0], &list, "6"),
        assigns(&mut nodes[1], &list, "6"),
        set_status(&mut pool, &changes, "12"),
    ];
    // Nothing differs then, and nothing is sent.
    let (events, results) = reconciled_in(&store, calls, 3).await;
    assert_eq!(events_of(events), []);
    assert_eq!(results, settled_work());

    has_pinned(&store, &mut nodes[0], "7");
    let changes = json!({ "poolSynchronizersStatus": counts(3, 1, None) });
    let calls = vec![
        list_sources(&sources),
        assigns(&mut nodes[2], &list, "6"),
        set_status(&mut pool, &changes, "13"),
    ];
    let (_, results) = reconciled_in(&store, calls, 2).await;
    assert_eq!(results, settled_work());

    // Two nodes pull, and pull the other content from now on.
    has_sets(&store, &[set("edge", 2), set("core", 4)]);
    let list = json!("core=4.0a1b2c3d,edge=2.0a1b2c3d");
    let changes = json!({ "poolSynchronizersStatus": counts(3, 0, None) });
    let calls = vec![
        list_sources(&sources),
        assigns(&mut nodes[1], &list, "8"),
        assigns(&mut nodes[2], &list, "8"),
        set_status(&mut pool, &changes, "14"),
    ];
    reconciled_in(&store, calls, 2).await;

    has_pinned(&store, &mut nodes[1], "9");
    has_sets(&store, &[]);
    let none = names(&mut pool, &Value::Null, "15");
    let changes = json!({ "poolSynchronizersStatus": counts(3, 3, Some(2)) });
    let mut calls = vec![list_sources(&sources), none];
    calls.extend(
        nodes
            .iter_mut()
            .map(|node| assigns(node, &Value::Null, "10")),
    );
    calls.push(set_status(&mut pool, &changes, "16"));
    let (_, results) = reconciled_in(&store, calls, 2).await;
    assert_eq!(results, settled_work());
}

#[tokio::test(start_paused = true)]
async fn a_node_without_room_is_named_and_the_next_has_its_turn() {
    let (mut cluster, sources, target) = updated_cluster(&["n1", "n2", "n3"]);
    cluster.pinned_sets = vec![set("edge", 1)];
    // Pins are no update: they go on.
    cluster.pools[0]["spec"]["paused"] = json!(true);
    cluster.pools[0]["spec"]["pinnedImageSets"] = json!([{ "name": "edge" }]);
    let list = json!("edge=1.0a1b2c3d");
    for node in &mut cluster.nodes[..2] {
        node["metadata"]["annotations"][DESIRED] = list.clone();
    }
    let why = "NoRoom: set edge: 5 bytes lack";
    cluster.nodes[0]["metadata"]["annotations"]["slipway.dev/not-pinned"] = json!(why);
    let (mut pool, mut nodes) = (cluster.pools[0].clone(), cluster.nodes.clone());
    let message = format!("Node n1 is reporting: {why:?}");
    let degraded = condition("PinnedImageSetsDegraded", true, "PrefetchFailed", &message);
    // It degrades no pool.
    let mut changes = first_status(&pool, &target, 3, &degraded);
    changes["poolSynchronizersStatus"] = counts(3, 0, None);
    let conditions = changes["conditions"].as_array_mut().unwrap();
    conditions.push(is_paused());
    let calls = vec![
        list_sources(&sources),
        assigns(&mut nodes[2], &list, "6"),
        set_status(&mut pool, &changes, "11"),
    ];
    let (events, results) = reconciled(&cluster, calls, 2).await;
    assert_eq!(events, [("PinnedImageSetsDegraded".to_owned(), message)]);
    assert_eq!(results, settled_work());
}

#[tokio::test(start_paused = true)]
async fn a_new_configuration_and_new_sets_are_one_write_of_the_pool() {
    let (mut cluster, sources, target) = settled();
    let configuration = cluster.pools[0]["spec"]["configuration"].clone();
    cluster.pools = vec![pool(None)];
    cluster.pinned_sets = vec![set("edge", 1)];
    let mut pool = cluster.pools[0].clone();
    let body = json!({
        "metadata": { "resourceVersion": "10" },
        "spec": { "configuration": configuration, "pinnedImageSets": [{ "name": "edge" }] }
    });
    let write = patch(
        &format!("{GROUP}/machineconfigpools/worker"),
        &mut pool,
        body,
        "11",
    );
    let mut changes = first_status(&pool, &target, 0, &all_pin());
    changes["poolSynchronizersStatus"] = counts(0, 0, Some(2));
    let calls = vec![
        list_sources(&sources),
        write,
        set_status(&mut pool, &changes, "12"),
    ];
    let (_, results) = reconciled(&cluster, calls, 2).await;
    assert_eq!(results, settled_work());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_populated_is_named_and_nodes_keep_what_they_have() {
    let too_many: Vec<Value> = (0..101)
        .map(|number| set(&format!("s{number}"), 1))
        .collect();
    let rejected = Reply::failure(403, "Forbidden", "admission webhook says no");
    let one = json!([{ "name": "edge" }]);
    let attempt = Call::patch(
        &format!("{GROUP}/machineconfigpools/worker?{MANAGER}"),
        json!({ "metadata": { "resourceVersion": "10" }, "spec": { "pinnedImageSets": one } }),
        rejected,
    );
    let failed = "Failed to populate pinned image sets for pool worker";
    for (sets, attempt, why) in [
        (
            too_many,
            None,
            format!(
                "{failed}: spec.machineConfigSelector selects 101 PinnedImageSets, and a pool has \
                 at most 100"
            ),
        ),
        (
            vec![set("edge", 1)],
            Some(attempt),
            format!(
                "{failed}: spec.pinnedImageSets is rejected: PATCH {GROUP}/machineconfigpools/\
                 worker?{MANAGER}: 403 Forbidden: admission webhook says no"
            ),
        ),
    ] {
        let (mut cluster, sources, target) = updated_cluster(&["n1"]);
        cluster.pinned_sets = sets;
        cluster.nodes[0]["metadata"]["annotations"][DESIRED] = json!("old=1.ff");
        let mut pool = cluster.pools[0].clone();
        let degraded = condition("PinnedImageSetsDegraded", true, "", &why);
        let changes = first_status(&pool, &target, 1, &degraded);
        let mut calls = vec![list_sources(&sources)];
        calls.extend(attempt);
        calls.push(set_status(&mut pool, &changes, "11"));
        let (events, results) = reconciled(&cluster, calls, 1).await;
        assert_eq!(events, [("PinnedImageSetsDegraded".to_owned(), why)]);
        assert_eq!(results, settled_work());
    }
}

#[tokio::test(start_paused = true)]
async fn no_node_begins_while_the_policy_cannot_be_followed() {
    let (mut cluster, sources, target) = updated_cluster(&["n1"]);
    cluster.policies[0]["spec"]["pinnedImagePulls"] = json!(0);
    cluster.pools[0]["spec"]["pinnedImageSets"] = json!([{ "name": "edge" }]);
    cluster.pinned_sets = vec![set("edge", 1)];
    let mut pool = cluster.pools[0].clone();
    let why =
        "RolloutPolicy worker: spec.pinnedImagePulls: at least one node pulls at a time".to_owned();
    let reason = "InvalidRolloutPolicy";
    let mut conditions = conditions(&target, &all_pin());
    conditions[4] = condition("RolloutDegraded", true, reason, &why);
    conditions[5] = condition("Degraded", true, "", &why);
    let mut changes = status(&conditions, [1, 1, 1, 0, 0]);
    changes["configuration"] = pool["spec"]["configuration"].clone();
    changes["poolSynchronizersStatus"] = counts(1, 0, None);
    let calls = vec![
        list_sources(&sources),
        set_status(&mut pool, &changes, "11"),
    ];
    let (events, results) = reconciled(&cluster, calls, 2).await;
    assert_eq!(events, [(reason.to_owned(), why)]);
    assert_eq!(results, settled_work());
}
