//! `slipway pool`, `slipway node` and `slipway watch`: what pools and nodes run, want and wait for.
//!
//! All of it is read from the objects that the controller and the daemons write: nothing is decided
//! here a second time.
//!
//! - `arguments`: options
//! - `watch`: pools and nodes while they change
//! - `eviction`: which pods a drain would evict, and the response of the API server

pub mod arguments;
mod eviction;
pub(crate) mod watch;

use anyhow::{Context as _, bail};
use api::machineconfiguration::{
    MachineConfigPool, MachineOSBuild, MachineOSConfig, OSImageStream, Target,
};
use cluster::access::Access;
use cluster::list::{Select, list};
use cluster::wire;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use pool::node::NodeView;
use serde::Serialize;

use self::arguments::{NodeArgs, PoolArgs};
use crate::config_diff;
use crate::decide::pools::node_view::NodeDetails;
use crate::decide::pools::objects::PoolObjects;
use crate::decide::pools::view::{self, PoolDetails};
use crate::failure::Ending;
use crate::output::show;
use crate::stopping;

/// What `slipway pool` prints for programs.
#[derive(Debug, Serialize)]
struct PoolList {
    pools: Vec<PoolDetails>,
    /// Nodes that no pool manages, each with the reason.
    unmanaged: Vec<String>,
}

pub(crate) async fn show_pools(arguments: PoolArgs) -> anyhow::Result<Ending> {
    if let (Some(name), Some(verb)) = (&arguments.name, arguments.verb) {
        return stopping::pool(name, verb, &arguments.reason, &arguments.cluster).await;
    }
    stopping::check_without_verb(&arguments.reason, "stop")?;
    let access = arguments.cluster.access()?;
    let (pools, nodes) = read(&access).await?;
    let now = Timestamp::now();
    let (mut details, unmanaged) = view::pools(&pools, &nodes, now);
    if let Some(name) = &arguments.name {
        details.retain(|pool| pool.name() == name);
        if details.is_empty() {
            bail!("MachineConfigPool {name}: there is no such pool");
        }
    }
    let list = PoolList {
        pools: details,
        unmanaged,
    };
    show(arguments.cluster.output, &list, || {
        view::text(&list.pools, &list.unmanaged)
    })?;
    Ok(if list.pools.iter().any(PoolDetails::needs_attention) {
        Ending::NeedsAttention
    } else {
        Ending::Done
    })
}

pub(crate) async fn show_node(arguments: NodeArgs) -> anyhow::Result<Ending> {
    let name = &arguments.name;
    if let Some(verb) = arguments.verb {
        return stopping::node(name, verb, &arguments.reason, &arguments.cluster).await;
    }
    stopping::check_without_verb(&arguments.reason, "hold")?;
    let access = arguments.cluster.access()?;
    let (pools, nodes) = read(&access).await?;
    let Some(node) = nodes.iter().find(|node| &node.name == name) else {
        bail!("Node {name}: there is no such node");
    };
    if let Some(to) = &arguments.plan_to {
        let current = node.status.current_config.as_deref();
        let current = current.with_context(|| {
            format!("Node {name}: its daemon has not reported a configuration (no currentConfig)")
        })?;
        let from = Target {
            config: current.to_owned(),
            image: node.status.current_image.clone(),
        };
        let to = plan_target(to, &pools)?;
        let registries = arguments.packages.then_some(&arguments.access);
        return config_diff::plan_for(&arguments.cluster, &access, [&from, &to], registries).await;
    }
    let trials = if arguments.try_drain {
        let trials = eviction::try_drain(&access, name).await;
        Some(trials.with_context(|| format!("Node {name}: cannot list its pods"))?)
    } else {
        None
    };
    let details = NodeDetails::new(node, &pools, trials, Timestamp::now());
    show(arguments.cluster.output, &details, || details.text())?;
    Ok(if details.needs_attention() {
        Ending::NeedsAttention
    } else {
        Ending::Done
    })
}

/// What `--plan-to` names: a MachineConfig, or as `pool/NAME` what a pool wants.
///
/// # Errors
/// There is no such pool, or it wants nothing yet.
fn plan_target(to: &str, pools: &PoolObjects) -> anyhow::Result<Target> {
    let Some(name) = to.strip_prefix("pool/") else {
        return Ok(Target {
            config: to.to_owned(),
            image: None,
        });
    };
    let pool = pools.views().into_iter().find(|pool| pool.name == name);
    let pool = pool.with_context(|| format!("MachineConfigPool {name}: there is no such pool"))?;
    let target = pool.target.with_context(|| {
        format!("MachineConfigPool {name}: it has no configuration yet (spec.configuration.name)")
    })?;
    Ok(target)
}

async fn read(access: &Access) -> anyhow::Result<(PoolObjects, Vec<NodeView>)> {
    let (pools, nodes, images, os_streams) = tokio::join!(
        list(access, Select::All, |pool: MachineConfigPool| pool),
        list(access, Select::All, |node: Node| NodeView::parse(node)),
        read_images(access),
        list(access, Select::All, |streams: OSImageStream| streams),
    );
    let pools = pools.context("cannot list MachineConfigPools")?;
    let nodes = nodes.context("cannot list Nodes")?;
    let (os_configs, os_builds) = images?;
    let objects = PoolObjects {
        pools,
        os_configs,
        os_builds,
        os_streams: known(os_streams).context("cannot list OSImageStreams")?,
    };
    Ok((objects, nodes))
}

/// What is built for pools. A cluster without pools in image mode costs one request.
async fn read_images(
    access: &Access,
) -> anyhow::Result<(Vec<MachineOSConfig>, Vec<MachineOSBuild>)> {
    let configs = list(access, Select::All, |config: MachineOSConfig| config).await;
    let configs = known(configs).context("cannot list MachineOSConfigs")?;
    if configs.is_empty() {
        return Ok((configs, Vec::new()));
    }
    let builds = list(access, Select::All, |build: MachineOSBuild| build).await;
    let builds = known(builds).context("cannot list MachineOSBuilds")?;
    Ok((configs, builds))
}

/// What was listed of a kind that a cluster may lack.
fn known<T>(listed: Result<Vec<T>, wire::Error>) -> Result<Vec<T>, wire::Error> {
    match listed {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        listed => listed,
    }
}
