//! What is read of a pool.

use std::collections::BTreeMap;

use api::machineconfiguration::{MachineConfigPool, label};
use pool::selector::Selector;

/// A pool that objects select.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolFacts {
    pub name: String,
    /// Labels, by which objects select it.
    pub labels: BTreeMap<String, String>,
    /// Whether its nodes are control-plane nodes.
    pub is_control_plane: bool,
    /// Whether it selects a MachineConfig whose role is its name.
    pub selects_own_role: bool,
}

impl PoolFacts {
    pub fn read(pool: &MachineConfigPool) -> Self {
        let name = pool.metadata.name.clone().unwrap_or_default();
        let selector = pool.spec.machine_config_selector.as_ref();
        let selector = Selector::parse("spec.machineConfigSelector", selector);
        let own = BTreeMap::from([(label::ROLE.to_owned(), name.clone())]);
        Self {
            is_control_plane: label::role::is_control_plane(&name) || selects_control_plane(pool),
            selects_own_role: selector.is_ok_and(|selector| selector.matches(&own)),
            labels: pool.metadata.labels.clone().unwrap_or_default(),
            name,
        }
    }

    /// The role whose base configurations the pool's nodes have: a custom pool has the workers'.
    pub fn role(&self) -> &str {
        if self.is_built_in() {
            &self.name
        } else {
            label::role::WORKER
        }
    }

    /// Whether its nodes have what workers have.
    pub fn has_workers(&self) -> bool {
        self.role() == label::role::WORKER && !self.is_control_plane
    }

    /// Whether it is one of the pools that every cluster has.
    pub fn is_built_in(&self) -> bool {
        label::role::is_control_plane(&self.name) || self.name == label::role::WORKER
    }
}

fn selects_control_plane(pool: &MachineConfigPool) -> bool {
    let Some(selector) = &pool.spec.node_selector else {
        return false;
    };
    let labels = selector.match_labels.iter().flatten();
    let named = labels.map(|(key, _)| key.as_str()).chain(
        selector
            .match_expressions
            .iter()
            .flatten()
            .filter(|expression| ["In", "Exists"].contains(&expression.operator.as_str()))
            .map(|expression| expression.key.as_str()),
    );
    label::is_control_plane(named)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn facts(name: &str, spec: &Value) -> PoolFacts {
        let pool = json!({ "metadata": { "name": name }, "spec": spec });
        PoolFacts::read(&serde_json::from_value(pool).unwrap())
    }

    #[test]
    fn control_plane_pools_are_known_by_name_or_by_the_role_that_they_select() {
        let selecting = |key: &str| json!({ "nodeSelector": { "matchLabels": { key: "" } } });
        let without = json!({ "nodeSelector": { "matchExpressions": [
            { "key": "node-role.kubernetes.io/master", "operator": "DoesNotExist" }
        ] } });
        let table = [
            ("master", json!({}), true),
            ("arbiter", json!({}), true),
            ("worker", json!({}), false),
            ("edge", selecting("node-role.kubernetes.io/edge"), false),
            ("infra", selecting("node-role.kubernetes.io/master"), true),
            (
                "infra",
                selecting("node-role.kubernetes.io/control-plane"),
                true,
            ),
            ("infra", without, false),
        ];
        for (name, spec, expected) in table {
            assert_eq!(
                facts(name, &spec).is_control_plane,
                expected,
                "{name} {spec}"
            );
        }
    }

    #[test]
    fn a_custom_pool_has_the_base_of_workers_and_may_leave_out_its_own_role() {
        let key = "machineconfiguration.openshift.io/role";
        let selecting = |roles: &[&str]| {
            json!({ "machineConfigSelector": { "matchExpressions": [
                { "key": key, "operator": "In", "values": roles }
            ] } })
        };
        let edge = facts("edge", &selecting(&["worker", "edge"]));
        assert_eq!((edge.role(), edge.selects_own_role), ("worker", true));
        assert!(!facts("edge", &selecting(&["worker"])).selects_own_role);
        assert_eq!(facts("arbiter", &json!({})).role(), "arbiter");
    }
}
