//! Switches that stop a pool or the cluster, and nodes on hold.

use super::*;
use crate::store::cluster_stop::ClusterStops;
use operator::Watched as _;

const BY_ALICE: &str = r#"{"by":"alice","since":"2026-11-21T19:00:00Z","reason":"kernel bug"}"#;
const SAID: &str = "stopped by alice since 2026-11-21T19:00:00Z: kernel bug";

/// ClusterVersion with a switch.
fn stop_cluster(store: &Store, value: &str) {
    let object = json!({ "metadata": {
        "name": "version", "resourceVersion": "70", "annotations": { "slipway.dev/stop": value }
    } });
    let parsed = ClusterStops::parse(read(&object));
    store.stops.apply(WatchEvent::Applied(parsed));
}

/// The status of a pool that is stopped.
fn stopped_status(target: &str, what: &str, waiting: &str, counts: [u32; 5]) -> Value {
    let waiting = condition("Waiting", true, "Stopped", waiting);
    let mut conditions = rolling(target, &waiting);
    let why = format!("Pool update stopped: {what}");
    conditions[1] = condition("Updating", false, "", &why);
    status(&conditions, counts)
}

#[tokio::test(start_paused = true)]
async fn a_node_on_hold_is_named_and_the_others_go() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD), node("n2", OLD)];
    cluster.nodes[0]["metadata"]["annotations"]["slipway.dev/hold"] = json!("new disk on Monday");
    let mut pool = cluster.pools[0].clone();
    let mut nodes = cluster.nodes.clone();
    let path = format!("{GROUP}/machineconfigpools/worker");
    let claim = claim_body("10", &target, &json!({ "n2": "5" }));
    let waiting = "n1: on hold: new disk on Monday";
    let waiting = condition("Waiting", true, "NodesOnHold", waiting);
    let changes = status(&rolling(&target, &waiting), [2, 0, 0, 1, 0]);
    let calls = vec![
        list_sources(&sources),
        patch(&path, &mut pool, claim, "11"),
        patch(
            "/api/v1/nodes/n2",
            &mut nodes[1],
            assign_body("5", &target),
            "6",
        ),
        set_status(&mut pool, &changes, "12"),
    ];
    reconciled(&cluster, calls, 2).await;
}

/// The switch is on the object: a controller that starts with it assigns nothing either.
#[tokio::test(start_paused = true)]
async fn a_stopped_pool_assigns_no_node_and_says_who_stopped_it() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD)];
    cluster.pools[0]["metadata"]["annotations"] = json!({ "slipway.dev/stop": BY_ALICE });
    let mut pool = cluster.pools[0].clone();
    let what = format!("the pool is {SAID}");
    let waiting = format!("n1: {what}");
    let changes = stopped_status(&target, &what, &waiting, [1, 0, 0, 0, 0]);
    let calls = vec![
        list_sources(&sources),
        set_status(&mut pool, &changes, "11"),
    ];
    reconciled(&cluster, calls, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_cluster_stops_each_pool_whatever_its_value() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD)];
    let store = Store::default();
    cluster.fill(&store);
    stop_cluster(&store, "");
    let mut pool = cluster.pools[0].clone();
    let what = "the cluster is stopped by annotation slipway.dev/stop, which cannot be read: EOF \
                while parsing a value at line 1 column 0: \"\"";
    let waiting = format!("n1: {what}");
    let changes = stopped_status(&target, what, &waiting, [1, 0, 0, 0, 0]);
    let calls = vec![
        list_sources(&sources),
        set_status(&mut pool, &changes, "11"),
    ];
    reconciled_in(&store, calls, 2).await;
}

#[tokio::test(start_paused = true)]
async fn the_clusters_switch_stops_a_round_between_two_nodes() {
    let (store, mut calls, mut pool, mut nodes, target) = round_of(WRITES + 2);
    // The watch delivers it while the first writes are under way.
    let mut under_way = assignments(&mut nodes[..WRITES], &target);
    let first = under_way.remove(0);
    let watch = store.clone();
    calls.push(first.meanwhile(move || stop_cluster(&watch, BY_ALICE)));
    calls.extend(under_way);
    let what = format!("the cluster is {SAID}");
    let waiting = format!("n17, n18: {what}");
    let changes = stopped_status(&target, &what, &waiting, [18, 0, 0, 16, 0]);
    calls.push(set_status(&mut pool, &changes, "12"));
    let (events, _) = reconciled_in(&store, calls, 2).await;
    assert_eq!(events_of(events).len(), 1);
}

/// Nodes that run the configuration get no pinned images while the pool is stopped.
#[tokio::test(start_paused = true)]
async fn a_stopped_pool_begins_no_pull() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", &target)];
    cluster.pinned_sets = vec![json!({ "metadata": {
        "name": "edge", "uid": "0a1b2c3d-4e5f", "resourceVersion": "1", "generation": 1,
        "labels": { "machineconfiguration.openshift.io/role": "worker" }
    } })];
    cluster.pools[0]["metadata"]["annotations"] = json!({ "slipway.dev/stop": BY_ALICE });
    cluster.pools[0]["spec"]["pinnedImageSets"] = json!([{ "name": "edge" }]);
    let mut pool = cluster.pools[0].clone();
    let what = format!("the pool is {SAID}");
    let mut conditions = rolling(&target, &condition("Waiting", true, "Stopped", &what));
    let updated = format!("All nodes are updated with MachineConfig {target}");
    conditions[0] = condition("Updated", true, "", &updated);
    conditions[1] = condition("Updating", false, "", "");
    let mut changes = status(&conditions, [1, 1, 1, 0, 0]);
    changes["configuration"] = pool["spec"]["configuration"].clone();
    changes["poolSynchronizersStatus"] = json!([{
        "poolSynchronizerType": "PinnedImageSets", "machineCount": 1, "updatedMachineCount": 0,
        "readyMachineCount": 0, "availableMachineCount": 1, "unavailableMachineCount": 0
    }]);
    let calls = vec![
        list_sources(&sources),
        set_status(&mut pool, &changes, "11"),
    ];
    reconciled(&cluster, calls, 2).await;
}
