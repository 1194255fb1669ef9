//! What is watched, and which work a change wakes.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::config::{ClusterOperator, scheduler};
use api::machineconfiguration::{MachineConfig, MachineConfigPool, NAMESPACE};
use api::operator::machine_configuration::{self, MachineConfiguration};
use api::rollout::RolloutPolicy;
use cluster::cache::Cache;
use generated::templates::PULL_SECRET;
use k8s_openapi::api::core::v1::Node;
use kube::core::PartialObjectMeta;
use operator::watch::{Head, ProtobufForm};
use operator::{Operator, Wake, WatchForm, WatchScope, Watched};
use pool::membership::partner;
use pool::node::NodeView;

use crate::configs::ConfigMeta;
use crate::decide::release::status;
use crate::duties::Duties;
use crate::node_objects;
use crate::store::cluster_stop;
use crate::store::daemons;
use crate::store::release_maps::{COMPONENT_IMAGES, OS_IMAGE};
use crate::store::{
    ClusterSettings, Configs, Nodes, OwnOperator, Pool, Pools, RolloutPolicies, SettingsMeta, Store,
};
use crate::work::Work;

impl Watched for Pools {
    type Object = MachineConfigPool;

    fn parse(object: MachineConfigPool) -> Pool {
        Pool::parse(object)
    }
}

impl Watched for Nodes {
    type Object = Node;

    const FORM: WatchForm<NodeView> = WatchForm::Protobuf(ProtobufForm {
        decode: NodeView::decode,
        head: |bytes, hasher| {
            let (name, version, content) = NodeView::head(bytes, hasher)?;
            Ok(Head {
                name,
                version,
                content,
            })
        },
        renew: |node, version| Arc::make_mut(node).resource_version = version,
    });

    fn parse(node: Node) -> NodeView {
        NodeView::parse(node)
    }
}

impl Watched for Configs {
    type Object = PartialObjectMeta<MachineConfig>;

    const FORM: WatchForm<ConfigMeta> = WatchForm::Metadata;

    fn parse(object: PartialObjectMeta<MachineConfig>) -> ConfigMeta {
        ConfigMeta::parse(object)
    }
}

impl Watched for ClusterSettings {
    type Object = PartialObjectMeta<MachineConfiguration>;

    const FORM: WatchForm<SettingsMeta> = WatchForm::Metadata;

    fn parse(object: PartialObjectMeta<MachineConfiguration>) -> SettingsMeta {
        SettingsMeta::parse(object)
    }
}

impl Watched for RolloutPolicies {
    type Object = RolloutPolicy;

    fn parse(mut object: RolloutPolicy) -> RolloutPolicy {
        object.metadata.managed_fields = None;
        object
    }
}

impl Watched for OwnOperator {
    type Object = ClusterOperator;

    fn parse(mut object: ClusterOperator) -> ClusterOperator {
        object.metadata.managed_fields = None;
        object
    }
}

/// Has the operator watch all that the process's decisions depend on.
pub fn watch_all(operator: Operator<Work>, store: &Store, duties: Duties) -> Operator<Work> {
    let mut operator = operator
        // What one pool selects is not another's.
        .watch(&store.pools, WatchScope::cluster(), |_, _| Wake::All)
        .watch(&store.configs, WatchScope::cluster(), |_, _| Wake::All)
        .watch(&store.controller_configs, WatchScope::cluster(), |_, _| {
            Wake::All
        })
        // It decides who changes the ControllerConfig.
        .watch(
            &store.os_image,
            WatchScope::namespace(NAMESPACE).named(OS_IMAGE),
            |_, _| Wake::All,
        );
    if duties.has_cluster() {
        operator = watch_cluster(operator, store);
    }
    if duties.has_pools() {
        operator = watch_nodes(operator, store);
        operator = store.generators.watch(operator);
    }
    store.generators.watch_streams(operator)
}

/// What a release says of itself, how far it is, and the metadata of the cluster's settings.
fn watch_cluster(operator: Operator<Work>, store: &Store) -> Operator<Work> {
    operator
        .watch(
            &store.settings,
            WatchScope::cluster()
                .named(machine_configuration::NAME)
                .optional(),
            // What they request in vain is reported with the release.
            |_, _| Wake::Keys(vec![Work::Settings, Work::Release]),
        )
        .watch(
            &store.component_images,
            WatchScope::namespace(NAMESPACE).named(COMPONENT_IMAGES),
            |_, _| Wake::Keys(vec![Work::Release]),
        )
        .watch(
            &store.daemons,
            WatchScope::namespace(NAMESPACE).named(daemons::NAME),
            |_, _| Wake::Keys(vec![Work::Release]),
        )
        .watch(
            &store.operators,
            WatchScope::cluster().named(status::NAME).optional(),
            |_, _| Wake::Keys(vec![Work::Release]),
        )
}

