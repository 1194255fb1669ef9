//! The loop, and one pass over all pools.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chassis::backoff::{self, Backoff};
use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use cluster::collection::News;
use cluster::events::Recorder;
use cluster::wire;
use jiff::Timestamp;
use pool::membership::Conflict;
use pool::node::NodeView;
use pool::rollout::{RolloutDecision, decide};
use pool::status::{StatusInput, status};
use pool::view::PoolView;
use pool::write::NodeWrite;
use tokio::time::Instant;

use crate::announce::{Announcement, announce, on_status};
use crate::figures::{Figures, PoolFigures};
use crate::rendering::{self, Last};
use crate::reporting;
use crate::requests::Requests;
use crate::store::{Pool, Snapshot, Store};
use crate::telling;

/// How long news wait for company, at most: objects that are applied together are looked at together.
const SETTLE: Duration = Duration::from_millis(250);

/// The longest time between two looks at everything, whether there is news or not.
pub(crate) const RESYNC: Duration = Duration::from_mins(10);

/// First and longest wait before a pool is looked at again after a failure.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));

/// Does the controller's work.
#[derive(Debug)]
pub struct Controller {
    requests: Requests,
    store: Arc<Store>,
    recorder: Recorder,
    figures: Arc<Figures>,
    clock: fn() -> Timestamp,
    pools: BTreeMap<String, Memory>,
}

/// What is remembered of a pool between passes. All of it can be lost.
#[derive(Debug)]
struct Memory {
    rendering: Option<Last>,
    retry: Backoff,
    again: Option<Instant>,
    /// Generation for which it was said that a selector takes everything.
    warned: Option<i64>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            rendering: None,
            retry: Backoff::new(RETRY.0, RETRY.1),
            again: None,
            warned: None,
        }
    }
}

/// What came of nodes that were born in a custom pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Born {
    /// There were none.
    Nothing,
    /// The API server refused at least one write, and said why.
    Failed,
    /// At least one changed while it was written.
    Changed,
    /// At least one was labelled.
    Labelled,
}

impl Born {
    /// How long to wait before they are looked at again.
    const fn wait(self) -> Duration {
        match self {
            Self::Nothing => RESYNC,
            Self::Failed => RETRY.1,
            // A heartbeat is a change, and no news.
            Self::Changed | Self::Labelled => RETRY.0,
        }
    }
}

/// What a pass looks at.
struct Sight<'a> {
    snapshot: &'a Snapshot,
    conflicts: &'a [Conflict],
}

impl Controller {
    /// A controller that knows nothing yet.
    pub const fn new(
        requests: Requests,
        store: Arc<Store>,
        recorder: Recorder,
        figures: Arc<Figures>,
        clock: fn() -> Timestamp,
    ) -> Self {
        Self {
            requests,
            store,
            recorder,
            figures,
            clock,
            pools: BTreeMap::new(),
        }
    }

    /// Works until the shutdown.
    pub async fn run(mut self, mut shutdown: Shutdown) {
        loop {
            let next = self.pass().await;
            let news = async {
                self.store.changed().await;
                tokio::time::sleep(backoff::spread(SETTLE)).await;
            };
            tokio::select! {
                () = shutdown.requested() => return,
                () = news => {}
                () = tokio::time::sleep(next) => {}
            }
        }
    }

