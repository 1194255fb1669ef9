//! The first round of 20 pools at once, with 20 ms for each answer of the API server.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use api::machineconfiguration::{MachineConfig, MachineConfigPool, annotation, label};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use lab::audit::{Event, Verb};
use serde_json::{Value, json};
use testbed::Programs;
use tokio::time::Instant;

use crate::api_server::ApiServer;
use crate::changes::ms;
use crate::controller::asked;
use crate::figure::{Figure, Unit};
use crate::idle::count;

const POOLS: usize = 20;

/// Of each pool.
const NODES: usize = 100;

const BUDGET: &str = "10%";

/// Added to each answer.
const LATENCY: Duration = Duration::from_millis(20);

/// What each step may take: several times what it took with one request at a time.
const LIMIT: Duration = Duration::from_mins(5);

/// Time between two polls, short beside what is waited for.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// Between a new MachineConfig that all pools select and the moment when a node of each pool has
/// its assignment; beside it, until every other node has its taint.
///
/// Errors: the controller ends, or a step takes too long.
pub(crate) async fn measure(programs: &Programs, out: &Path) -> Result<Vec<Figure>> {
    let server = ApiServer::start(out, "rounds").await?;
    let pools = Api::<MachineConfigPool>::all(server.client.clone());
    let nodes = Api::<Node>::all(server.client.clone());
    let configs = Api::<MachineConfig>::all(server.client.clone());
    configs
        .create(&PostParams::default(), &config("00-all", "quiet")?)
        .await?;
    for pool in 0..POOLS {
        let object = serde_json::from_value(pool_object(pool))?;
        pools.create(&PostParams::default(), &object).await?;
    }
    let mut controller = server.controller(programs, LATENCY).await?;
    let targets = until("the pools are rendered", async || rendered(&pools).await).await?;
    let all = (0..POOLS).flat_map(|pool| (0..NODES).map(move |number| (pool, number)));
    let made = stream::iter(all).map(async |(pool, number)| {
        let target = targets.get(&pool_name(pool)).context("a pool is missing")?;
        let node = serde_json::from_value(node(pool, number, target))?;
        let node = nodes.create(&PostParams::default(), &node).await?;
        let ready = json!({ "status": { "conditions": [
            { "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "" }
        ] } });
        let name = node.metadata.name.unwrap_or_default();
        let params = PatchParams::default();
        nodes
            .patch_status(&name, &params, &Patch::Strategic(ready))
            .await?;
        anyhow::Ok(())
    });
    made.buffer_unordered(16).try_collect::<Vec<_>>().await?;
    until("the pools are updated", async || updated(&pools).await).await?;

    let began = Timestamp::now();
    configs
        .create(&PostParams::default(), &config("50-all", "loud")?)
        .await?;
    let log = server.control_plane.audit_log();
    let (first, last) = until("all nodes are assigned or tainted", async || {
        Ok(times(&asked(&log)?, began))
    })
    .await?;
    controller.process.check()?;
    let lists = asked(&log)?;
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

/// The target of each pool, once all have one.
pub(crate) async fn rendered(
    pools: &Api<MachineConfigPool>,
) -> Result<Option<BTreeMap<String, String>>> {
    let pools = pools.list(&kube::api::ListParams::default()).await?;
    let targets = pools.items.into_iter().map(|pool| {
        let target = pool.spec.configuration.name()?.to_owned();
        Some((pool.metadata.name?, target))
    });
    Ok(targets.collect())
}

async fn updated(pools: &Api<MachineConfigPool>) -> Result<Option<()>> {
    let pools = pools.list(&kube::api::ListParams::default()).await?;
    let is_updated = |pool: &MachineConfigPool| {
        let updated = pool
            .status
            .as_ref()
            .map(|status| status.updated_machine_count);
        updated.is_some_and(|updated| usize::try_from(updated) == Ok(NODES))
    };
    Ok(pools.items.iter().all(is_updated).then_some(()))
}

/// Polls until something is there.
pub(crate) async fn until<T>(
    what: &str,
    mut found: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = found().await? {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            bail!("not within {} s: {what}", LIMIT.as_secs());
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

fn pool_name(pool: usize) -> String {
    format!("pool-{pool:02}")
}

fn role(pool: usize) -> String {
    format!("node-role.kubernetes.io/{}", pool_name(pool))
}

fn config(name: &str, argument: &str) -> Result<MachineConfig> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { label::ROLE: "worker" } },
        "spec": { "kernelArguments": [argument] }
    }))?)
}

fn pool_object(pool: usize) -> Value {
    json!({
        "metadata": { "name": pool_name(pool) },
        "spec": {
            "maxUnavailable": BUDGET,
            "machineConfigSelector": { "matchLabels": { label::ROLE: "worker" } },
            "nodeSelector": { "matchLabels": { role(pool): "" } }
        }
    })
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
