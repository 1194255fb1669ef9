//! One pool is reconciled: rendered, decided, assigned and reported. New nodes get their labels,
//! and the cluster's settings their status.
//!
//! - `authorities`: certificate authorities that a paused pool misses
//! - `imaging`: OS images of a pool
//! - `pinning`: pinned image sets of a pool
//! - `publishing`: status, events and metrics of a pool

mod authorities;
mod imaging;
mod pinning;
mod publishing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use api::machineconfiguration::Target;
use chassis::report::Chain;
use cluster::cache::WatchEvent;
use cluster::events::Recorder;
use cluster::wire;
use futures::StreamExt as _;
use futures::stream;
use jiff::{SignedDuration, Timestamp};
use operator::{Next, Reconcile};
use pool::hold::Hold;
use pool::membership::{Conflict, claim_holder, lost_pool, partner};
use pool::policy::{RolloutPolicy, SeenDrains};
use pool::previous::previous;
use pool::rehearsal::rehearser;
use pool::status::{RenderResult, StatusInput, status};
use pool::view::{PoolView, unhandled};
use pool::write::{ClusterFacts, NodeWrite};
use tokio::sync::Semaphore;
use web::prometheus::MetricsServer;

use self::authorities::KnownAuthorities;
use crate::assign::{Assigner, Round};
use crate::building::{BuildOptions, Building, BuildingState};
use crate::certificates;
use crate::context::{Context, WRITES, lock};
use crate::decide;
use crate::decide::reporting;
use crate::decide::unused::Retention;
use crate::duties::Duties;
use crate::events::{PendingAssignments, Unlabelled};
use crate::generating::{self, Generating, GeneratingState};
use crate::metrics::ControllerMetrics;
use crate::node_objects::{self, AnnouncedCertificates};
use crate::observed::Observed;
use crate::operating::{Operating, ReleaseState};
use crate::policy_inputs::{self, PolicyInputs};
use crate::removal;
use crate::rendering::{self, RenderCache};
use crate::requests::Requests;
use crate::settings;
use crate::store::{Pool, SettingsMeta, Snapshot, Store};
use crate::stored::{self, CheckedTarget};
use crate::version::USER_AGENT;
use crate::work::Work;

/// Assignments of all pools that are under way at once. Each has a connection, and an API server
/// that is flooded with writes ends the watches that bring what they change.
const ASSIGNMENTS: usize = 24;

/// A time that a rollout policy waits for may be a moment ahead.
const SHORTEST_WAIT: SignedDuration = SignedDuration::from_secs(1);

/// Does the controller's work.
#[derive(Debug)]
pub struct Controller {
    duties: Duties,
    pub(crate) context: Context,
    /// Which unused configurations are kept.
    retention: Retention,
    /// The node that it runs on; none where the options do not name it.
    node: Option<String>,
    /// The server for the queries of rollout policies.
    metrics_server: MetricsServer,
    pools: Mutex<BTreeMap<String, PoolState>>,
    assignments: Semaphore,
    /// The settings whose status is as it should be. Only a change of them can make it wrong.
    settled: Mutex<Option<SettingsMeta>>,
    release: ReleaseState,
    /// Managed nodes that no pool selects, as they were last reported.
    orphans: Mutex<BTreeSet<String>>,
    /// Nodes that did not get the labels of the pool they were made for, as last reported.
    unlabelled: Mutex<BTreeMap<String, Unlabelled>>,
    generating: Mutex<GeneratingState>,
    /// The certificates that were announced on Nodes.
    announced: Mutex<Option<AnnouncedCertificates>>,
    building: Mutex<BuildingState>,
    build_options: BuildOptions,
}

/// What is remembered of a pool from one reconcile to the next. All of it can be lost.
#[derive(Debug, Default)]
struct PoolState {
    rendering: Option<RenderCache>,
    checked: Option<CheckedTarget>,
    policy_inputs: PolicyInputs,
    /// Drains of its nodes, and when they were first seen.
    drains: SeenDrains,
    /// Generation for which an event reported that a selector takes everything.
    warned: Option<i64>,
    /// When its status was written last.
    reported: Option<Timestamp>,
    pending: PendingAssignments,
    authorities: KnownAuthorities,
}

impl Reconcile for Controller {
    type Key = Work;
    type Error = wire::Error;

