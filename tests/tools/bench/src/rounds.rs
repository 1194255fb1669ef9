//! The first round of 20 pools at once, with 20 ms for each response of the API server.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::{MachineConfig, MachineConfigPool, annotation};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use lab::audit::{Event, Verb};
use serde_json::{Value, json};
use testbed::Programs;

use crate::api_server;
use crate::changes::ms;
use crate::controller::node_requests;
use crate::figure::{Figure, Unit};
use crate::idle::count;
use crate::pools::{config, create_ready, pool_name, pool_object, rendered, role, until, updated};

const POOLS: usize = 20;

/// Of each pool.
const NODES: usize = 100;

/// Added to each response.
const LATENCY: Duration = Duration::from_millis(20);

/// Between a new MachineConfig that all pools select and the moment when a node of each pool has
/// its assignment; beside it, until every other node has its taint.
///
/// Errors: the controller ends, or a step takes too long.
pub(crate) async fn measure(programs: &Programs, out: &Path) -> Result<Vec<Figure>> {
    let server = api_server::start(out, "rounds").await?;
    let pools = server.all::<MachineConfigPool>();
    let nodes = server.all::<Node>();
    let configs = server.all::<MachineConfig>();
    configs
        .create(&PostParams::default(), &config("00-all", "quiet")?)
        .await?;
    for pool in 0..POOLS {
        let object = serde_json::from_value(pool_object(pool))?;
        pools.create(&PostParams::default(), &object).await?;
    }
    let mut controller = api_server::controller(&server, programs, LATENCY).await?;
    let targets = until("the pools are rendered", async || rendered(&pools).await).await?;
    let all = (0..POOLS).flat_map(|pool| (0..NODES).map(move |number| (pool, number)));
    let made = stream::iter(all).map(async |(pool, number)| {
        let target = targets.get(&pool_name(pool)).context("a pool is missing")?;
        create_ready(&nodes, &node(pool, number, target)).await
    });
    made.buffer_unordered(16).try_collect::<Vec<_>>().await?;
    until("the pools are updated", async || {
        updated(&pools, NODES).await
    })
    .await?;

    let began = Timestamp::now();
    configs
        .create(&PostParams::default(), &config("50-all", "loud")?)
        .await?;
    let log = server.control_plane.audit_log();
    let (first, last) = until("all nodes are assigned or tainted", async || {
        Ok(times(&node_requests(&log)?, began))
    })
    .await?;
    controller.process.check()?;
    let lists = node_requests(&log)?;
    let lists = lists
        .iter()
        .filter(|event| event.verb == Verb::List && event.received >= began);
    ensure!(
        lists.count() == 0,
        "the controller listed nodes for a round"
    );
    Ok(vec![
        Figure::new("first_round_ms", ms(began, first))?
            .beside("all nodes assigned or tainted", ms(began, last), Unit::Ms)
            .beside("nodes", count(POOLS * NODES), Unit::Count),
    ])
}

/// When the last pool had its first assignment, and when the last node was written; nothing while
/// nodes are missing.
fn times(events: &[Event], since: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let mut first: BTreeMap<&str, Timestamp> = BTreeMap::new();
    let mut written: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for event in events {
        let done = event
            .status
            .as_ref()
            .is_some_and(|status| status.code == 200);
        if event.verb != Verb::Patch || event.received < since || !done {
            continue;
        }
        let name = event.object.as_ref()?.name.as_str();
        written.entry(name).or_insert(event.at);
        let path = format!(
            "/metadata/annotations/{}",
            annotation::DESIRED_CONFIG.replace('/', "~1")
        );
        let request = event.request.as_ref()?;
        if request.pointer(&path).is_some() {
            let pool = name.rsplit_once('-')?.0;
            first.entry(pool).or_insert(event.at);
        }
    }
    let are_all = first.len() == POOLS && written.len() == POOLS * NODES;
    let last = |times: &BTreeMap<&str, Timestamp>| times.values().max().copied();
    are_all.then(|| Some((last(&first)?, last(&written)?)))?
}

fn node(pool: usize, number: usize, target: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("{}-{number:03}", pool_name(pool)),
            "labels": { role(pool): "" },
            "annotations": {
                annotation::CURRENT_CONFIG: target,
                annotation::DESIRED_CONFIG: target,
                annotation::STATE: "Done"
            }
        }
    })
}
