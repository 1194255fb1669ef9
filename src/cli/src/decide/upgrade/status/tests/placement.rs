//! Nodes are sorted into pools as the controller does, and read as it reads them.

use serde_json::json;

use super::super::nodes::{MembershipFault, NodeAssessment, NodeUpgradeView};
use super::*;

/// Pools and nodes that every reader of Nodes has to sort alike.
const CASES: &str = include_str!("../../../../../../../tests/fixtures/placement.json");

/// An update of `4.15.0-ec2-early` with the pools and nodes of all cases, and what is expected of
/// each node.
fn cases() -> (ClusterSnapshot, Vec<(String, Value)>) {
    let cases: Value = serde_json::from_str(CASES).unwrap();
    let list = |key: &str| cases[key].as_array().unwrap().clone();
    let mut cluster = snapshot("4.15.0-ec2-early");
    cluster.pools = list("pools").into_iter().map(ClusterObject).collect();
    cluster.nodes.clear();
    let mut expected = Vec::new();
    for mut case in list("nodes") {
        let node = ClusterObject(case["object"].take());
        expected.push((node.name().to_owned(), case["expected"].take()));
        cluster.nodes.push(node);
    }
    (cluster, expected)
}

#[test]
fn pool_role_and_state_of_each_node_are_those_that_all_readers_tell() {
    let (cluster, cases) = cases();
    let sorted = NodesByPool::new(&cluster, now(&cluster));
    assert!(sorted.unread.is_empty(), "{:?}", sorted.unread);
    for (name, expected) in cases {
        let found = sorted.pools.iter().find_map(|pool| {
            let of_name = |node: &&NodeUpgradeView| node.name == name;
            Some((pool, pool.nodes.iter().find(of_name)?))
        });
        let pool = found.map(|(pool, _)| &pool.name);
        assert_eq!(json!(pool), expected["pool"], "{name}");
        let Some((pool, node)) = found else { continue };
        if expected["isControlPlane"] == true {
            assert!(pool.is_control_plane, "{name}");
        }
        let is_failed =
            ["Degraded", "Unreconcilable"].contains(&expected["state"].as_str().unwrap());
        let is_degraded = node.assessment == NodeAssessment::Degraded;
        assert_eq!(is_degraded, is_failed, "{name}");
        for (why, text) in [
            ("not ready", "Not ready"),
            ("under disk pressure", "Disk pressure"),
            ("without network", "Network unavailable"),
            ("cordoned", "Node is marked unschedulable"),
        ] {
            let is_unready = expected["unready"]
                .as_array()
                .unwrap()
                .contains(&json!(why));
            assert_eq!(node.message.contains(text), is_unready, "{name}: {why}");
        }
        let is_working = node
            .message
            .contains("Machine Config Daemon is processing the node");
        assert_eq!(is_working, expected["state"] == "Working", "{name}");
    }
}

#[test]
fn a_bad_selector_and_a_node_of_two_custom_pools_are_named_beside_the_rest() {
    let (mut cluster, _) = cases();
    let at = now(&cluster);
    let selector = "MachineConfigPool bad: spec.nodeSelector cannot be read: there is no operator \"Near\" (on key node-role.kubernetes.io/bad)";
    let conflict = "node two-custom belongs to 2 custom roles, cannot proceed with this Node: pools gpu, infra select it by spec.nodeSelector";
    let status = UpgradeStatus::new(&cluster, at).unwrap();
    let text = status.text(StatusDetails::Health);
    for part in [
        &format!("Message: {selector}\n"),
        &format!("Message: {conflict}\n"),
        "\nControl Plane Nodes\n",
        "\nControl Plane Nodes: arbiter\n",
        "\nWorker Pool Nodes: infra\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(status.needs_attention());
    // At rest, too.
    set(&mut cluster.version, "Progressing", "False");
    cluster.nodes.retain(|node| node.name() == "two-custom");
    let status = UpgradeStatus::new(&cluster, at).unwrap();
    let expected = format!("The cluster is not updating.\n{selector}\n{conflict}\n");
    assert_eq!(status.text(StatusDetails::None), expected);
    assert!(status.needs_attention());
    // The selector alone is no reason to know less of the others.
    let sorted = NodesByPool::new(&cluster, at);
    let faults = sorted.faults.iter();
    let mut faults = faults.filter(|fault| matches!(fault, MembershipFault::Selector { .. }));
    assert!(faults.next().is_some() && faults.next().is_none());
}

#[test]
fn what_is_no_pool_is_named_and_the_others_are_read() {
    let (mut cluster, _) = cases();
    cluster.pools[4].0["spec"]["paused"] = json!(["no"]);
    let sorted = NodesByPool::new(&cluster, now(&cluster));
    assert_eq!(sorted.pools.len(), cluster.pools.len() - 1);
    let [unread] = sorted.unread.as_slice() else {
        panic!("{:?}", sorted.unread)
    };
    let unread = Chain(unread).to_string();
    assert!(
        unread.starts_with("cannot read MachineConfigPool gpu: "),
        "{unread}"
    );
}
