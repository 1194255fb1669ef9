//! A rollout of 2,000 nodes in 10 pools, by daemons that only write what a daemon writes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::{MachineConfig, MachineConfigPool, PhaseName, annotation};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use lab::audit::{Event, Verb};
use serde_json::{Value, json};
use testbed::Programs;
use tokio::time::Instant;

use crate::api_server;
use crate::changes::ms;
use crate::controller::requests;
use crate::figure::{Figure, Unit};
use crate::idle::{count, float};
use crate::memory;
use crate::pools::{config, create_ready, pool_name, pool_object, rendered, role, until, updated};

const POOLS: usize = 10;

/// Of each pool.
const NODES: usize = 200;

/// How many of them the budget of a pool allows at once.
const AT_ONCE: usize = 20;

/// How long a phase takes, before it is spread by a fifth to either side.
const PHASE: Duration = Duration::from_secs(5);

/// Phases of a node's update.
const PHASES: usize = 3;

/// Decides how long each phase of each node takes.
const SEED: u64 = 20;

/// Seconds of one watch of the daemons.
const WATCH_SECS: u32 = 290;

/// What is measured of the controller between a new MachineConfig that all pools select and the
/// last node's report that it is done.
///
/// Errors: the controller ends, or a step takes too long.
pub(crate) async fn measure(programs: &Programs, out: &Path) -> Result<Vec<Figure>> {
    let server = api_server::start(out, "roll").await?;
    let pools = server.all::<MachineConfigPool>();
    let nodes = server.all::<Node>();
    let configs = server.all::<MachineConfig>();
    let params = PostParams::default();
    configs.create(&params, &config("00-all", "quiet")?).await?;
    for pool in 0..POOLS {
        let object = serde_json::from_value(pool_object(pool))?;
        pools.create(&params, &object).await?;
    }
    let mut controller = api_server::controller(&server, programs, Duration::ZERO).await?;
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
    // What follows their creation is no part of the rollout: each has its MachineConfigNode.
    tokio::time::sleep(PHASE).await;

    let bounds = bounds(&nodes.list(&ListParams::default()).await?.items)?;
    let daemons = Daemons::start(nodes.clone());
    let (began, start) = (Timestamp::now(), Instant::now());
    configs.create(&params, &config("50-all", "loud")?).await?;
    let done = until("all nodes are done", async || daemons.ends()).await?;
    let ended = Timestamp::now();
    until("the pools are updated", async || {
        updated(&pools, NODES).await
    })
    .await?;
    daemons.stop();
    controller.process.check()?;

    let sent = requests(&server.control_plane.audit_log())?;
    let sent: Vec<Event> = sent
        .into_iter()
        .filter(|event| event.received >= began)
        .collect();
    let first_assigned = first_told(&sent).context("no node was assigned")?;
    // Not of kinds that this API server lacks: requests for them are repeated.
    let is_served = |event: &&Event| {
        let status = event.status.as_ref();
        status.is_none_or(|status| status.code != 404)
    };
    let lists = sent.iter().filter(|event| event.verb == Verb::List);
    // One head, where a watch ended early: whether the API server has an older state than it.
    let (positions, lists): (Vec<&Event>, Vec<&Event>) = lists
        .filter(is_served)
        .partition(|event| event.uri.ends_with("?limit=1"));
    ensure!(
        lists.len() <= POOLS,
        "the controller listed objects for a rollout of which it knows all"
    );
    let ratios = bounds.iter().map(|(pool, bound)| {
        let end = done.get(pool).context("a pool has no end")?;
        Ok(end.duration_since(start).as_secs_f64() / bound.as_secs_f64())
    });
    let ratios = ratios.collect::<Result<Vec<f64>>>()?;
    let all = POOLS * NODES;
    let memory = memory::of(controller.process.id())?;
    let bound = bounds.values().max().copied().unwrap_or_default();
    Ok(vec![
        Figure::new("mcc_first_told_ms", ms(began, first_assigned))?.beside(
            "nodes",
            count(all),
            Unit::Count,
        ),
        Figure::new("mcc_requests_per_node", count(sent.len()) / count(all))?
            .beside("requests", count(sent.len()), Unit::Count)
            .beside("watches begun again", count(positions.len()), Unit::Count),
        Figure::new("mcc_rss", float(memory.resident))?.beside(
            "peak",
            float(memory::peak_of(controller.process.id())?),
            Unit::Bytes,
        ),
        Figure::new(
            "pool_makespan_ratio",
            ratios.into_iter().fold(0.0, f64::max),
        )?
        .of(POOLS)
        .beside("rollout", ms(began, ended), Unit::Ms)
        .beside("bound", bound.as_secs_f64() * 1e3, Unit::Ms),
    ])
}