    /// Looks at all pools once. Tells how long to wait for news before looking again.
    pub async fn pass(&mut self) -> Duration {
        let snapshot = self.store.snapshot();
        if !snapshot.is_known() {
            return RESYNC;
        }
        self.figures.know();
        self.figures.progress();
        let born = self.label_the_new(&snapshot).await;
        if born == Born::Labelled {
            // They may be of another pool now.
            return born.wait();
        }
        let views: Vec<PoolView> = snapshot
            .pools
            .values()
            .map(|pool| pool.view.clone())
            .collect();
        let sorted = snapshot.sort(snapshot.nodes.values().map(Arc::as_ref), &views);
        for orphan in &sorted.orphans {
            tracing::debug!(node = orphan, "managed node that no pool selects");
        }
        self.pools
            .retain(|name, _| snapshot.pools.get(name).is_some());
        let sight = Sight {
            snapshot: &snapshot,
            conflicts: &sorted.conflicts,
        };
        for pool in snapshot.pools.values() {
            let members = sorted.of(&pool.view.name);
            let result = self.look_at(&sight, pool, members).await;
            let memory = self.pools.entry(pool.view.name.clone()).or_default();
            memory.again = match result {
                Ok(true) => {
                    memory.retry.reset();
                    None
                }
                Ok(false) => Some(Instant::now() + memory.retry.next_delay()),
                Err(error) if error.code() == Some(409) => {
                    tracing::debug!(pool = pool.view.name, "pool changed meanwhile");
                    Some(Instant::now() + memory.retry.next_delay())
                }
                Err(error) => {
                    tracing::warn!(pool = pool.view.name, error = %Chain(&error), "cannot finish the pool");
                    Some(Instant::now() + memory.retry.next_delay())
                }
            };
            self.figures.progress();
        }
        self.figures.set_alerts(&sorted.alerts);
        self.figures
            .retain(|name| snapshot.pools.get(name).is_some());
        let again = self.pools.values().filter_map(|memory| memory.again).min();
        let delay = again.map_or(RESYNC, |at| at.saturating_duration_since(Instant::now()));
        delay.min(born.wait())
    }

    /// Gives nodes that were born in a custom pool its labels.
    async fn label_the_new(&self, snapshot: &Snapshot) -> Born {
        let mut born = Born::Nothing;
        for node in snapshot.nodes.values() {
            let Some(pool) = snapshot.birthplace(node) else {
                continue;
            };
            let write = NodeWrite::initial_labels(node, pool);
            let came = match self.requests.write_node(&write).await {
                Ok(written) => {
                    tracing::info!(
                        node = node.name,
                        pool = pool.name,
                        "labelled a node that was born in a pool"
                    );
                    self.store.refresh_node(written);
                    Born::Labelled
                }
                Err(error) if error.code() == Some(404) => Born::Nothing,
                Err(error) if error.code() == Some(409) => Born::Changed,
                Err(error) => {
                    tracing::warn!(node = node.name, pool = pool.name, error = %Chain(&error), "cannot label a node that was born in a pool");
                    Born::Failed
                }
            };
            born = born.max(came);
        }
        born
    }

