//! The loop of a controller, from the lease to its release.

use std::collections::HashSet;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use chassis::admin;
use chassis::http::Server;
use chassis::metrics::Registry;
use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use cluster::access::Access;
use cluster::cache::{Cache, TableChange};
use cluster::lease::{self, Candidacy, Leadership};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout};

use crate::health::Health;
use crate::queue::{Pace, Queue};
use crate::reconcile::{Key, Next, Reconcile};
use crate::watch::{Wake, WatchScope, Watched, follow};

/// Keys that are reconciled at once, each with at most some requests under way. A key that waits
/// for the API server does not keep the others waiting.
const CONCURRENCY: usize = 32;

/// Some requests of a minute each: a reconcile that takes longer is stuck.
const DEADLINE: Duration = Duration::from_mins(10);

const PACE: Pace = Pace {
    settle: Duration::from_millis(250),
    resync: Duration::from_mins(10),
    retry: (Duration::from_millis(500), Duration::from_mins(1)),
};

/// How long running reconciles may take to end after the request to stop.
const GRACE: Duration = Duration::from_secs(20);

/// How long a controller may take for its last word.
const LAST: Duration = Duration::from_secs(10);

/// Why a controller ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not lead any more.
    #[error("cannot go on without the lease")]
    Lease(#[from] lease::Error),
    /// The endpoint of metrics and probes panicked.
    #[error("the endpoint of metrics and probes failed")]
    Endpoint(#[from] JoinError),
    /// A watch panicked.
    #[error("a watch failed")]
    Watch(#[source] JoinError),
}

/// A controller before it runs.
pub struct Operator<K> {
    name: &'static str,
    access: Arc<Access>,
    candidacy: Option<Candidacy>,
    admin: Option<(Server, Registry)>,
    watches: Vec<Watch>,
    wakes: (UnboundedSender<Wake<K>>, UnboundedReceiver<Wake<K>>),
    pace: Pace,
    health: Health,
}

/// A kind to be watched.
struct Watch {
    has_synced: Box<dyn Fn() -> bool + Send + Sync>,
    follow: BoxFuture<'static, ()>,
}

/// Wakes keys of a controller.
#[derive(Debug, Clone)]
pub struct Waker<K>(UnboundedSender<Wake<K>>);

impl<K> Waker<K> {
    /// Wakes these keys.
    pub fn wake(&self, keys: Vec<K>) {
        // The loop has ended: no reader is left.
        drop(self.0.send(Wake::Keys(keys)));
    }
}

impl<K> fmt::Debug for Operator<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator")
            .field("name", &self.name)
            .field("candidacy", &self.candidacy)
            .field("watches", &self.watches.len())
            .finish_non_exhaustive()
    }
}

impl<K: Key> Operator<K> {
    /// A controller with this name, which its metrics begin with, and this identity.
    pub fn new(name: &'static str, access: Arc<Access>) -> Self {
        Self {
            name,
            access,
            candidacy: None,
            admin: None,
            watches: Vec::new(),
            wakes: unbounded_channel(),
            pace: PACE,
            health: Health::new(DEADLINE),
        }
    }

    /// Works only while it holds this lease. Without one, surely only one replica runs.
    #[must_use]
    pub fn lease(mut self, candidacy: impl Into<Option<Candidacy>>) -> Self {
        self.candidacy = candidacy.into();
        self
    }

    /// Serves metrics, the controller's own and those in `registry`, and probes.
    #[must_use]
    pub fn serve(mut self, server: Server, registry: Registry) -> Self {
        self.admin = Some((server, registry));
        self
    }

    /// Adds the controller's own metrics to others that are served elsewhere.
    pub fn register(&self, registry: &mut Registry) {
        self.health.register(self.name, registry);
    }

    /// Watches a kind. `wake` says which keys a change concerns: it is called with an object
    /// before, unless it is new, and after, unless it was deleted. When all objects were read, all
    /// keys are woken.
    #[must_use]
    pub fn watch<W: Watched>(
        mut self,
        cache: &Cache<W>,
        scope: WatchScope<W::Object>,
        wake: impl Fn(Option<&W::Entry>, Option<&W::Entry>) -> Wake<K> + Send + Sync + 'static,
    ) -> Self {
        let wakes = self.wakes.0.clone();
        cache.listen(move |change| {
            let woken = match change {
                TableChange::All => Wake::All,
                TableChange::One(before, after) => wake(before.as_deref(), after.as_deref()),
            };
            // The loop has ended: no reader is left.
            drop(wakes.send(woken));
        });
        let watched = cache.clone();
        self.watches.push(Watch {
            has_synced: Box::new(move || watched.has_synced()),
            follow: Box::pin(follow(self.access.to_client(), scope, cache.clone())),
        });
        self
    }

    /// Wakes keys from outside of the watches: for what one key does that another one goes on
    /// from.
    pub fn waker(&self) -> Waker<K> {
        Waker(self.wakes.0.clone())
    }

    /// The longest time between two reconciles of a key; 10 minutes unless set.
    #[must_use]
    pub const fn resync(mut self, resync: Duration) -> Self {
        self.pace.resync = resync;
        self
    }