/// When the first node was assigned.
fn first_told(sent: &[Event]) -> Option<Timestamp> {
    let path = format!(
        "/metadata/annotations/{}",
        annotation::DESIRED_CONFIG.replace('/', "~1")
    );
    let assigns = |event: &&Event| {
        let is_done = event
            .status
            .as_ref()
            .is_some_and(|status| status.code == 200);
        let request = event.request.as_ref();
        is_done
            && event.verb == Verb::Patch
            && event.concerns("", "nodes")
            && request.is_some_and(|request| request.pointer(&path).is_some())
    };
    sent.iter().filter(assigns).map(|event| event.at).min()
}

/// How long each pool takes if a node is assigned in the moment in which another one is done, in
/// the order of their creation and names.
fn bounds(nodes: &[Node]) -> Result<BTreeMap<usize, Duration>> {
    let mut jobs: BTreeMap<usize, Vec<_>> = BTreeMap::new();
    for node in nodes {
        let name = node.metadata.name.clone().unwrap_or_default();
        let (pool, number) = place(&name).with_context(|| format!("node {name} is no such"))?;
        let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
        jobs.entry(pool).or_default().push((created, name, number));
    }
    let bounds = jobs.into_iter().map(|(pool, mut jobs)| {
        jobs.sort();
        let durations = jobs.iter().map(|(_, _, number)| length(pool, *number));
        (pool, makespan(durations, AT_ONCE))
    });
    Ok(bounds.collect())
}

/// The end of the last of these jobs, each begun in their order as soon as fewer than `at_once`
/// run.
fn makespan(durations: impl Iterator<Item = Duration>, at_once: usize) -> Duration {
    let mut ends: BinaryHeap<Reverse<Duration>> = BinaryHeap::new();
    let mut last = Duration::ZERO;
    for duration in durations {
        let begin = if ends.len() < at_once {
            Duration::ZERO
        } else {
            ends.pop().map_or(Duration::ZERO, |Reverse(end)| end)
        };
        last = last.max(begin + duration);
        ends.push(Reverse(begin + duration));
    }
    last
}

