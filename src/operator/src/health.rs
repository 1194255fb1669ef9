//! Leadership, readiness and stuck keys, for probes and metrics.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chassis::health::{ProbeFailure, Probes};
use chassis::metrics::{Gauge, Histogram, HistogramFamily, Registry, exponential_buckets};

/// How a reconcile ended: a closed set.
type Result = [(&'static str, &'static str); 1];

/// The state of the loop as others see it.
#[derive(Debug)]
pub(crate) struct Health {
    leader: Gauge,
    is_synced: AtomicBool,
    /// Keys whose reconcile has run for longer than this.
    pub(crate) deadline: Duration,
    stuck: Mutex<BTreeSet<String>>,
    seconds: HistogramFamily<Result>,
}

impl Health {
    pub(crate) fn new(deadline: Duration) -> Self {
        Self {
            leader: Gauge::default(),
            is_synced: AtomicBool::new(false),
            deadline,
            stuck: Mutex::default(),
            // From 5 ms to 82 s: from nothing to do, to some writes that wait for their limit.
            seconds: HistogramFamily::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.005, 4.0, 8))
            }),
        }
    }

    /// Registers the loop's metrics, whose names begin with the controller's.
    pub(crate) fn register(&self, name: &str, registry: &mut Registry) {
        registry.register(
            &format!("{name}_leader"),
            "Whether this replica holds the lease.",
            self.leader.clone(),
        );
        registry.register(
            &format!("{name}_reconcile_seconds"),
            "How long one reconcile took, by its result.",
            self.seconds.clone(),
        );
    }

    /// From now on this replica leads.
    pub(crate) fn lead(&self) {
        self.leader.set(1);
    }

    /// From now on all kinds have been read.
    pub(crate) fn sync(&self) {
        self.is_synced.store(true, Ordering::Relaxed);
    }

    pub(crate) const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// A reconcile ended with this result.
    pub(crate) fn count(&self, result: &'static str, took: Duration) {
        let seconds = self.seconds.get_or_create(&[("result", result)]);
        seconds.observe(took.as_secs_f64());
    }

    /// The reconcile of this key has run for longer than its deadline, until the guard is dropped.
    pub(crate) fn stuck(&self, key: String) -> Stuck<'_> {
        self.keys().insert(key.clone());
        Stuck { health: self, key }
    }

    fn keys(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // Nothing panics while it is held; a poisoned lock still holds a whole set.
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key that is stuck for as long as this lives.
#[derive(Debug)]
pub(crate) struct Stuck<'a> {
    health: &'a Health,
    key: String,
}

impl Drop for Stuck<'_> {
    fn drop(&mut self) {
        self.health.keys().remove(&self.key);
    }
}

impl Probes for Health {
    fn healthy(&self) -> std::result::Result<(), ProbeFailure> {
        let keys: Vec<String> = self.keys().iter().cloned().collect();
        if keys.is_empty() {
            return Ok(());
        }
        Err(ProbeFailure::Overdue {
            work: "reconcile",
            limit: self.deadline,
            keys,
        })
    }

    fn ready(&self) -> std::result::Result<(), ProbeFailure> {
        if self.leader.get() == 1 && !self.is_synced.load(Ordering::Relaxed) {
            return Err(ProbeFailure::NotSynced);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stuck_key_is_not_healthy_until_it_ends() {
        let health = Health::new(Duration::from_mins(10));
        health.healthy().unwrap();
        let stuck = health.stuck("pool worker".to_owned());
        assert_eq!(
            health.healthy().unwrap_err().to_string(),
            "reconcile has not ended within 600 s: pool worker"
        );
        drop(stuck);
        health.healthy().unwrap();
    }

    #[test]
    fn replica_that_waits_for_the_lease_is_ready_and_a_new_leader_is_not() {
        let health = Health::new(Duration::from_mins(10));
        health.ready().unwrap();
        health.lead();
        assert!(health.ready().is_err());
        health.sync();
        health.ready().unwrap();
    }

    #[test]
    fn metrics_bear_the_name_of_their_controller() {
        let health = Health::new(Duration::from_mins(10));
        let mut registry = Registry::default();
        health.register("toy", &mut registry);
        health.lead();
        health.count("settled", Duration::from_millis(10));
        let text = registry.text().unwrap();
        assert!(text.contains("\ntoy_leader 1\n"), "{text}");
        let count = "toy_reconcile_seconds_bucket{le=\"0.02\",result=\"settled\"} 1";
        assert!(text.contains(count), "{text}");
    }
}
