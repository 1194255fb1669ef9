//! The only writer of a Node's annotations and `unschedulable`: one at a time, only what differs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chassis::backoff::Backoff;
use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use http::Method;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::view::Node;
use crate::watch::ObservedNode;
use cluster::access::Access;
use cluster::path;
use cluster::wire::{self, RequestBody};

/// How many orders may wait; as upstream's writer.
const QUEUE: usize = 25;

/// How long an order waits for company: what is decided in one go is sent in one patch.
const SETTLE: Duration = Duration::from_millis(20);

/// First and longest wait before a failed patch is sent again.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How long a response to us is believed over a watch that shows an older Node: after that the
/// watch has it, or the API server's store was restored to before it. As long as a silent watch is
/// waited for.
const CATCHES_UP: Duration = Duration::from_mins(6);

/// A change of a Node's annotations and `unschedulable`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Annotations to set, or with `None` to remove.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Cordon or uncordon.
    pub unschedulable: Option<bool>,
}

impl Change {
    /// Sets an annotation.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<String>) -> Self {
        self.annotations.insert(key.to_owned(), Some(value.into()));
        self
    }

    /// Removes an annotation.
    #[must_use]
    pub fn remove(mut self, key: &str) -> Self {
        self.annotations.insert(key.to_owned(), None);
        self
    }

    /// Cordons, or uncordons.
    #[must_use]
    pub fn unschedulable(mut self, unschedulable: bool) -> Self {
        self.unschedulable = Some(unschedulable);
        self
    }

    /// This change and then another one.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.annotations.extend(other.annotations);
        self.unschedulable = other.unschedulable.or(self.unschedulable);
        self
    }

    /// The node as it is once this change is in force.
    fn apply(self, node: &mut Node) {
        for (key, value) in self.annotations {
            match value {
                Some(value) => node.annotations.insert(key, value),
                None => node.annotations.remove(&key),
            };
        }
        if let Some(unschedulable) = self.unschedulable {
            node.unschedulable = unschedulable;
        }
    }
}

/// Why a change is not in force.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refuses it for good.
    #[error("cannot patch node {node}")]
    Refused {
        node: String,
        source: Arc<wire::Error>,
    },
    #[error("the writer of node {node} has ended")]
    Ended { node: String },
}

type Decide = Box<dyn Fn(&Node) -> Change + Send>;

struct Order {
    decide: Decide,
    done: oneshot::Sender<Result<Arc<Node>, Arc<wire::Error>>>,
}

/// Hands orders to the writer. Cheap to clone.
#[derive(Clone)]
pub struct NodeWriter {
    node: String,
    orders: mpsc::Sender<Order>,
}

impl NodeWriter {
    /// Makes the writer of the Node `name` and the task that does its work, to be spawned or
    /// awaited.
    pub fn new(
        access: Arc<Access>,
        name: &str,
        seen: watch::Receiver<ObservedNode>,
        shutdown: Shutdown,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (orders, queue) = mpsc::channel(QUEUE);
        let writer = Self {
            node: name.to_owned(),
            orders,
        };
        let worker = Worker {
            access,
            node: name.to_owned(),
            seen,
            queue,
            waiting: Vec::new(),
            written: None,
        };
        (writer, worker.run(shutdown))
    }

    /// Makes a change that depends on the Node as it is when its turn comes, and waits until it is
    /// in force. Returns the Node then: an older one that the watch still shows says nothing about
    /// the change.
    ///
    /// A change that changes nothing sends nothing. Transient errors are retried for as long as the
    /// caller waits; a caller that stops waiting before its change was sent withdraws it.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn write(
        &self,
        decide: impl Fn(&Node) -> Change + Send + 'static,
    ) -> Result<Arc<Node>, Error> {
        let (done, written) = oneshot::channel();
        let order = Order {
            decide: Box::new(decide),
            done,
        };
        if self.orders.send(order).await.is_err() {
            return Err(self.ended());
        }
        match written.await {
            Ok(Ok(node)) => Ok(node),
            Ok(Err(source)) => Err(Error::Refused {
                node: self.node.clone(),
                source,
            }),
            Err(_) => Err(self.ended()),
        }
    }

    fn ended(&self) -> Error {
        Error::Ended {
            node: self.node.clone(),
        }
    }
}

impl fmt::Debug for NodeWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeWriter")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

struct Worker {
    access: Arc<Access>,
    node: String,
    seen: watch::Receiver<ObservedNode>,
    queue: mpsc::Receiver<Order>,
    waiting: Vec<Order>,
    /// The last response to us, and when it came: newer than the watch until that catches up.
    written: Option<(Arc<Node>, Instant)>,
}

