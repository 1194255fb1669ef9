//! Which configurations a node may have: its own.
//!
//! A kubelet may write its Node's annotations, so that these alone prove nothing: with its
//! credential a stolen node could name any configuration. Which pool selects the node follows from
//! labels of its role, which `NodeRestriction` keeps from the kubelet, and a rendered configuration
//! names the pool that it was made for.

use std::collections::BTreeMap;

use api::machineconfiguration::NodeStatus;
use api::machineconfiguration::node_status::Reading;
use k8s_openapi::api::core::v1::Node;
use pool::membership::place;
use pool::node::NodeView;
use pool::view::PoolView;
use serde_json::Value;

/// The configurations that annotations of a node name.
fn named(annotations: &BTreeMap<String, String>) -> [Option<String>; 3] {
    let status = NodeStatus::read(annotations);
    let next = status.next.as_ref().and_then(Reading::known);
    let next = next.map(|target| target.config.clone());
    [status.current_config, status.desired_config, next]
}

/// Why a configuration, by name, is none of a node's own.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotOwn {
    #[error("no annotation of the Node names {0:?}")]
    NotNamed(String),
    #[error("the node belongs to no pool")]
    NoPool,
    #[error("{0:?} was not rendered for the node's pool {1:?}")]
    OtherPool(String, String),
}

/// Whether a configuration, as the API server has it, is one of a node's own.
///
/// # Errors
/// [`NotOwn`].
pub(crate) fn check<'a>(
    node: Node,
    config: &Value,
    pools: impl IntoIterator<Item = &'a PoolView> + Clone,
) -> Result<(), NotOwn> {
    let text = |pointer: &str| config.pointer(pointer).and_then(Value::as_str);
    let name = text("/metadata/name").unwrap_or_default();
    let annotations = node.metadata.annotations.clone().unwrap_or_default();
    if !named(&annotations).contains(&Some(name.to_owned())) {
        return Err(NotOwn::NotNamed(name.to_owned()));
    }
    let view = NodeView::parse(node);
    let Some(pool) = place(&view, pools.clone()).pool() else {
        return Err(NotOwn::NoPool);
    };
    let owners = config.pointer("/metadata/ownerReferences");
    let owners = owners.and_then(Value::as_array).into_iter().flatten();
    let controllers = owners.filter(|owner| owner["controller"] == true);
    let uids: Vec<&str> = controllers
        .filter(|owner| owner["kind"] == "MachineConfigPool")
        .filter_map(|owner| owner["uid"].as_str())
        .collect();
    let mut pools = pools.into_iter();
    let is_its_pools = pools.any(|owner| owner.name == pool && uids.contains(&owner.uid.as_str()));
    if is_its_pools {
        Ok(())
    } else {
        Err(NotOwn::OtherPool(name.to_owned(), pool.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use api::machineconfiguration::{MachineConfigPool, annotation};
    use serde_json::json;

    use super::*;

    fn pool(name: &str) -> PoolView {
        let label = format!("node-role.kubernetes.io/{name}");
        let pool: MachineConfigPool = serde_json::from_value(json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "1"},
            "spec": {"nodeSelector": {"matchLabels": {label: ""}}},
        }))
        .unwrap();
        PoolView::parse(&pool)
    }

    fn node(role: &str, annotations: &Value) -> Node {
        let label = format!("node-role.kubernetes.io/{role}");
        let metadata = json!({"name": "n", "labels": {label: ""}, "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn config(name: &str, pool: &str) -> Value {
        let kind = "MachineConfigPool";
        let owner = json!({"kind": kind, "uid": format!("uid-{pool}"), "controller": true});
        json!({"metadata": {"name": name, "ownerReferences": [owner]}})
    }

    #[test]
    fn node_gets_what_its_annotations_name_if_it_is_its_pools() {
        let pools = [pool("worker"), pool("master")];
        let of_others = json!({annotation::DESIRED_CONFIG: "rendered-master-1"});
        let own = json!({annotation::DESIRED_CONFIG: "rendered-worker-1"});
        let next = json!({annotation::NEXT_CONFIG: "rendered-worker-1"});
        let with_image = json!({annotation::NEXT_CONFIG: "rendered-worker-1 registry/os@sha256:1"});
        let two_images =
            json!({annotation::NEXT_CONFIG: "rendered-worker-1 registry/os registry/x"});
        let (worker, master) = (
            config("rendered-worker-1", "worker"),
            config("rendered-master-1", "master"),
        );
        let by_hand = json!({"metadata": {"name": "rendered-worker-1"}});
        let table = [
            (node("worker", &own), &worker, true),
            (node("worker", &next), &worker, true),
            (node("worker", &with_image), &worker, true),
            (node("worker", &two_images), &worker, false),
            (node("worker", &json!({})), &worker, false),
            (node("worker", &own), &by_hand, false),
            // A stolen node that writes its own annotation.
            (node("worker", &of_others), &master, false),
            (node("master", &of_others), &master, true),
            (node("other", &own), &worker, false),
        ];
        for (number, (node, config, expected)) in table.into_iter().enumerate() {
            let checked = check(node, config, &pools);
            assert_eq!(checked.is_ok(), expected, "{number}: {checked:?}");
        }
    }
}
