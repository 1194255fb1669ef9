//! One pass over a release: applies its manifests in their order and waits for what must be waited
//! for.
//!
//! Nothing is remembered that a restart would need: each pass begins at the first manifest, and
//! what is as it must be costs no request of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chassis::metrics::Counter;
use cluster::apply::Error as ApplyError;
use cluster::cache::Cache;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use release::graph::{Graph, Ordering, Run, Task};
use release::inventory::{CREATE_ONLY, Entry};
use release::manifest::ObjectId;
use release::version_hash::VersionHash;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use crate::builder::{self, ClusterProxy, Health, INJECT_PROXY, INJECT_TLS};
use crate::failure::{Effect, Failure, FailureSubject};
use crate::hands::{Hands, Listing, Listings, Need};
use crate::payload::ReleaseFiles;
use crate::report::Report;
use crate::watches::ClusterOperators;

/// Waits before a manifest is tried again; after the last one it has failed.
const RETRIES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(13),
];
const FIRST_RETRIES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// How often it is read whether all that runs is waiting.
const LOOK: Duration = Duration::from_secs(1);

/// Manifests that are applied at once.
const fn workers(ordering: Ordering, width: usize) -> usize {
    match ordering {
        Ordering::Updating => 16,
        Ordering::Initializing => width,
        Ordering::Reconciling { .. } => 2,
    }
}

/// What the engine shares with the status.
#[derive(Debug, Clone, Default)]
pub struct Shared(Arc<Mutex<Report>>);

impl Shared {
    /// The report.
    pub fn lock(&self) -> MutexGuard<'_, Report> {
        // Nothing panics while it is held; a poisoned lock still holds a whole report.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a pass is made with.
#[derive(Debug)]
pub struct Context {
    /// How.
    pub ordering: Ordering,
    /// The owner of all objects.
    pub owner: String,
    /// The cluster's proxy.
    pub proxy: ClusterProxy,
    /// Operators whose degradation does not hold the release up.
    pub tolerated: BTreeSet<String>,
    /// Its clock.
    pub now: fn() -> Timestamp,
}

/// Applies releases.
#[derive(Debug)]
pub struct Engine {
    hands: Hands,
    operators: Cache<ClusterOperators>,
    /// Changes with each operator that does.
    changes: watch::Receiver<()>,
    shared: Shared,
    rewrites: Counter,
}

/// One pass.
struct Pass<'a> {
    engine: &'a Engine,
    payload: &'a ReleaseFiles,
    entries: &'a [&'a Entry],
    context: &'a Context,
    listings: Listings,
    workers: Semaphore,
    /// By first task of a component: the operators in it.
    operators: HashMap<Task, Vec<Task>>,
    /// Failures that count as done.
    reported: Mutex<BTreeMap<usize, Failure>>,
}

/// What is waited for, and by whom.
enum Wait {
    /// Nothing: the manifest is done.
    Done,
    /// A change of a ClusterOperator.
    Operator,
}

impl Engine {
    /// Acts by `hands`, reads `operators`, and is woken by `changes`. Counts in `rewrites` what it
    /// puts back.
    pub const fn new(
        hands: Hands,
        operators: Cache<ClusterOperators>,
        changes: watch::Receiver<()>,
        shared: Shared,
        rewrites: Counter,
    ) -> Self {
        Self {
            hands,
            operators,
            changes,
            shared,
            rewrites,
        }
    }

    /// What it has come to.
    pub fn shared(&self) -> Shared {
        self.shared.clone()
    }

    /// Requests that belong to no manifest.
    pub const fn hands(&self) -> &Hands {
        &self.hands
    }

