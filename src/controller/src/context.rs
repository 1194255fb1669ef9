//! What every part of the work uses.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cluster::events::Recorder;
use jiff::Timestamp;
use tokio::sync::Semaphore;

use crate::metrics::ControllerMetrics;
use crate::requests::Requests;
use crate::store::Store;

/// Writes of one pool's nodes that are under way at once: a rollout begins with a taint on each
/// node.
pub(crate) const WRITES: usize = 16;

/// What else than assignments is written to nodes and their objects at once, for all pools: a
/// rollout begins with a taint on each of thousands of nodes, and assignments must not wait behind
/// them.
const OTHER_WRITES: usize = 16;

/// What every part of the work uses. It remembers nothing of its own.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) requests: Requests,
    /// What the watches have brought.
    pub(crate) store: Store,
    pub(crate) recorder: Recorder,
    /// Metrics of pools and nodes.
    pub(crate) metrics: Arc<ControllerMetrics>,
    pub(crate) clock: fn() -> Timestamp,
    /// Room for the writes to nodes that are no assignments.
    pub(crate) other_writes: Semaphore,
}

impl Context {
    /// The parts, with room for writes.
    pub(crate) const fn new(
        requests: Requests,
        store: Store,
        recorder: Recorder,
        metrics: Arc<ControllerMetrics>,
        clock: fn() -> Timestamp,
    ) -> Self {
        Self {
            requests,
            store,
            recorder,
            metrics,
            clock,
            other_writes: Semaphore::const_new(OTHER_WRITES),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held; a poisoned lock still holds whole values.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
