use serde_json::{Value, json};

use super::*;
use crate::fixture::{parse_node, parse_pool, pool, roles};

fn pools() -> Vec<PoolView> {
    ["master", "worker", "infra", "gpu", "arbiter"]
        .map(|name| pool(name, json!({})))
        .into()
}

#[test]
fn every_mix_of_roles() {
    let pools = pools();
    let conflict = |names: &[&str]| {
        Placement::Conflict(Conflict {
            node: "a".to_owned(),
            pools: names.iter().map(ToString::to_string).collect(),
        })
    };
    let table: [(&[&str], Placement<'_>); 10] = [
        (&[], Placement::Unmanaged),
        (&["worker"], Placement::Pool("worker")),
        (&["master"], Placement::Pool("master")),
        (&["master", "worker"], Placement::Pool("master")),
        (&["infra"], Placement::Pool("infra")),
        (&["infra", "worker"], Placement::Pool("infra")),
        (
            &["master", "infra", "worker"],
            Placement::MasterOverCustom { custom: "infra" },
        ),
        (&["arbiter", "worker"], Placement::Pool("arbiter")),
        (&["infra", "gpu", "worker"], conflict(&["gpu", "infra"])),
        (&["master", "gpu", "infra"], conflict(&["gpu", "infra"])),
    ];
    for (labels, expected) in table {
        assert_eq!(place(&roles("a", labels), &pools), expected, "{labels:?}");
    }
}

#[test]
fn windows_is_never_managed() {
    let mut node = roles("a", &["worker"]);
    node.labels
        .insert("kubernetes.io/os".to_owned(), "windows".to_owned());
    assert_eq!(place(&node, &pools()), Placement::Unmanaged);
}

#[test]
fn pools_without_a_usable_selector_take_nothing() {
    for selector in [
        Value::Null,
        json!({}),
        json!({ "matchExpressions": [{ "key": "a", "operator": "Near" }] }),
    ] {
        let pool = pool("worker", json!({ "nodeSelector": selector }));
        assert_eq!(
            place(&roles("a", &["worker"]), [&pool]),
            Placement::Unmanaged
        );
    }
}

#[test]
fn conflict_names_node_and_pools_and_leaves_the_others() {
    let pools = pools();
    let nodes = [
        roles("a", &["infra", "gpu"]),
        roles("b", &["infra", "worker"]),
        roles("c", &["worker"]),
    ];
    let sorted = Membership::sort(&nodes, &pools);
    assert_eq!(sorted.of("infra"), [&nodes[1]]);
    assert_eq!(sorted.of("worker"), [&nodes[2]]);
    assert_eq!(
        sorted
            .conflicts_of("gpu")
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        [
            "node a belongs to 2 custom roles, cannot proceed with this Node: pools gpu, infra select it by spec.nodeSelector"
        ]
    );
    assert_eq!(sorted.conflicts_of("worker").count(), 0);
}

#[test]
fn node_that_lost_its_pool_is_reported() {
    let nodes = [roles("a", &[]), roles("b", &["worker"])];
    let pools = pools();
    let sorted = Membership::sort(&nodes, &pools);
    assert_eq!(sorted.orphans, ["a"]);
}

#[test]
fn a_node_is_initial_pool_the_custom_pool_that_its_first_configuration_is_of() {
    let pools = [pool("worker", json!({})), pool("edge", json!({}))];
    let initial = |annotations: Value, of: &str| {
        let node = json!({ "metadata": { "name": "a", "annotations": annotations } });
        let uid = pools
            .iter()
            .find(|pool| pool.name == of)
            .map(|pool| pool.uid.clone());
        let owner = |config: &str| uid.clone().filter(|_| config == "rendered-1");
        initial_pool(&parse_node(node), &pools, owner).map(|initial| initial.pool().name.clone())
    };
    let first = "machineconfiguration.openshift.io/firstPivotConfig";
    let applied = "machineconfiguration.openshift.io/customPoolLabelsApplied";
    let edge = Some("edge".to_owned());
    assert_eq!(initial(json!({ first: "rendered-1" }), "edge"), edge);
    assert_eq!(initial(json!({ first: "rendered-1" }), "worker"), None);
    assert_eq!(initial(json!({ first: "rendered-1" }), "gone"), None);
    assert_eq!(initial(json!({ first: "rendered-0" }), "edge"), None);
    assert_eq!(
        initial(json!({ first: "rendered-1", applied: "" }), "edge"),
        None
    );
    assert_eq!(initial(json!({}), "edge"), None);
}

#[test]
fn a_node_whose_pool_tells_no_labels_is_left_alone_until_it_has_some() {
    let first = "machineconfiguration.openshift.io/firstPivotConfig";
    let asking = |operator: &str, values: Value| {
        let requirements = json!([{ "key": "zone", "operator": operator, "values": values }]);
        pool(
            "edge",
            json!({ "nodeSelector": { "matchExpressions": requirements } }),
        )
    };
    let labels = |labels: Value| {
        let annotations = json!({ first: "rendered-1" });
        parse_node(
            json!({ "metadata": { "name": "a", "labels": labels, "annotations": annotations } }),
        )
    };
    let worker = json!({ "node-role.kubernetes.io/worker": "" });
    let gpu = json!({ "node-role.kubernetes.io/gpu": "" });
    let several = || asking("In", json!(["a", "b"]));
    let table = [
        (asking("In", json!(["a"])), worker.clone(), "labels"),
        (several(), worker.clone(), "unknown"),
        (asking("NotIn", json!(["a"])), worker.clone(), "labelled"),
        (
            asking("NotIn", json!(["a"])),
            json!({ "zone": "a" }),
            "unknown",
        ),
        (several(), json!({ "zone": "b" }), "labelled"),
        // A person decided for another pool.
        (several(), gpu, "labelled"),
        (
            pool("edge", json!({ "nodeSelector": {} })),
            worker,
            "unknown",
        ),
    ];
    for (number, (edge, given, expected)) in table.into_iter().enumerate() {
        let uid = edge.uid.clone();
        let pools = [pool("worker", json!({})), pool("gpu", json!({})), edge];
        let node = labels(given);
        let initial = initial_pool(&node, &pools, |_| Some(uid.clone())).unwrap();
        let found = match initial {
            InitialPool::Labels(_) => "labels",
            InitialPool::Labelled(_) => "labelled",
            InitialPool::Unknown(_) => "unknown",
        };
        assert_eq!(found, expected, "{number}");
        assert_eq!(initial.pool().name, "edge");
    }
}

#[test]
fn a_pool_that_is_gone_before_its_node_has_labels_is_named() {
    let annotations = |applied: bool, config: &str| {
        let mut annotations =
            json!({ "machineconfiguration.openshift.io/firstPivotConfig": config });
        if applied {
            annotations["machineconfiguration.openshift.io/customPoolLabelsApplied"] = json!("");
        }
        parse_node(json!({ "metadata": { "name": "a", "annotations": annotations } }))
    };
    let hash = "0123456789abcdef0123456789abcdef";
    let table = [
        (false, format!("rendered-far-edge-{hash}"), Some("far-edge")),
        (false, format!("rendered-infra-{hash}"), None),
        (false, format!("rendered-worker-{hash}"), None),
        (false, format!("rendered-master-{hash}"), None),
        (true, format!("rendered-far-edge-{hash}"), None),
        (false, "other".to_owned(), None),
    ];
    for (applied, config, expected) in table {
        let node = annotations(applied, &config);
        assert_eq!(
            lost_pool(&node, ["infra"].into_iter()),
            expected,
            "{config}"
        );
    }
}

/// Pools and nodes that every reader of Nodes has to sort alike.
const CASES: &str = include_str!("../../../../tests/fixtures/placement.json");

#[test]
fn pool_role_and_state_of_each_node_are_those_that_all_readers_tell() {
    let cases: Value = serde_json::from_str(CASES).unwrap();
    let list = |key: &str| cases[key].as_array().unwrap().clone();
    let pools: Vec<PoolView> = list("pools")
        .into_iter()
        .map(|pool| parse_pool(pool).1)
        .collect();
    let nodes: Vec<NodeView> = list("nodes")
        .into_iter()
        .map(|mut case| parse_node(case["object"].take()))
        .collect();
    let sorted = Membership::sort(&nodes, &pools);
    for (case, node) in list("nodes").iter().zip(&nodes) {
        let is_member = |pool: &&PoolView| sorted.of(&pool.name).contains(&node);
        let unready: Vec<String> = node.unready.iter().map(ToString::to_string).collect();
        let found = json!({
            "pool": pools.iter().find(is_member).map(|pool| &pool.name),
            "isControlPlane": node.is_control_plane(),
            "state": node.status.state().as_str(),
            "unready": unready,
        });
        assert_eq!(found, case["expected"], "{}", node.name);
    }
}
