use serde_json::{Value, json};

use super::*;
use crate::fixture::{parse_node, pool, roles};

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
        initial_pool(&parse_node(node), &pools, owner).map(|pool| pool.name.clone())
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
