//! The watches that fill the store.

use std::sync::Arc;

use api::{ControllerConfig, MachineConfig, MachineConfigPool};
use chassis::shutdown::Shutdown;
use cluster::access::Access;
use cluster::collection::{Scope, follow};
use k8s_openapi::api::core::v1::Node;
use kube::core::PartialObjectMeta;
use pool::node::NodeView;

use crate::configs::ConfigMeta;
use crate::requests::{CONFIGS, CONTROLLER_CONFIGS, NODES, POOLS};
use crate::store::{Pool, Store};

/// Follows pools, nodes, the metadata of MachineConfigs and the ControllerConfig, until the shutdown.
pub async fn follow_all(access: Arc<Access>, store: Arc<Store>, shutdown: Shutdown) {
    let all_pools = Scope::all(POOLS);
    let all_nodes = Scope::all(NODES);
    let all_configs = Scope::all(CONFIGS).metadata_only();
    let all_controller_configs = Scope::all(CONTROLLER_CONFIGS);
    let pools = follow::<MachineConfigPool, _>(
        &access,
        &all_pools,
        Pool::parse,
        |news| store.learn_pools(news),
        shutdown.clone(),
    );
    let nodes = follow::<Node, _>(
        &access,
        &all_nodes,
        NodeView::parse,
        |news| store.learn_nodes(news),
        shutdown.clone(),
    );
    let configs = follow::<PartialObjectMeta<MachineConfig>, _>(
        &access,
        &all_configs,
        ConfigMeta::parse,
        |news| store.learn_configs(news),
        shutdown.clone(),
    );
    let controller_configs = follow::<ControllerConfig, _>(
        &access,
        &all_controller_configs,
        |mut config| {
            config.metadata.managed_fields = None;
            config
        },
        |news| store.learn_controller_configs(news),
        shutdown,
    );
    tokio::join!(pools, nodes, configs, controller_configs);
}