/// How long a phase of a node takes: the same in each run.
fn phase(pool: usize, number: usize, phase: usize) -> Duration {
    let place = (pool * NODES + number) * PHASES + phase;
    // Splitmix64: neighbours have nothing in common.
    let mut mixed = SEED.wrapping_add((place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let permille = 800 + (mixed ^ (mixed >> 31)) % 401;
    PHASE * u32::try_from(permille).unwrap_or(1000) / 1000
}

fn length(pool: usize, number: usize) -> Duration {
    (0..PHASES).map(|at| phase(pool, number, at)).sum()
}

/// The daemons of all nodes, behind one watch. They end when this is dropped.
struct Daemons {
    shared: Arc<Shared>,
    watch: tokio::task::JoinHandle<()>,
}

struct Shared {
    nodes: Api<Node>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Nodes that are being updated.
    busy: BTreeSet<String>,
    /// What each node has fetched before its turn.
    fetched: BTreeMap<String, String>,
    /// How many nodes of each pool are done, and when the last of them was.
    done: BTreeMap<usize, (usize, Option<Instant>)>,
    /// What went wrong first.
    fault: Option<String>,
}

impl State {
    /// Whether a node begins to fetch a configuration, which is noted.
    fn fetches(&mut self, name: &str, config: &str) -> bool {
        let before = self.fetched.insert(name.to_owned(), config.to_owned());
        before.is_none_or(|before| before != config)
    }
}

impl Daemons {
    fn start(nodes: Api<Node>) -> Self {
        let shared = Arc::new(Shared {
            nodes,
            state: Mutex::new(State::default()),
        });
        let watching = Arc::clone(&shared);
        let watch = tokio::spawn(async move {
            if let Err(error) = watching.watch().await {
                watching.fail(&error);
            }
        });
        Self { shared, watch }
    }

    /// When the last node of each pool was done; nothing while nodes are missing.
    fn ends(&self) -> Result<Option<BTreeMap<usize, Instant>>> {
        let state = self.shared.state();
        if let Some(fault) = &state.fault {
            anyhow::bail!("a daemon failed: {fault}");
        }
        let done = state.done.iter();
        let ends = done.filter(|(_, (count, _))| *count == NODES);
        let ends = ends.filter_map(|(pool, (_, end))| Some((*pool, (*end)?)));
        let ends: BTreeMap<usize, Instant> = ends.collect();
        Ok((ends.len() == POOLS).then_some(ends))
    }

    fn stop(self) {
        self.watch.abort();
    }
}

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: &anyhow::Error) {
        self.state()
            .fault
            .get_or_insert_with(|| format!("{error:#}"));
    }

    /// Starts the update of each node that is assigned another configuration than it runs.
    async fn watch(self: &Arc<Self>) -> Result<()> {
        let list = self.nodes.list_metadata(&ListParams::default()).await?;
        let mut version = list.metadata.resource_version.unwrap_or_default();
        loop {
            let params = WatchParams::default().timeout(WATCH_SECS);
            let mut events = self.nodes.watch_metadata(&params, &version).await?.boxed();
            while let Some(event) = events.try_next().await? {
                let node = match event {
                    WatchEvent::Added(node) | WatchEvent::Modified(node) => node,
                    WatchEvent::Deleted(_) => continue,
                    WatchEvent::Bookmark(bookmark) => {
                        version = bookmark.metadata.resource_version;
                        continue;
                    }
                    WatchEvent::Error(error) => anyhow::bail!("the watch ended: {error:?}"),
                };
                version = node.metadata.resource_version.unwrap_or_default();
                let name = node.metadata.name.unwrap_or_default();
                let annotations = node.metadata.annotations.unwrap_or_default();
                let next = annotations.get(annotation::NEXT_CONFIG);
                if let Some(next) = next.filter(|next| self.state().fetches(&name, next)) {
                    self.fetch(name.clone(), next.clone());
                }
                let desired = annotations.get(annotation::DESIRED_CONFIG);
                let is_assigned = desired != annotations.get(annotation::CURRENT_CONFIG);
                if let Some(desired) = desired.filter(|_| is_assigned)
                    && self.state().busy.insert(name.clone())
                {
                    let (shared, desired) = (Arc::clone(self), desired.clone());
                    tokio::spawn(async move {
                        if let Err(error) = shared.update(&name, &desired).await {
                            shared.fail(&error.context(name));
                        }
                    });
                }
            }
        }
    }

    /// Writes what a daemon writes that has fetched a configuration before its turn, as long after
    /// it was named as a phase takes.
    fn fetch(self: &Arc<Self>, name: String, config: String) {
        let shared = Arc::clone(self);
        let lasts = place(&name).map(|(pool, number)| phase(pool, number, 0));
        tokio::spawn(async move {
            tokio::time::sleep(lasts.unwrap_or_default()).await;
            let fetched = json!({ annotation::FETCHED: config });
            if let Err(error) = shared.patch(&name, &fetched, &json!({})).await {
                shared.fail(&error.context(name));
            }
        });
    }

    /// Writes what a daemon writes in an update that drains and reboots.
    async fn update(&self, name: &str, desired: &str) -> Result<()> {
        let (pool, number) = place(name).context("no such node")?;
        let drain = format!("drain-{desired}");
        let now = || Timestamp::now().to_string();
        self.patch(
            name,
            &json!({
                annotation::STATE: "Working",
                annotation::PHASE: PhaseName::Draining.to_string(),
                annotation::SINCE: now(),
                annotation::CORDONED_BY: "1",
                annotation::DRAIN_SINCE: now(),
                annotation::DESIRED_DRAIN: drain
            }),
            &json!({ "unschedulable": true }),
        )
        .await?;
        tokio::time::sleep(phase(pool, number, 0)).await;
        self.patch(
            name,
            &json!({
                annotation::PHASE: PhaseName::Applying.to_string(),
                annotation::SINCE: now(),
                annotation::LAST_APPLIED_DRAIN: drain,
                annotation::DRAIN_SINCE: null
            }),
            &json!({}),
        )
        .await?;
        tokio::time::sleep(phase(pool, number, 1)).await;
        self.patch(
            name,
            &json!({
                annotation::PHASE: PhaseName::Verifying.to_string(),
                annotation::SINCE: now()
            }),
            &json!({}),
        )
        .await?;
        tokio::time::sleep(phase(pool, number, 2)).await;
        let uncordon = format!("uncordon-{desired}");
        self.patch(
            name,
            &json!({
                annotation::STATE: "Done",
                annotation::PHASE: PhaseName::Idle.to_string(),
                annotation::SINCE: now(),
                annotation::CURRENT_CONFIG: desired,
                annotation::CORDONED_BY: null,
                annotation::DESIRED_DRAIN: uncordon,
                annotation::LAST_APPLIED_DRAIN: uncordon
            }),
            &json!({ "unschedulable": null }),
        )
        .await?;
        let mut state = self.state();
        state.busy.remove(name);
        let (count, end) = state.done.entry(pool).or_default();
        *count += 1;
        *end = Some(Instant::now());
        Ok(())
    }

    async fn patch(&self, name: &str, annotations: &Value, spec: &Value) -> Result<()> {
        let patch = json!({ "metadata": { "annotations": annotations }, "spec": spec });
        let params = PatchParams::default();
        let patch = Patch::Merge(&patch);
        self.nodes.patch_metadata(name, &params, &patch).await?;
        Ok(())
    }
}