    fn keys(&self) -> Vec<Work> {
        let pools = self.context.store.pools.table();
        let pools = pools
            .values()
            .map(|pool| Work::Pool(pool.view.name.clone()));
        let builds = decide::building::names(&self.context.store.snapshot());
        let builds = builds.into_iter().map(Work::Build);
        let has_generated = generating::has_generated(&self.context.store);
        let has_release = self.context.store.has_release();
        let has_config = self
            .context
            .store
            .controller_configs
            .table()
            .values()
            .next()
            .is_some();
        [
            Work::NewNodes,
            Work::NodeObjects,
            Work::Unused,
            Work::Settings,
        ]
        .into_iter()
        .chain(has_config.then_some(Work::Certificates))
        .chain(has_generated.then_some(Work::Generated))
        .chain(has_release.then_some(Work::Release))
        .chain(builds)
        .chain(pools)
        .filter(|work| self.duties.cover(work))
        .collect()
    }

    async fn reconcile(&self, work: &Work) -> Result<Next, wire::Error> {
        let snapshot = self.context.store.snapshot();
        self.forget_deleted(&snapshot);
        let result = match work {
            Work::NewNodes => Ok(self.label_new_nodes(&snapshot).await),
            Work::NodeObjects => {
                Ok(node_objects::reconcile(&self.context, &self.announced, &snapshot).await)
            }
            Work::Unused => Ok(removal::remove(&self.context, self.retention, &snapshot).await),
            Work::Settings => settings::reconcile_kept(&self.context, &self.settled).await,
            Work::Certificates => certificates::reconcile(&self.context).await,
            Work::Generated => {
                let (context, state) = (&self.context, &self.generating);
                Box::pin(Generating { context, state }.reconcile(&snapshot)).await
            }
            Work::Release => {
                let (context, state) = (&self.context, &self.release);
                Box::pin(Operating { context, state }.reconcile(&snapshot)).await
            }
            Work::Build(name) => {
                let (context, state, options) =
                    (&self.context, &self.building, &self.build_options);
                let building = Building {
                    context,
                    state,
                    options,
                    name,
                };
                Box::pin(building.reconcile()).await
            }
            Work::Pool(name) => Box::pin(self.reconcile_pool(&snapshot, name)).await,
        };
        match result {
            Err(error) if error.is_conflict() => {
                tracing::debug!(%work, "object changed meanwhile");
                Ok(Next::Retry)
            }
            result => result,
        }
    }
}

impl Controller {
    /// A controller that remembers nothing yet.
    pub const fn new(
        requests: Requests,
        store: Store,
        recorder: Recorder,
        metrics: Arc<ControllerMetrics>,
        clock: fn() -> Timestamp,
    ) -> Self {
        Self {
            duties: Duties::All,
            context: Context::new(requests, store, recorder, metrics, clock),
            retention: Retention::DEFAULT,
            node: None,
            metrics_server: MetricsServer {
                user_agent: USER_AGENT,
                url: None,
                authority: None,
                token: None,
            },
            pools: Mutex::new(BTreeMap::new()),
            assignments: Semaphore::const_new(ASSIGNMENTS),
            settled: Mutex::new(None),
            release: ReleaseState::new(),
            orphans: Mutex::new(BTreeSet::new()),
            unlabelled: Mutex::new(BTreeMap::new()),
            generating: Mutex::new(GeneratingState::new()),
            announced: Mutex::new(None),
            building: Mutex::new(BuildingState::new()),
            build_options: BuildOptions {
                builder: None,
                is_insecure: false,
            },
        }
    }

    /// Does this part of the work alone.
    #[must_use]
    pub const fn with_duties(mut self, duties: Duties) -> Self {
        self.duties = duties;
        self
    }