    /// Looks at one pool: renders, tells, reports. False when it should be looked at again soon.
    async fn look_at(
        &mut self,
        sight: &Sight<'_>,
        pool: &Arc<Pool>,
        members: &[&NodeView],
    ) -> Result<bool, wire::Error> {
        let name = pool.view.name.clone();
        let mut last = self.pools.entry(name.clone()).or_default().rendering.take();
        let turn = rendering::turn(
            &self.requests,
            sight.snapshot,
            pool.as_ref().clone(),
            &mut last,
        )
        .await;
        self.pools.entry(name.clone()).or_default().rendering = last;
        let turn = turn?;
        let mut pool = turn.pool;
        self.store.refresh_pool(pool.clone());
        if let Some(created) = turn.created {
            self.store.learn_configs(News::Present(created));
        }
        self.say(&pool, &turn.said);

        let topology = sight
            .snapshot
            .controller_config()
            .and_then(|config| config.spec.control_plane_topology());
        let mut nodes: Vec<NodeView> = members.iter().map(|node| (*node).clone()).collect();
        let mut is_finished = true;
        let mut refused = BTreeMap::new();
        if !decide(&pool.view, members).assignments.is_empty() {
            let round =
                telling::tell(&self.requests, &self.store, sight.snapshot, &name, topology).await?;
            is_finished = round.missed.is_empty();
            pool = round.pool;
            refused = round.refused;
            nodes = self.learn(sight, &pool, round.nodes);
            if !round.told.is_empty() {
                let (nodes, config) = (round.told, round.target);
                self.say(&pool, &[Announcement::Targeted { nodes, config }]);
            }
        }
        if self.store.pool(&name).is_none() {
            // Deleted meanwhile: its nodes are another pool's.
            return Ok(true);
        }
        let mut failure = None;
        for node in &mut nodes {
            if let Some(write) = NodeWrite::of(node, &pool.view, false, topology) {
                match self.requests.write_node(&write).await {
                    Ok(written) => {
                        self.store.refresh_node(written.clone());
                        *node = written;
                    }
                    Err(error) if error.code() == Some(404) => {}
                    // A heartbeat is a change, and no news.
                    Err(error) if error.code() == Some(409) => is_finished = false,
                    // One node that cannot be written must not keep the others, or the pool's status, waiting.
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
        }
        self.report(sight, &pool, &nodes, turn.outcome, refused)
            .await?;
        failure.map_or(Ok(is_finished), Err)
    }

    /// Takes in what was just read, and keeps the pool's own nodes of it.
    fn learn(&self, sight: &Sight<'_>, pool: &Pool, nodes: Vec<NodeView>) -> Vec<NodeView> {
        self.store.refresh_pool(pool.clone());
        let views = sight.snapshot.views_with(&pool.view);
        let sorted = sight.snapshot.sort(&nodes, &views);
        let members = sorted
            .of(&pool.view.name)
            .iter()
            .map(|node| (*node).clone())
            .collect();
        for node in nodes {
            self.store.refresh_node(node);
        }
        members
    }

    /// Writes the status if it differs.
    async fn report(
        &mut self,
        sight: &Sight<'_>,
        pool: &Pool,
        nodes: &[NodeView],
        rendering: Option<Result<(), String>>,
        refused: BTreeMap<String, String>,
    ) -> Result<(), wire::Error> {
        let members: Vec<&NodeView> = nodes.iter().collect();
        let mut decision = decide(&pool.view, &members);
        decision.record_rejected(refused);
        let conflicts: Vec<&Conflict> = sight
            .conflicts
            .iter()
            .filter(|conflict| conflict.pools.contains(&pool.view.name))
            .collect();
        let after = status(StatusInput {
            pool: &pool.object,
            view: &pool.view,
            members: &members,
            decision: &decision,
            conflicts: &conflicts,
            rendering,
            certificates: sight
                .snapshot
                .controller_config()
                .map(reporting::certificates),
            now: (self.clock)(),
        });
        self.count(pool, &members, &decision);
        let Some(changes) = reporting::changes(&pool.object, &after) else {
            return Ok(());
        };
        let written = self.requests.set_status(pool, &changes).await?;
        self.say(pool, &on_status(&pool.object, &written.object));
        self.store.refresh_pool(written);
        Ok(())
    }

    fn count(&self, pool: &Pool, members: &[&NodeView], decision: &RolloutDecision) {
        let is_image_overridden = self
            .pools
            .get(&pool.view.name)
            .and_then(|memory| memory.rendering.as_ref())
            .is_some_and(|last| last.is_image_overridden);
        let figures = PoolFigures::of(&pool.view, members, decision, is_image_overridden);
        self.figures.set_pool(&pool.view.name, figures);
    }

    fn say(&mut self, pool: &Pool, said: &[Announcement]) {
        let at = (self.clock)();
        for announcement in said {
            if matches!(announcement, Announcement::SelectingAll { .. }) {
                let memory = self.pools.entry(pool.view.name.clone()).or_default();
                if memory.warned.is_some() && memory.warned == pool.view.generation {
                    continue;
                }
                memory.warned = pool.view.generation;
            }
            announce(&self.recorder, pool, announcement, at);
        }
    }
}

#[cfg(test)]
mod tests;