impl Worker {
    async fn run(mut self, mut shutdown: Shutdown) {
        tokio::select! {
            () = shutdown.requested() => {}
            () = self.work() => {}
        }
    }

    async fn work(&mut self) {
        let mut retry = Backoff::new(RETRY.0, RETRY.1);
        while self.collect(SETTLE).await {
            let Some(newest) = self.newest().await else {
                return;
            };
            self.waiting.retain(|order| !order.done.is_closed());
            let mut wanted = newest.as_ref().clone();
            for order in &self.waiting {
                (order.decide)(&wanted).apply(&mut wanted);
            }
            let result = match difference(&newest, &wanted) {
                Some(patch) => self.send(&patch).await,
                None => Ok(newest),
            };
            if result.as_ref().is_err_and(wire::Error::is_conflict) {
                // The Node differs from the observed one: decide again, from what it is.
                self.read().await;
            }
            match result {
                Err(error) if error.is_transient() => {
                    tracing::warn!(node = %self.node, error = %Chain(&error), "cannot patch the node yet");
                    let delay = error.retry_after().unwrap_or_else(|| retry.next_delay());
                    if !self.collect(delay).await {
                        return;
                    }
                }
                result => {
                    retry.reset();
                    let result = result.map_err(Arc::new);
                    for order in self.waiting.drain(..) {
                        // No caller waits any more.
                        drop(order.done.send(result.clone()));
                    }
                }
            }
        }
    }

    /// Waits for a first order, then `time` for its company. False when there will be none any
    /// more.
    async fn collect(&mut self, time: Duration) -> bool {
        if self.waiting.is_empty() {
            match self.queue.recv().await {
                Some(order) => self.waiting.push(order),
                None => return false,
            }
        }
        let deadline = Instant::now() + time;
        loop {
            match tokio::time::timeout_at(deadline, self.queue.recv()).await {
                Ok(Some(order)) => self.waiting.push(order),
                // All writers are gone, but their last orders stand.
                Ok(None) => return !self.waiting.is_empty(),
                Err(_) => return true,
            }
        }
    }

    /// The newest state of the Node: what we wrote, or what the watch saw since. Waits until there
    /// is one.
    async fn newest(&mut self) -> Option<Arc<Node>> {
        let seen = match self.seen.wait_for(Option::is_some).await {
            Ok(seen) => seen.clone()?,
            Err(_) => return None,
        };
        match &self.written {
            Some((written, at))
                if !seen.is_as_new_as(written)
                    && seen.uid == written.uid
                    && at.elapsed() < CATCHES_UP =>
            {
                Some(Arc::clone(written))
            }
            _ => Some(seen),
        }
    }

    fn path(&self) -> String {
        path::untyped("v1", None, "nodes") + "/" + &self.node
    }

    async fn read(&mut self) {
        match self.access.get::<Node>(&self.path()).await {
            Ok(node) => self.written = Some((Arc::new(node), Instant::now())),
            Err(error) => {
                tracing::debug!(node = %self.node, error = %Chain(&error), "cannot read the node again");
            }
        }
    }

    async fn send(&mut self, patch: &Value) -> Result<Arc<Node>, wire::Error> {
        let node: Node = self
            .access
            .send(Method::PATCH, &self.path(), RequestBody::MergePatch(patch))
            .await?;
        let node = Arc::new(node);
        self.written = Some((Arc::clone(&node), Instant::now()));
        Ok(node)
    }
}

/// The merge patch that makes `before` into `after`; nothing when they are the same.
///
/// A change of `unschedulable` is of the version that it was decided from: whether a cordon is ours
/// or an administrator's must not be decided from what a watch that is behind shows.
fn difference(before: &Node, after: &Node) -> Option<Value> {
    let mut annotations = Map::new();
    for (key, value) in &after.annotations {
        if before.annotations.get(key) != Some(value) {
            annotations.insert(key.clone(), json!(value));
        }
    }
    for key in before.annotations.keys() {
        if !after.annotations.contains_key(key) {
            annotations.insert(key.clone(), Value::Null);
        }
    }
    let mut patch = Map::new();
    if !annotations.is_empty() {
        patch.insert("metadata".to_owned(), json!({ "annotations": annotations }));
    }
    if before.unschedulable != after.unschedulable {
        // As kubectl: absent rather than false.
        let value = if after.unschedulable {
            json!(true)
        } else {
            Value::Null
        };
        patch.insert("spec".to_owned(), json!({ "unschedulable": value }));
        let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
        metadata["resourceVersion"] = json!(before.resource_version);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests;