/// Pool and number of a node by its name.
fn place(node: &str) -> Option<(usize, usize)> {
    let (pool, number) = node.strip_prefix("pool-")?.split_once('-')?;
    Some((pool.parse().ok()?, number.parse().ok()?))
}

fn node(pool: usize, number: usize, target: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("{}-{number:03}", pool_name(pool)),
            "labels": { role(pool): "" },
            "annotations": {
                annotation::CURRENT_CONFIG: target,
                annotation::DESIRED_CONFIG: target,
                annotation::STATE: "Done",
                annotation::PHASE: PhaseName::Idle.to_string()
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_begin_when_one_of_those_that_run_ends() {
        let seconds = |all: &[u64]| {
            let durations = all.iter().map(|secs| Duration::from_secs(*secs));
            makespan(durations, 2).as_secs()
        };
        assert_eq!(seconds(&[]), 0);
        assert_eq!(seconds(&[3, 5]), 5);
        assert_eq!(seconds(&[3, 5, 1, 4]), 8);
    }

    #[test]
    fn phases_are_spread_by_a_fifth_and_the_same_in_each_run() {
        let all = (0..POOLS).flat_map(|pool| (0..NODES).map(move |number| (pool, number)));
        let all: BTreeSet<Duration> = all.map(|(pool, number)| phase(pool, number, 0)).collect();
        let (first, last) = (all.first().unwrap(), all.last().unwrap());
        assert!(*first >= Duration::from_secs(4) && *last <= Duration::from_secs(6));
        assert!(all.len() > 300, "{}", all.len());
        assert_eq!(phase(3, 7, 1), phase(3, 7, 1));
        assert_eq!(place("pool-03-007"), Some((3, 7)));
    }
}
