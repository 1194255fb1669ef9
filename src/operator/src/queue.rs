//! Which key is reconciled next, and when.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::pin::Pin;
use std::time::Duration;

use chassis::backoff::{Backoff, spread};
use futures::StreamExt as _;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use kube::runtime::scheduler::{ScheduleRequest, Scheduler, scheduler};
use tokio::time::Instant;

use crate::reconcile::Next;

/// How long things take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// How long a key that was woken waits for more changes, at most: objects that are applied
    /// together are looked at together.
    pub(crate) settle: Duration,
    /// The longest time between two reconciles of a key.
    pub(crate) resync: Duration,
    /// First and longest wait after a failure.
    pub(crate) retry: (Duration, Duration),
}

type Requests<Key> = UnboundedReceiver<ScheduleRequest<Key>>;

/// Keys with their times. A key stands in it once: the earliest time counts.
pub(crate) struct Queue<Key> {
    pace: Pace,
    requests: UnboundedSender<ScheduleRequest<Key>>,
    // kube's debounce is not used: each further change puts it off, so that a key which changes all
    // the time would never have its turn.
    scheduler: Pin<Box<Scheduler<Key, Requests<Key>>>>,
    failures: HashMap<Key, Backoff>,
}

impl<Key> fmt::Debug for Queue<Key> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}

impl<Key: Clone + Eq + Hash> Queue<Key> {
    pub(crate) fn new(pace: Pace) -> Self {
        let (requests, receiver) = unbounded();
        Self {
            pace,
            requests,
            scheduler: Box::pin(scheduler(receiver)),
            failures: HashMap::new(),
        }
    }

    /// Wakes a key: it is due when it has settled.
    pub(crate) fn wake(&self, key: Key) {
        self.put(key, spread(self.pace.settle));
    }

    /// Puts a key back that was reconciled.
    pub(crate) fn put_back(&mut self, key: Key, next: Next) {
        let delay = match next {
            Next::Retry => {
                let (first, longest) = self.pace.retry;
                let backoff = self.failures.entry(key.clone());
                let backoff = backoff.or_insert_with(|| Backoff::new(first, longest));
                backoff.next_delay()
            }
            Next::Settled | Next::After(_) | Next::Gone => {
                self.failures.remove(&key);
                match next {
                    Next::Gone => return,
                    Next::After(delay) => delay,
                    Next::Settled | Next::Retry => spread(self.pace.resync),
                }
            }
        };
        self.put(key, delay);
    }

    /// Waits for a key that is due, but for those that run: they stay until they have ended.
    pub(crate) async fn next(&mut self, is_running: impl Fn(&Key) -> bool) -> Key {
        let mut due = self.scheduler.as_mut().hold_unless(|key| !is_running(key));
        match due.next().await {
            Some(key) => key,
            // The stream of requests does not end: its sender is ours.
            None => std::future::pending().await,
        }
    }

    fn put(&self, key: Key, delay: Duration) {
        let request = ScheduleRequest {
            message: key,
            run_at: Instant::now() + delay,
        };
        // It fails only without its receiver, which is ours.
        drop(self.requests.unbounded_send(request));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLE: Duration = Duration::from_millis(250);
    const RESYNC: Duration = Duration::from_mins(10);

    fn queue() -> Queue<&'static str> {
        Queue::new(Pace {
            settle: SETTLE,
            resync: RESYNC,
            retry: (Duration::from_secs(1), Duration::from_mins(1)),
        })
    }

    /// The next key, and how long it was waited for.
    async fn next(queue: &mut Queue<&'static str>) -> (&'static str, Duration) {
        let began = Instant::now();
        let key = queue.next(|_| false).await;
        (key, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn key_that_changes_all_the_time_has_its_turn() {
        let mut queue = queue();
        let began = Instant::now();
        queue.wake("a");
        loop {
            let step = Duration::from_millis(10);
            match tokio::time::timeout(step, queue.next(|_| false)).await {
                Ok(key) => break assert_eq!(key, "a"),
                Err(_) => queue.wake("a"),
            }
        }
        assert!(began.elapsed() <= SETTLE + Duration::from_millis(20));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_each_time_and_a_success_forgets_them() {
        let mut queue = queue();
        for longest in [1, 2, 4] {
            queue.put_back("a", Next::Retry);
            let (_, waited) = next(&mut queue).await;
            let longest = Duration::from_secs(longest);
            assert!(waited >= longest / 2 && waited <= longest + Duration::from_millis(5));
        }
        queue.put_back("a", Next::Settled);
        let (_, waited) = next(&mut queue).await;
        assert!(waited >= RESYNC / 2 && waited <= RESYNC + Duration::from_millis(5));
        queue.put_back("a", Next::Retry);
        let (_, waited) = next(&mut queue).await;
        assert!(waited <= Duration::from_millis(1005), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn change_does_not_wait_for_a_backoff() {
        let mut queue = queue();
        for _ in 0..8 {
            queue.put_back("a", Next::Retry);
            next(&mut queue).await;
        }
        queue.put_back("a", Next::Retry);
        queue.wake("a");
        let (_, waited) = next(&mut queue).await;
        assert!(waited <= SETTLE + Duration::from_millis(5), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn running_key_is_held_until_it_ends_and_others_are_not() {
        let mut queue = queue();
        queue.wake("a");
        queue.wake("b");
        assert_eq!(queue.next(|key| *key == "a").await, "b");
        let held = tokio::time::timeout(RESYNC * 2, queue.next(|key| *key == "a")).await;
        assert!(held.is_err());
        assert_eq!(next(&mut queue).await, ("a", Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_gone_does_not_come_back() {
        let mut queue = queue();
        queue.put_back("a", Next::Gone);
        queue.put_back("b", Next::After(Duration::from_hours(1)));
        assert_eq!(next(&mut queue).await.0, "b");
    }
}
