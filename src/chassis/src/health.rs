//! Whether the process lives and can work: what its probes report.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// What the probes of a process answer from.
pub trait Probes: Send + Sync {
    /// Whether the process is alive: it makes progress, or has nothing to do.
    ///
    /// # Errors
    /// Why a restart would help.
    fn healthy(&self) -> Result<(), ProbeFailure>;

    /// Whether the process can do its work now.
    ///
    /// # Errors
    /// What it lacks.
    fn ready(&self) -> Result<(), ProbeFailure>;
}

/// Why a probe fails. The response has it with its causes.
#[derive(Debug, thiserror::Error)]
pub enum ProbeFailure {
    /// A loop makes no progress.
    #[error("{what} stands still for {} s", since.as_secs())]
    Stalled {
        /// The loop, with its article.
        what: &'static str,
        /// Time since its last heartbeat.
        since: Duration,
    },
    /// Work takes longer than its limit.
    #[error("{work} has not ended within {} s: {}", limit.as_secs(), keys.join(", "))]
    Overdue {
        /// The work.
        work: &'static str,
        /// The limit.
        limit: Duration,
        /// What is worked on.
        keys: Vec<String>,
    },
    /// A controller has not listed all that it watches.
    #[error("not all watched kinds were read yet")]
    NotSynced,
    /// An input was not read.
    #[error("the {0} was not read yet")]
    NotRead(&'static str),
    /// There is nothing to serve.
    #[error("no {what} has been built yet")]
    NotBuilt {
        /// What is served.
        what: &'static str,
        /// Why there is none.
        #[source]
        cause: Arc<dyn Error + Send + Sync>,
    },
    /// What is served is older than allowed.
    #[error("the {what} is {age_secs} s old")]
    Outdated {
        /// What is served.
        what: &'static str,
        /// Its age.
        age_secs: i64,
        /// Why there is none newer.
        #[source]
        cause: Arc<dyn Error + Send + Sync>,
    },
}

/// Milliseconds that stand for a loop from which no heartbeat is expected.
const RESTS: u64 = u64::MAX;

/// Watches a loop by its heartbeats: a loop that stands still for longer than its limit needs a
/// restart.
///
/// It expects nothing until the first heartbeat, and again after [`Watchdog::rest`].
#[derive(Debug)]
pub struct Watchdog {
    began: Instant,
    limit: Duration,
    /// Milliseconds from `began` to the last heartbeat, or [`RESTS`].
    last: AtomicU64,
}

impl Watchdog {
    /// A watchdog for a loop whose heartbeats are at most `limit` apart.
    pub fn new(limit: Duration) -> Self {
        Self {
            began: Instant::now(),
            limit,
            last: AtomicU64::new(RESTS),
        }
    }

    /// The loop made progress.
    pub fn beat(&self) {
        let since = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(RESTS);
        self.last.store(since, Ordering::Relaxed);
    }

    /// The loop waits for something that may take any time.
    pub fn rest(&self) {
        self.last.store(RESTS, Ordering::Relaxed);
    }

    /// Whether the loop moves, or may rest.
    ///
    /// # Errors
    /// Since when there was no heartbeat, once that is longer than the limit.
    pub fn check(&self) -> Result<(), Duration> {
        let last = self.last.load(Ordering::Relaxed);
        if last == RESTS {
            return Ok(());
        }
        let since = self.began.elapsed();
        let since = since.saturating_sub(Duration::from_millis(last));
        if since > self.limit {
            return Err(since);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_without_heartbeats_is_stuck_and_one_that_rests_is_not() {
        let minute = Duration::from_mins(1);
        let watchdog = Watchdog::new(minute);
        advance(minute * 60).await;
        assert_eq!(watchdog.check(), Ok(()));
        watchdog.beat();
        advance(minute).await;
        assert_eq!(watchdog.check(), Ok(()));
        advance(minute).await;
        assert_eq!(watchdog.check(), Err(minute * 2));
        watchdog.beat();
        assert_eq!(watchdog.check(), Ok(()));
        watchdog.rest();
        advance(minute * 60).await;
        assert_eq!(watchdog.check(), Ok(()));
    }
}