    /// Keeps so many unused configurations.
    #[must_use]
    pub const fn keeping(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Sets the node that this controller runs on, if the options name it: it goes last.
    #[must_use]
    pub fn on_node(mut self, node: Option<String>) -> Self {
        self.node = node;
        self
    }

    /// Sets the server for the queries of rollout policies.
    #[must_use]
    pub fn with_metrics_server(mut self, server: MetricsServer) -> Self {
        self.metrics_server = server;
        self
    }

    /// Sets the image of the builder, where the release names none.
    #[must_use]
    pub fn building_with(mut self, image: Option<String>) -> Self {
        self.build_options.builder = image;
        self
    }

    /// Gives nodes that were provisioned for a custom pool its labels. That wakes the pool.
    async fn label_new_nodes(&self, snapshot: &Snapshot) -> Next {
        let mut writes = Vec::new();
        let mut unlabelled = BTreeMap::new();
        for node in snapshot.nodes.values() {
            let initial = snapshot.initial_pool(node);
            let write = initial.and_then(|initial| NodeWrite::initial_labels(node, initial));
            match (initial, write) {
                (Some(initial), Some(write)) => writes.push((write, initial.pool().name.clone())),
                (Some(initial), None) => {
                    let why = Unlabelled::Unknown(initial.pool().name.clone());
                    unlabelled.insert(node.name.clone(), why);
                }
                (None, _) => {
                    let pools = snapshot.pools.values().map(|pool| pool.view.name.as_str());
                    if let Some(lost) = lost_pool(node, pools) {
                        unlabelled.insert(node.name.clone(), Unlabelled::Lost(lost.to_owned()));
                    }
                }
            }
        }
        self.report_unlabelled(&unlabelled, snapshot);
        let writes = writes.into_iter().map(async |(write, pool)| {
            let _turn = self.context.other_writes.acquire().await;
            let result = self.context.requests.write_node(&write).await;
            (write.node, pool, result)
        });
        let mut written = stream::iter(writes).buffered(WRITES);
        let mut next = Next::Settled;
        while let Some((node, pool, result)) = written.next().await {
            match result {
                Ok(written) => {
                    tracing::info!(node, pool, "gave a node its initial labels");
                    self.context.store.nodes.refresh(written);
                }
                Err(error) if error.is_not_found() => {}
                // A heartbeat changes a node, and wakes nothing.
                Err(error) if error.is_conflict() => next = Next::Retry,
                Err(error) => {
                    tracing::warn!(node, pool, error = %Chain(&error), "cannot give a node its initial labels");
                    next = Next::Retry;
                }
            }
        }
        next
    }

    /// Observes a pool, decides, assigns and reports.
    async fn reconcile_pool(&self, snapshot: &Snapshot, name: &str) -> Result<Next, wire::Error> {
        let Some(pool) = snapshot.pools.get(name) else {
            return Ok(Next::Gone);
        };
        let rendered = Box::pin(self.render(snapshot, pool.as_ref().clone()));
        let (pool, rendering, render_waits) = rendered.await?;
        let (pool, pins) = self.populate_pins(snapshot, pool).await?;
        let mut pool = self.name_build(snapshot, pool).await?;
        pool.view.hold = self.hold(snapshot, &pool).await?;
        follow_objects(snapshot, &mut pool.view);
        pool.view.leader.clone_from(&self.node);
        let has_streams = decide::rendering::has_streams(snapshot);
        let unhandled = unhandled(&pool.object, has_streams);
        let config = snapshot.controller_config();
        let facts = ClusterFacts {
            topology: config.and_then(|config| config.spec.control_plane_topology()),
            masters_schedulable: snapshot.masters_schedulable(),
        };

        let views = snapshot.views_with(&pool.view);
        let sorted = snapshot.sort(snapshot.nodes.values().map(Arc::as_ref), &views);
        self.report_membership(&sorted, snapshot);
        let nodes = |pool: &str| {
            let nodes = sorted.of(pool).iter();
            nodes.filter_map(|node| snapshot.nodes.get(&node.name).cloned())
        };
        let members = nodes(name).map(|node| (node.name.clone(), node));
        let holder = snapshot.pools.get(claim_holder(name));
        let mut observed = Observed {
            members: members.collect(),
            peers: partner(name)
                .map(|pool| nodes(pool).collect())
                .unwrap_or_default(),
            holder: holder
                .filter(|holder| holder.view.name != name)
                .map(|pool| pool.as_ref().clone()),
            pool,
        };
        if let Some(holder) = &observed.holder {
            observed.pool.view.claim = holder.view.claim.clone();
        }
        {
            let mut states = self.state();
            let state = states.entry(observed.pool.view.name.clone()).or_default();
            policy_inputs::note_drains(&mut state.drains, &mut observed, self.context.now());
        }
        observed.pool.view.previous = previous(&observed.pool.view, &observed.members());
        pinning::begin_round(&mut observed, &pins, snapshot);
        self.refresh_policy_inputs(&mut observed).await?;
        let mut decision = observed.decide(self.context.now());
        let mut round = Round::default();
        if decision.has_writes() {
            if self.learn_claimed(snapshot, &observed.pool).await? {
                tracing::debug!(pool = name, "claimed nodes are not known yet");
                return Ok(Next::Retry);
            }
            let sender = Assigner {
                requests: &self.context.requests,
                store: &self.context.store,
                turns: &self.assignments,
            };
            round = sender.assign(&mut observed, &mut decision, facts).await?;
        }
        if self.context.store.pools.get(name).is_none() {
            // Deleted meanwhile: its nodes are another pool's.
            return Ok(Next::Gone);
        }
        let written = self.write_members(&mut observed, facts).await;
        let conflicts: Vec<&Conflict> = sorted.conflicts_of(name).collect();
        let events_after = self.record_round(&observed.pool, &decision, &round);
        let certificates = snapshot.controller_config().map(reporting::certificates);
        let mut after = status(StatusInput {
            pool: &observed.pool.object,
            view: &observed.pool.view,
            members: &observed.members(),
            decision: &decision,
            conflicts: &conflicts,
            rendering,
            render_waits: render_waits.as_deref(),
            unhandled: &unhandled,
            pins: pins.as_ref().map(Option::as_ref),
            certificates,
            api_server: self.context.store.api_server.read(),
            now: self.context.now(),
        });
        if render_waits.is_none() {
            self.name_stream(&observed.pool, snapshot, &mut after);
        }
        self.count(&observed, &decision, &pins, &after).await;
        let report_after = self.report(&observed.pool, &after).await?;
        let are_written = written?;
        // Nothing wakes the pool when the watch delivers no more than a heartbeat.
        let is_late = observed.is_behind_the_claim();
        if round.is_unfinished || !are_written || is_late {
            return Ok(Next::Retry);
        }
        let wakes_after = decision.wakes.map(|wakes| {
            let left = wakes.duration_since(self.context.now()).max(SHORTEST_WAIT);
            left.unsigned_abs()
        });
        let waits = [report_after, events_after, wakes_after].into_iter();
        Ok(waits.flatten().min().map_or(Next::Settled, Next::After))
    }

    /// Refreshes what the pool's policy decides by, beside the nodes.
    async fn refresh_policy_inputs(&self, observed: &mut Observed) -> Result<(), wire::Error> {
        let name = observed.pool.view.name.clone();
        let mut inputs =
            std::mem::take(&mut self.state().entry(name.clone()).or_default().policy_inputs);
        policy_inputs::refresh(&self.context, &self.metrics_server, &mut inputs, observed).await?;
        self.state().entry(name).or_default().policy_inputs = inputs;
        Ok(())
    }

    /// Renders the pool's configuration where something changed. The pool as it is then, and how
    /// the last rendering ended, where there was one; what it waits for, if it does.
    async fn render(
        &self,
        snapshot: &Snapshot,
        pool: Pool,
    ) -> Result<(Pool, Option<RenderResult>, Option<String>), wire::Error> {
        let name = pool.view.name.clone();
        let mut cache = self
            .state()
            .entry(name.clone())
            .or_default()
            .rendering
            .take();
        let outcome =
            rendering::reconcile(&self.context.requests, snapshot, pool, &mut cache).await;
        self.state().entry(name).or_default().rendering = cache;
        let outcome = outcome?;
        self.context.store.pools.refresh(outcome.pool.clone());
        if let Some(stored) = outcome.stored {
            self.context
                .store
                .configs
                .apply(WatchEvent::Applied(stored));
        }
        self.record(&outcome.pool, &outcome.events);
        Ok((outcome.pool, outcome.result, outcome.waits))
    }

    /// Why no node of the pool may be assigned anything, if so: by the objects beside it, or by its
    /// configuration, as it is after the rendering.
    async fn hold(&self, snapshot: &Snapshot, pool: &Pool) -> Result<Option<Hold>, wire::Error> {
        if decide::rendering::is_without_base(pool, snapshot) {
            return Ok(Some(Hold::MissingBase));
        }
        let target = pool.view.target_config();
        let config = target.and_then(|target| self.context.store.configs.get(target));
        let name = &pool.view.name;
        let mut checked = self.state().entry(name.clone()).or_default().checked.take();
        let hold = stored::hold(
            &self.context.requests,
            &pool.view,
            config.as_deref(),
            &mut checked,
        )
        .await;
        self.state().entry(name.clone()).or_default().checked = checked;
        hold
    }

    /// Whether a claimed node exists that the watch has not delivered: it would not be counted. A
    /// claim of a node that was deleted ends with the next one.
    async fn learn_claimed(&self, snapshot: &Snapshot, pool: &Pool) -> Result<bool, wire::Error> {
        let mut unknown: Vec<String> = pool.view.claim.nodes.keys().cloned().collect();
        unknown.retain(|node| snapshot.nodes.get(node).is_none());
        let reads = unknown
            .into_iter()
            .map(async |node| self.context.requests.has_node(&node).await);
        let reads: Vec<_> = stream::iter(reads).buffered(WRITES).collect().await;
        for exists in reads {
            if exists? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes what nodes lack besides an assignment: taints, topology, and labels of masters. False
    /// when a node changed meanwhile.
    ///
    /// # Errors
    /// The first one. A node that cannot be written keeps neither the others nor the pool's status
    /// waiting.
    async fn write_members(
        &self,
        observed: &mut Observed,
        facts: ClusterFacts<'_>,
    ) -> Result<bool, wire::Error> {
        let rehearsing = rehearser(&observed.pool.view, &observed.members());
        let rehearsing = rehearsing.map(str::to_owned);
        if let Some(rehearsal) = &mut observed.pool.view.rehearsal {
            rehearsal.node = rehearsing;
        }
        let members = observed.members.values();
        let writes: Vec<NodeWrite> = members
            .filter_map(|node| NodeWrite::of(node, &observed.pool.view, false, facts))
            .collect();
        let writes = stream::iter(writes).map(|write| async move {
            // It is never closed.
            let _turn = self.context.other_writes.acquire().await;
            self.context.requests.write_node(&write).await
        });
        let results: Vec<_> = writes.buffered(WRITES).collect().await;
        let mut is_finished = true;
        let mut failure = None;
        for result in results {
            match result {
                Ok(node) => {
                    self.context.store.nodes.refresh(node.clone());
                    observed.replace(node);
                }
                Err(error) if error.is_not_found() => {}
                // A heartbeat changes a node, and wakes nothing.
                Err(error) if error.is_conflict() => is_finished = false,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(is_finished), Err)
    }

    /// Forgets pools that do not exist any more, and their series with them; counts what belongs to
    /// no pool.
    fn forget_deleted(&self, snapshot: &Snapshot) {
        self.context
            .metrics
            .set_settings(decide::generating::states(snapshot));
        self.context
            .metrics
            .set_image_modes(snapshot.os_configs.values().count());
        self.state()
            .retain(|name, _| snapshot.pools.get(name).is_some());
        self.context
            .metrics
            .retain(|name| snapshot.pools.get(name).is_some());
    }

    fn state(&self) -> MutexGuard<'_, BTreeMap<String, PoolState>> {
        lock(&self.pools)
    }
}

/// Gives a pool what the objects beside it ask for: the cluster's switch, and of its name its
/// rollout policy and its image.
fn follow_objects(snapshot: &Snapshot, pool: &mut PoolView) {
    pool.stops = snapshot.stops_of(pool);
    follow_policy(snapshot, pool);
    imaging::follow_image(snapshot, pool);
}

/// Gives a pool its rollout policy. One that cannot be followed holds the pool.
fn follow_policy(snapshot: &Snapshot, pool: &mut PoolView) {
    let Some(policy) = snapshot.policies.get(&pool.name) else {
        return;
    };
    match RolloutPolicy::parse(&policy.spec) {
        Ok(policy) => {
            // One that was removed cannot be returned to.
            let is_there = |target: &Target| snapshot.configs.get(&target.config).is_some();
            pool.previous = pool.previous.take().filter(is_there);
            pool.policy = Some(policy);
        }
        Err(error) => {
            let why = format!("{}: {error}", pool.name);
            pool.hold.get_or_insert(Hold::InvalidPolicy { why });
        }
    }
}

#[cfg(test)]
mod tests;