/// Nodes, what is written beside them, and what a rollout depends on.
fn watch_nodes(operator: Operator<Work>, store: &Store) -> Operator<Work> {
    let (pools, os_configs) = (store.pools.clone(), store.os_configs.clone());
    let lost = store.lost_objects.clone();
    cluster_stop::watch(operator, &store.stops)
        .watch(&store.nodes, WatchScope::cluster(), move |before, after| {
            let mut work = work_of(&pools, [before, after]);
            let of_images = |node: Option<&NodeView>| {
                node.map(|node| {
                    let status = &node.status;
                    [
                        status.current_image.clone(),
                        status.desired_image.clone(),
                        status
                            .failed_in
                            .as_ref()
                            .map(|failed| format!("{failed:?}")),
                        status.not_fetched.clone(),
                    ]
                })
            };
            // An image has to be there for those who get it, and may go once they left it. One that
            // a node cannot fetch may be gone.
            if of_images(before) != of_images(after) {
                let configs = os_configs.table();
                let names = configs.values();
                let names = names.filter_map(|config| config.metadata.name.clone());
                work.extend(names.map(Work::Build));
            }
            Wake::Keys(work)
        })
        .watch(
            &store.node_objects,
            WatchScope::cluster(),
            move |before, after| {
                lost.note(before, after);
                Wake::Keys(vec![Work::NodeObjects])
            },
        )
        .watch(
            &store.schedulers,
            WatchScope::cluster().named(scheduler::NAME).optional(),
            |_, _| Wake::All,
        )
        // Clusters without the definition have no policies.
        .watch(
            &store.policies,
            WatchScope::cluster().optional(),
            |before, after| {
                let name = before.or(after).and_then(|it| it.metadata.name.clone());
                Wake::Keys(name.map(Work::Pool).into_iter().collect())
            },
        )
        // Clusters may lack these kinds.
        .watch(
            &store.os_configs,
            WatchScope::cluster().optional(),
            |_, _| Wake::All,
        )
        .watch(
            &store.os_builds,
            WatchScope::cluster().optional(),
            |_, _| Wake::All,
        )
        .watch(
            &store.pinned_sets,
            WatchScope::cluster().optional(),
            |_, _| Wake::All,
        )
        .watch(
            &store.pull_secrets,
            WatchScope::namespace(PULL_SECRET.0).named(PULL_SECRET.1),
            |_, _| Wake::All,
        )
}

/// The pools that select a node in either of its states, and the work on new nodes.
fn work_of(pools: &Cache<Pools>, states: [Option<&NodeView>; 2]) -> Vec<Work> {
    let table = pools.table();
    let selects = |pool: &&Arc<Pool>| {
        let mut states = states.into_iter().flatten();
        states.any(|node| pool.view.selects(node))
    };
    let selecting = table.values().filter(selects);
    let mut pools: BTreeSet<&str> = selecting.map(|pool| pool.view.name.as_str()).collect();
    // A pool that shares its budget waits for this one's nodes.
    let partners: Vec<&str> = pools.iter().copied().filter_map(partner).collect();
    pools.extend(
        partners
            .into_iter()
            .filter(|pool| table.get(pool).is_some()),
    );
    let mut work: Vec<Work> = pools
        .into_iter()
        .map(|pool| Work::Pool(pool.to_owned()))
        .collect();
    if states[1].is_some_and(|node| node.initial_config.is_some()) {
        work.push(Work::NewNodes);
    }
    if node_objects::concerns(states[0], states[1]) {
        work.push(Work::NodeObjects);
    }
    work
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{OLD, node, read, settled};

    #[test]
    fn node_wakes_the_pools_that_select_it_or_selected_it() {
        let (cluster, _, _) = settled();
        let store = Store::default();
        cluster.fill(&store);
        let mut object = node("n", OLD);
        let member = NodeView::parse(read(&object));
        object["metadata"]["annotations"]["machineconfiguration.openshift.io/state"] =
            serde_json::json!("Working");
        let working = NodeView::parse(read(&object));
        object["metadata"]["labels"] = serde_json::json!({});
        object["metadata"]["annotations"]["machineconfiguration.openshift.io/firstPivotConfig"] =
            serde_json::json!("rendered-edge-1");
        let stranger = NodeView::parse(read(&object));
        let worker = Work::Pool("worker".to_owned());
        let table = [
            (
                [None, Some(&member)],
                vec![worker.clone(), Work::NodeObjects],
            ),
            (
                [Some(&member), None],
                vec![worker.clone(), Work::NodeObjects],
            ),
            ([Some(&member), Some(&working)], vec![worker.clone()]),
            (
                [Some(&member), Some(&stranger)],
                vec![worker, Work::NewNodes, Work::NodeObjects],
            ),
            ([Some(&stranger), None], vec![Work::NodeObjects]),
        ];
        for (states, expected) in table {
            assert_eq!(work_of(&store.pools, states), expected);
        }
    }
}
