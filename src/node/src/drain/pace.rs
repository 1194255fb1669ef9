//! When an eviction that a budget refused is tried again.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest wait. A budget that allows one pod at a time allows the next one as soon as the
/// replacement of the last one is ready, often within a second or two.
const SHORTEST: Duration = Duration::from_millis(500);

/// A wait is this part of the time since the last progress, so that a drain takes at most an eighth
/// longer than the budget makes it, and evictions against a budget that stays shut become rarer.
const PART: u32 = 8;

/// The longest wait in a drain that may still move: `docs/reference/controller.md`, "Drain limits".
const LONGEST: Duration = Duration::from_mins(1);

/// After so long without progress a drain counts as stuck: the same section.
const STUCK_AFTER: Duration = Duration::from_mins(10);

/// The wait in a drain that is stuck: the same section.
const STUCK: Duration = Duration::from_mins(5);

/// How long a refused eviction waits for its next attempt, `still` after the last progress.
pub(super) fn pause(still: Duration) -> Duration {
    if still < STUCK_AFTER {
        (still / PART).clamp(SHORTEST, LONGEST)
    } else {
        STUCK
    }
}

/// Since when a drain has not moved: no pod has left, and no eviction was accepted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stillness {
    since: Instant,
    /// What had passed before that, in a process that has ended.
    before: Duration,
}

impl Stillness {
    /// Of a drain that began `before`, in a process that has ended.
    pub(super) fn new(before: Duration) -> Self {
        Self {
            since: Instant::now(),
            before,
        }
    }

    /// A pod has left, or is leaving.
    pub(super) fn end(&mut self) {
        *self = Self::new(Duration::ZERO);
    }

    pub(super) fn duration(&self) -> Duration {
        self.since.elapsed() + self.before
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn waits_grow_with_the_time_since_the_last_progress() {
        let table = [
            (0, 500),
            (500, 500),
            (4_000, 500),
            (8_000, 1_000),
            (16_000, 2_000),
            (60_000, 7_500),
            (479_000, 59_875),
            (480_000, 60_000),
            (599_999, 60_000),
            (600_000, 300_000),
            (86_400_000, 300_000),
        ];
        for (still, expected) in table {
            let waited = pause(Duration::from_millis(still));
            assert_eq!(waited, Duration::from_millis(expected), "{still} ms");
        }
    }

    /// The times of all attempts, from the first refusal to `end`.
    fn attempts(end: Duration) -> Vec<Duration> {
        let next = |at: &Duration| Some(*at + pause(*at));
        let all = std::iter::successors(Some(Duration::ZERO), next);
        all.take_while(|at| *at <= end).collect()
    }

    #[test]
    fn a_stuck_drain_asks_twelve_times_an_hour() {
        let (ten, hour) = (Duration::from_mins(10), Duration::from_hours(1));
        let first = attempts(ten).len();
        assert!(first <= 60, "every five seconds would be 120: {first}");
        assert!(attempts(ten + hour).len() - first <= 12);
    }

    proptest! {
        #[test]
        fn a_budget_that_opens_is_found_within_an_eighth(opens in 0..600_000_u64) {
            let opens = Duration::from_millis(opens);
            let next = attempts(Duration::from_mins(20)).into_iter().find(|at| *at >= opens).unwrap();
            let most = if opens + LONGEST >= STUCK_AFTER { STUCK } else { opens / PART + SHORTEST };
            prop_assert!(next <= opens + most, "open after {opens:?}, asked after {next:?}");
        }

        #[test]
        fn no_wait_is_shorter_than_an_earlier_one(one in 0..4_000_000_u64, other in 0..4_000_000_u64) {
            let pause = |millis: u64| pause(Duration::from_millis(millis));
            prop_assert!(pause(one.min(other)) <= pause(one.max(other)));
            prop_assert!((SHORTEST..=STUCK).contains(&pause(one)));
        }
    }
}