    /// Applies `entries`. True if all are done; else the report says why not.
    ///
    /// Ends when all are done, or when something has failed and nothing but waiting is left. It
    /// may wait for ever otherwise: the caller has a deadline, and drops it to cancel.
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
            operators: operators.collect(),
            reported: Mutex::default(),
        };
        let mut run = Run::new(graph, entries.len());
        let mut running = FuturesUnordered::new();
        let mut has_failed = false;
        loop {
            while let Some(task) = run.start() {
                running.push(pass.apply(task));
            }
            // What waits is in the report; what is applied is not.
            let is_waiting = running.len() == self.waiting(&run);
            if has_failed && is_waiting {
                break;
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

fn is_operator(entry: &Entry) -> bool {
    let ObjectId { group, kind, .. } = &entry.id;
    (group.as_str(), kind.as_str()) == ("config.openshift.io", "ClusterOperator")
}

impl Pass<'_> {
    async fn apply(&self, task: Task) -> (Task, Result<(), Failure>) {
        let Some(entry) = self.entries.get(task) else {
            return (task, Ok(()));
        };
        if let Some(operators) = self.operators.get(&task) {
            for operator in operators {
                self.precreate(*operator).await;
            }
        }
        let name = format!("{entry} ({} of {})", task + 1, self.entries.len());
        (task, self.apply_entry(task, entry, &name).await)
    }

    async fn apply_entry(&self, task: Task, entry: &Entry, name: &str) -> Result<(), Failure> {
        let retries = if self.context.ordering == Ordering::Initializing {
            FIRST_RETRIES
        } else {
            RETRIES
        };
        let mut retries = retries.into_iter();
        loop {
            let result = if is_operator(entry) {
                self.operator(task, entry, name).await
            } else {
                self.object(task, entry, name).await
            };
            match result {
                Ok(()) => return Ok(()),
                Err(Stop::Failure(failure)) => return Err(failure),
                Err(Stop::Request(error)) => {
                    let Some(delay) = retries.next() else {
                        let with_file = format!("{name} of {}", entry.file);
                        return Err(Failure::request(&with_file, &error));
                    };
                    tracing::debug!(manifest = name, error = %chassis::report::Chain(&error), "trying again");
                    tokio::time::sleep(delay).await;
                }
            }
        }
    }

    /// Makes an operator's object before the manifests of its component, so that it can report on
    /// them. An error is no failure: the object is waited for in its turn.
    async fn precreate(&self, task: Task) {
        let Some(entry) = self.entries.get(task) else {
            return;
        };
        if self.engine.operators.get(&entry.id.name).is_some() {
            return;
        }
        if let Err(error) = self.make_operator(entry).await {
            let text = match error {
                Stop::Failure(failure) => failure.message,
                Stop::Request(error) => chassis::report::Chain(&error).to_string(),
            };
            tracing::warn!(
                operator = entry.id.name,
                error = text,
                "cannot make an operator's object"
            );
        }
    }

    async fn make_operator(&self, entry: &Entry) -> Result<(), Stop> {
        let hands = &self.engine.hands;
        let listing = hands.listing(&self.listings, entry).await?;
        if listing.head(&entry.id).is_some() {
            return Ok(());
        }
        let manifest = self.payload.object(entry)?;
        let related = manifest.pointer("/status/relatedObjects").cloned();
        let object = builder::prepare(entry, manifest, &self.context.owner);
        let object = builder::operator_metadata(&object);
        let path = listing.path(&entry.id);
        hands.apply(&path, &object).await?;
        if let Some(related) = related {
            let change = json!({ "status": { "relatedObjects": related } });
            hands
                .merge(&entry.id, &format!("{path}/status"), &change)
                .await?;
        }
        Ok(())
    }

    /// Waits until an operator is as it must be.
    async fn operator(&self, task: Task, entry: &Entry, name: &str) -> Result<(), Stop> {
        let manifest = self.payload.object(entry)?;
        if matches!(self.context.ordering, Ordering::Reconciling { .. }) {
            let object = builder::prepare(entry, manifest.clone(), &self.context.owner);
            let object = builder::operator_metadata(&object);
            self.apply_object(entry, name, object).await?;
        }
        let mut changes = self.engine.changes.clone();
        loop {
            changes.mark_unchanged();
            match self.look(task, entry, name, &manifest)? {
                Wait::Done => return Ok(()),
                Wait::Operator => {
                    // The sender lives as long as the process.
                    if changes.changed().await.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
            }
        }
    }

    fn look(
        &self,
        task: Task,
        entry: &Entry,
        name: &str,
        manifest: &Value,
    ) -> Result<Wait, Failure> {
        let (operator, ordering) = (&entry.id.name, self.context.ordering);
        let found = self.engine.operators.get(operator);
        let found = found.as_deref().map(|operator| &operator.status);
        let fault = builder::operator_health(operator, manifest, found, ordering);
        let fault = fault.map(|fault| builder::tolerate(fault, operator, &self.context.tolerated));
        let fault = fault.map(|fault| fault.with_detail(name, &builder::operator_message(found)));
        let mut report = self.engine.shared.lock();
        let Some(failure) = fault else {
            report.pending.remove(operator);
            report.failures.remove(&task);
            return Ok(Wait::Done);
        };
        report
            .pending
            .entry(operator.clone())
            .or_insert_with(self.context.now);
        if failure.effect == Effect::Report {
            let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
            reported.insert(task, failure);
            return Ok(Wait::Done);
        }
        if !self.may_wait() || failure.reason == "ClusterOperatorNoVersions" {
            return Err(failure);
        }
        report.failures.insert(task, failure);
        Ok(Wait::Operator)
    }

    /// A release that is there is only read: what is wrong is said, and the rest goes on.
    const fn may_wait(&self) -> bool {
        !matches!(self.context.ordering, Ordering::Reconciling { .. })
    }

    async fn object(&self, task: Task, entry: &Entry, name: &str) -> Result<(), Stop> {
        if entry.is_deletion() {
            return self.delete(entry).await;
        }
        if entry
            .annotations
            .get(INJECT_TLS)
            .is_some_and(|value| value == "true")
        {
            let why = format!("{INJECT_TLS} is not implemented");
            return Err(Failure::update(&format!("{name} of {}", entry.file), &why).into());
        }
        let key = self.key(entry);
        let hands = &self.engine.hands;
        let (listing, object) = {
            // Waiting takes no worker. The semaphore is never closed.
            let _permit = self.workers.acquire().await.ok();
            let listing = hands.listing(&self.listings, entry).await?;
            let mut head = listing.head(&entry.id);
            if head.is_some() && builder::is_job(&entry.id) && hands.is_condemned(&entry.id) {
                tracing::info!(manifest = name, "making a failed job anew");
                hands.clear(&entry.id, &listing.path(&entry.id)).await?;
                head = None;
            }
            if entry.is_create_only() && head.is_some() {
                return Ok(());
            }
            let object = match hands.need(&entry.id, key, head) {
                Need::Nothing => return Ok(()),
                Need::Health => hands.read(&entry.id, &listing.path(&entry.id)).await?,
                Need::Apply => {
                    let wanted =
                        builder::prepare(entry, self.payload.object(entry)?, &self.context.owner);
                    if entry.is_create_only() {
                        hands.create(&entry.id, &listing, &wanted).await?;
                        return Ok(());
                    }
                    self.apply_object(entry, name, wanted).await?
                }
            };
            (listing, object)
        };
        self.wait(task, entry, name, key, &listing, object).await
    }

    /// Applies an object, and removes what others have added where it does not belong.
    async fn apply_object(
        &self,
        entry: &Entry,
        name: &str,
        mut wanted: Value,
    ) -> Result<Value, Stop> {
        let hands = &self.engine.hands;
        let listing = hands.listing(&self.listings, entry).await?;
        let key = self.key(entry);
        if is_operator(entry) && hands.need(&entry.id, key, listing.head(&entry.id)) != Need::Apply
        {
            return Ok(Value::Null);
        }
        if let Some(containers) = entry.annotations.get(INJECT_PROXY) {
            builder::inject_proxy(&mut wanted, containers, &self.context.proxy)
                .map_err(|why| Failure::update(&format!("{name} of {}", entry.file), &why))?;
        }
        if !self.may_wait() && hands.was_applied(&entry.id, key) {
            tracing::info!(manifest = name, "putting back what was changed");
            self.engine.rewrites.increment();
        }
        let path = listing.path(&entry.id);
        let mut object = match hands.apply(&path, &wanted).await {
            Err(error) if builder::is_job(&entry.id) && builder::is_immutable(&error) => {
                tracing::info!(manifest = name, "making a job anew that cannot be changed");
                hands.clear(&entry.id, &path).await?;
                hands.apply(&path, &wanted).await?
            }
            applied => applied?,
        };
        if let Some(patch) = builder::excess(&wanted, &object) {
            tracing::info!(manifest = name, "removing what others have added");
            object = hands.merge(&entry.id, &path, &patch).await?;
        }
        hands.remember(&entry.id, key, &object, !builder::is_watched(&entry.id));
        Ok(object)
    }

    /// Waits until an object is as it must be.
    async fn wait(
        &self,
        task: Task,
        entry: &Entry,
        name: &str,
        key: u64,
        listing: &Listing,
        object: Value,
    ) -> Result<(), Stop> {
        let judge =
            |object: &Value| builder::health(&entry.id, name, object, self.context.ordering);
        let shared = &self.engine.shared;
        let workload = entry.to_string();
        let settle = |object: &Value| {
            let outcome = match judge(object) {
                Health::Waiting(failure) => {
                    let mut report = shared.lock();
                    let since = report.pending.entry(workload.clone());
                    since.or_insert_with(self.context.now);
                    let subject = FailureSubject::Workload(workload.clone());
                    report.failures.insert(task, Failure { subject, ..failure });
                    return None;
                }
                Health::Ready => Ok(()),
                Health::Failed(failure) => {
                    if builder::is_job(&entry.id) {
                        self.engine.hands.condemn(&entry.id);
                    }
                    Err(Stop::Failure(failure))
                }
            };
            let mut report = shared.lock();
            report.failures.remove(&task);
            report.pending.remove(&workload);
            drop(report);
            self.engine
                .hands
                .remember(&entry.id, key, object, outcome.is_ok());
            Some(outcome)
        };
        match settle(&object) {
            Some(outcome) => outcome,
            // What rolls out while a release is there is no fault and nothing to wait for.
            None if !self.may_wait() => {
                let mut report = shared.lock();
                report.failures.remove(&task);
                report.pending.remove(&workload);
                Ok(())
            }
            None => self.engine.hands.follow(listing, &entry.id, settle).await,
        }
    }

    /// Removes an object; only on the way to another release. It is not waited for.
    async fn delete(&self, entry: &Entry) -> Result<(), Stop> {
        let hands = &self.engine.hands;
        let deletions = |change: &dyn Fn(&mut Report)| change(&mut self.engine.shared.lock());
        let listing = match hands.listing(&self.listings, entry).await {
            Ok(listing) => listing,
            // There are no objects of a kind that is not served.
            Err(ApplyError::Discover {
                source: cluster::discovery::Error::NotServed { .. },
                ..
            }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let name = entry.to_string();
        if listing.head(&entry.id).is_none() {
            deletions(&|report| {
                report.deletions.remove(&name);
            });
            return Ok(());
        }
        if self.context.ordering == Ordering::Updating {
            hands.delete(&entry.id, &listing.path(&entry.id)).await?;
            deletions(&|report| {
                report.deletions.insert(name.clone());
            });
        }
        Ok(())
    }

    /// Stands for what is applied of a manifest in this cluster.
    fn key(&self, entry: &Entry) -> u64 {
        let Context { owner, proxy, .. } = self.context;
        let is_create_only = entry.annotations.get(CREATE_ONLY);
        let text = format!("{:x} {owner} {proxy:?} {is_create_only:?}", entry.content);
        VersionHash::default().with(text.as_bytes()).as_u64()
    }
}

/// Why a manifest is not done.
enum Stop {
    /// Trying again does not help.
    Failure(Failure),
    /// A request failed.
    Request(ApplyError),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<ApplyError> for Stop {
    fn from(error: ApplyError) -> Self {
        Self::Request(error)
    }
}
