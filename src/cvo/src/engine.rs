//! One pass over a release: applies its manifests in their order and waits for what must be waited
//! for.
//!
//! Nothing is remembered that a restart would need: each pass begins at the first manifest, and
//! what is as it must be costs no request of its own.
//!
//! - `task`: one manifest of the pass

mod task;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::config::cluster_version;
use chassis::metrics::Counter;
use cluster::cache::Cache;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use operator::watch::kept::PartOf;
use release::graph::{Graph, Ordering, Run, Task};
use release::inventory::Entry;
use tokio::sync::{Semaphore, watch};

use crate::applied::AppliedObjects;
use crate::payload::ReleaseFiles;
use crate::requests::{Listings, ObjectRequests};
use crate::watches::{ClusterVersions, OperatorView};
use version_update::builder::{self, Injected};
use version_update::failure::Failure;
use version_update::report::Report;
use version_update::stop;

/// How often it is read whether all that runs is waiting.
const LOOK: Duration = Duration::from_secs(1);

/// Manifests that are applied at once.
fn workers(ordering: Ordering, width: usize) -> usize {
    match ordering {
        Ordering::Updating => 16,
        Ordering::Initializing => width,
        Ordering::Reconciling { .. } => 2,
    }
}

/// What the engine shares with the status.
#[derive(Debug, Clone, Default)]
pub struct SharedReport(Arc<Mutex<Report>>);

impl SharedReport {
    pub fn lock(&self) -> MutexGuard<'_, Report> {
        // Nothing panics while it is held; a poisoned lock still holds a whole report.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a pass is made with.
#[derive(Debug)]
pub struct Context {
    pub ordering: Ordering,
    /// What of the cluster is put into objects.
    pub injected: Injected,
    /// Operators whose degradation does not hold the release up.
    pub tolerated: BTreeSet<String>,
    /// Whose switch stops the pass, whenever it is set.
    pub versions: Cache<ClusterVersions>,
    pub now: fn() -> Timestamp,
}

#[derive(Debug)]
pub struct Engine {
    requests: ObjectRequests,
    applied: AppliedObjects,
    operators: Cache<PartOf<OperatorView>>,
    /// Changes with each operator that does.
    changes: watch::Receiver<()>,
    shared: SharedReport,
    rewrites: Counter,
}

struct Pass<'a> {
    engine: &'a Engine,
    payload: &'a ReleaseFiles,
    entries: &'a [&'a Entry],
    context: &'a Context,
    listings: Listings,
    workers: Semaphore,
    /// Manifests of objects that a later one describes again.
    superseded: HashSet<Task>,
    /// By first task of a component: the operators in it.
    operators: HashMap<Task, Vec<Task>>,
    /// Failures that count as done.
    reported: Mutex<BTreeMap<usize, Failure>>,
}

impl Engine {
    /// Acts by `requests`, reads `operators`, and is woken by `changes`. Counts in `rewrites` what
    /// it puts back.
    pub fn new(
        requests: ObjectRequests,
        operators: Cache<PartOf<OperatorView>>,
        changes: watch::Receiver<()>,
        shared: SharedReport,
        rewrites: Counter,
    ) -> Self {
        Self {
            requests,
            applied: AppliedObjects::default(),
            operators,
            changes,
            shared,
            rewrites,
        }
    }

    /// What it has come to.
    pub fn report(&self) -> MutexGuard<'_, Report> {
        self.shared.lock()
    }

    /// Requests that belong to no manifest.
    pub const fn requests(&self) -> &ObjectRequests {
        &self.requests
    }

    /// Applies `entries`. True if all are done; else the report says why not.
    ///
    /// Ends when all are done, or when something has failed and nothing but waiting is left. It may
    /// wait for ever otherwise, such as while the cluster is stopped: the caller has a deadline,
    /// and drops it to cancel.
    pub async fn run(&self, payload: &ReleaseFiles, entries: &[&Entry], context: &Context) -> bool {
        let graph = Graph::of(entries, context.ordering);
        let chains = graph.stages().iter().flatten();
        let operators = chains.flat_map(|chain| components(chain, entries));
        let pass = Pass {
            engine: self,
            payload,
            entries,
            context,
            listings: Listings::default(),
            workers: Semaphore::new(workers(context.ordering, graph.width().max(1))),
            superseded: superseded(entries),
            operators: operators.collect(),
            reported: Mutex::default(),
        };
        let mut run = Run::new(graph, entries.len());
        let mut running = FuturesUnordered::new();
        let mut has_failed = false;
        loop {
            while let Some(task) = run.start_if(|task| pass.may_begin(task)) {
                self.shared.lock().started(task);
                running.push(pass.apply(task));
            }
            // What waits is in the report; what is applied is not.
            let is_waiting = running.len() == self.waiting(&run);
            if has_failed && is_waiting {
                break;
            }
            if running.is_empty() && pass.is_stopped() && !run.is_over() {
                // The switch is not waited for: it is looked at.
                tokio::time::sleep(LOOK).await;
                continue;
            }
            let Ok(next) = tokio::time::timeout(LOOK, running.next()).await else {
                // A task may be waiting by now.
                continue;
            };
            let Some((task, result)) = next else {
                break;
            };
            run.finish(task, result.is_ok());
            match result {
                Ok(()) => self.shared.lock().done(task),
                Err(failure) => {
                    tracing::warn!(reason = failure.reason, "{}", failure.message);
                    has_failed = true;
                    self.shared.lock().failures.insert(task, failure);
                }
            }
        }
        // What still waits is given up.
        drop(running);
        let is_complete = run.tally().done.len() == entries.len();
        if is_complete {
            let reported = pass
                .reported
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner);
            self.shared.lock().complete(reported);
        }
        is_complete
    }

    /// How many of the running tasks are waiting.
    fn waiting(&self, run: &Run) -> usize {
        let report = self.shared.lock();
        let running = run.tally().running.iter();
        running
            .filter(|task| report.failures.contains_key(task))
            .count()
    }
}

impl Pass<'_> {
    fn is_stopped(&self) -> bool {
        let object = self.context.versions.get(cluster_version::NAME);
        object.is_some_and(|object| stop::switch(&object).is_some())
    }

    /// Whether a manifest may begin now.
    fn may_begin(&self, task: Task) -> bool {
        let done = self.engine.shared.lock().checkpoint.done;
        !self.is_stopped() || stop::may_begin(task, self.context.ordering, done)
    }
}

/// The operators of each component of a chain, by the component's first task. A chain may have
/// several run levels, and nothing of a later one is made before its turn.
fn components(chain: &[Task], entries: &[&Entry]) -> Vec<(Task, Vec<Task>)> {
    let entry = |task: &Task| entries.get(*task).copied();
    let place = |task: &Task| entry(task).and_then(Entry::place);
    let is_operator = |task: &&Task| entry(task).is_some_and(is_operator);
    let components = chain.chunk_by(|one, other| place(one) == place(other));
    let operators = components.filter_map(|component| {
        let operators: Vec<Task> = component.iter().filter(is_operator).copied().collect();
        (!operators.is_empty()).then_some((*component.first()?, operators))
    });
    operators.collect()
}

/// Manifests of objects that a later one describes again.
fn superseded(entries: &[&Entry]) -> HashSet<Task> {
    let mut last = HashMap::new();
    let entries = entries.iter().enumerate();
    let earlier = entries.filter_map(|(task, entry)| last.insert(&entry.id, task));
    earlier.collect()
}

fn is_operator(entry: &Entry) -> bool {
    builder::is_operator(&entry.id)
}

#[cfg(test)]
mod tests;
