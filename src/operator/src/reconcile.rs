//! What a controller does for one key.

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

/// What is reconciled alone: the name of an object, as a rule.
pub trait Key:
    Clone + Eq + Hash + fmt::Debug + fmt::Display + Send + Sync + Unpin + 'static
{
}

impl<T: Clone + Eq + Hash + fmt::Debug + fmt::Display + Send + Sync + Unpin + 'static> Key for T {}

/// What a controller does for one key.
pub trait Reconcile: Send + Sync {
    /// What is reconciled alone.
    type Key: Key;

    /// Why a key could not be reconciled. It is logged with its causes, and the key tried again.
    type Error: std::error::Error + 'static;

    /// All keys that there are, by the caches.
    fn keys(&self) -> Vec<Self::Key>;

    /// Observes, decides and acts for one key. Level-triggered: it may run at any time, for a key
    /// that does not exist any more too, and never twice at once for one key.
    ///
    /// # Errors
    /// What kept it from its end.
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<Next, Self::Error>> + Send;

    /// Writes the last state, after the last reconcile has ended and before the lease is
    /// released. It has a few seconds.
    fn finish(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// When a key is reconciled next, unless a change wakes it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It is as it should be: with the resync.
    Settled,
    /// It is not yet as it should be: with a delay that grows from time to time.
    Retry,
    /// After this time.
    After(Duration),
    /// Never: what it stands for does not exist any more.
    Gone,
}