    /// After how long a reconcile counts as stuck; 10 minutes unless set. The process is not
    /// healthy then, and is to be restarted.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.health.deadline = deadline;
        self
    }

    /// Runs until the shutdown, or until the lease is lost.
    ///
    /// Waits for the lease, reads all watched kinds, then reconciles. After the shutdown running
    /// reconciles have 20 s to end, [`Reconcile::finish`] has 10 s, and the lease is released.
    ///
    /// # Errors
    /// All of [`Error`]: a new process starts over better than this one.
    pub async fn run<R: Reconcile<Key = K>>(
        self,
        reconciler: R,
        mut shutdown: Shutdown,
    ) -> Result<(), Error> {
        let health = Arc::new(self.health);
        let serving = self.admin.map(|(server, mut registry)| {
            health.register(self.name, &mut registry);
            let health = Arc::clone(&health);
            tokio::spawn(admin::serve(server, registry, health, shutdown.clone()))
        });
        let mut held = match self.candidacy {
            None => None,
            Some(candidacy) => {
                tracing::info!(identity = candidacy.identity, "waiting for the lease");
                tokio::select! {
                    () = shutdown.requested() => {
                        if let Some(serving) = serving {
                            serving.await?;
                        }
                        return Ok(());
                    }
                    held = lease::acquire(&self.access, candidacy, Timestamp::now) => Some(held),
                }
            }
        };
        tracing::info!("this replica leads");
        health.lead();
        // A task each: an event wakes its own watch, and not all of them with the loop.
        let mut watches = JoinSet::new();
        let has_synced = self.watches.into_iter().map(|watch| {
            watches.spawn(watch.follow);
            watch.has_synced
        });
        let has_synced = has_synced.collect();
        let work = Loop {
            reconciler: &reconciler,
            health: &health,
            has_synced,
            queue: Queue::new(self.pace),
            wakes: self.wakes.1,
        };
        // The sender of this function stays: wakes do not end.
        let _open = self.wakes.0;
        // The lease is held until the last word, too.
        let work = async {
            work.run(shutdown).await;
            if timeout(LAST, reconciler.finish()).await.is_err() {
                tracing::warn!("the last state was not written in time");
            }
        };
        tokio::select! {
            () = work => {}
            Some(Err(failed)) = watches.join_next() => return Err(Error::Watch(failed)),
            error = lost(held.as_mut()) => return Err(error.into()),
        }
        watches.shutdown().await;
        if let Some(held) = held {
            held.release().await;
        }
        if let Some(serving) = serving {
            serving.await?;
        }
        Ok(())
    }
}

/// Waits until the lease is lost; for ever where there is none.
async fn lost(held: Option<&mut Leadership<'_>>) -> lease::Error {
    match held {
        Some(held) => held.keep().await,
        None => std::future::pending().await,
    }
}

/// The loop while this replica leads.
struct Loop<'a, R: Reconcile> {
    reconciler: &'a R,
    health: &'a Health,
    has_synced: Vec<Box<dyn Fn() -> bool + Send + Sync>>,
    queue: Queue<R::Key>,
    wakes: UnboundedReceiver<Wake<R::Key>>,
}

impl<R: Reconcile> Loop<'_, R> {
    async fn run(mut self, mut shutdown: Shutdown) {
        let mut running = FuturesUnordered::new();
        let mut keys: HashSet<R::Key> = HashSet::new();
        let mut is_started = self.start_if_synced();
        loop {
            tokio::select! {
                () = shutdown.requested() => break,
                Some(wake) = self.wakes.recv() => {
                    if is_started {
                        self.wake(wake);
                    } else {
                        is_started = self.start_if_synced();
                    }
                }
                key = self.queue.next(|key| keys.contains(key)),
                    if is_started && running.len() < CONCURRENCY =>
                {
                    keys.insert(key.clone());
                    running.push(reconcile(self.reconciler, self.health, key));
                }
                Some((key, next)) = running.next() => {
                    keys.remove(&key);
                    self.queue.put_back(key, next);
                }
            }
        }
        let ended = timeout(GRACE, async { while running.next().await.is_some() {} });
        if ended.await.is_err() {
            tracing::warn!("reconciles did not end in time and were given up");
        }
    }

    /// Wakes all keys when all kinds were read. True then.
    fn start_if_synced(&self) -> bool {
        let is_synced = self.has_synced.iter().all(|has_synced| has_synced());
        if is_synced {
            self.health.sync();
            self.wake(Wake::All);
        }
        is_synced
    }

    fn wake(&self, wake: Wake<R::Key>) {
        let keys = match wake {
            Wake::All => self.reconciler.keys(),
            Wake::Keys(keys) => keys,
        };
        for key in keys {
            self.queue.wake(key);
        }
    }
}

/// Reconciles one key, and reports it as stuck once its deadline has passed.
async fn reconcile<R: Reconcile>(reconciler: &R, health: &Health, key: R::Key) -> (R::Key, Next) {
    let began = Instant::now();
    let result = {
        let mut work = pin!(reconciler.reconcile(&key));
        if let Ok(result) = timeout(health.deadline(), &mut work).await {
            result
        } else {
            let elapsed_ms = began.elapsed().as_millis();
            tracing::error!(key = %key, elapsed_ms, "reconcile is stuck");
            let _stuck = health.stuck(key.to_string());
            work.await
        }
    };
    let (next, result) = match result {
        Ok(Next::Retry) => (Next::Retry, "retry"),
        Ok(next) => (next, "settled"),
        Err(error) => {
            tracing::warn!(key = %key, error = %Chain(&error), "cannot reconcile");
            (Next::Retry, "failed")
        }
    };
    health.count(result, began.elapsed());
    (key, next)
}

#[cfg(test)]
mod tests;
