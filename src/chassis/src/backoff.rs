//! Growing delays between attempts, with jitter and a ceiling.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// Delays that double from `base` up to `ceiling`.
///
/// Shape: the n-th delay after a success lies in the upper half of `base * 2^(n-1)`, so that
/// clients which failed together do not come back together. Units: any; one clock tick is a
/// nanosecond.
#[derive(Debug, Clone)]
pub struct Backoff {
    base: Duration,
    ceiling: Duration,
    failures: u32,
}

impl Backoff {
    /// Starts with `base`; no delay is longer than `ceiling`.
    pub const fn new(base: Duration, ceiling: Duration) -> Self {
        Self {
            base,
            ceiling,
            failures: 0,
        }
    }

    /// Counts a failure and tells how long to wait before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        let delay = delay(self.base, self.ceiling, self.failures);
        self.failures = self.failures.saturating_add(1);
        jittered(delay, random())
    }

    /// Forgets the failures: the next delay is the first one again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Failures since the last success.
    pub const fn failures(&self) -> u32 {
        self.failures
    }
}

/// A delay spread over its upper half: for a fixed pace that many clients share.
pub fn spread(delay: Duration) -> Duration {
    jittered(delay, random())
}

/// `base` doubled `failures` times, at most `ceiling`.
fn delay(base: Duration, ceiling: Duration, failures: u32) -> Duration {
    let factor = 2_u32.saturating_pow(failures);
    base.checked_mul(factor)
        .map_or(ceiling, |delay| delay.min(ceiling))
}

/// Maps `random`, uniform over all of `u64`, to the upper half of `delay`.
fn jittered(delay: Duration, random: u64) -> Duration {
    let half = delay / 2;
    // 16 bits are fine enough for a delay, and keep the product in range for any sane ceiling.
    let share = u32::from(u16::try_from(random & 0xffff).unwrap_or(u16::MAX));
    half + (half / 0xffff) * share
}

/// Sixty-four bits that differ from call to call and from process to process; not for secrets.
///
/// The standard library seeds [`RandomState`] from the system and steps it for each one made. That
/// is all the jitter needs, and saves a crate.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_secs(1);
    const CEILING: Duration = Duration::from_mins(1);

    #[test]
    fn delays_double_up_to_the_ceiling() {
        let secs: Vec<_> = (0..8).map(|n| delay(BASE, CEILING, n).as_secs()).collect();
        assert_eq!(secs, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(delay(BASE, CEILING, u32::MAX), CEILING);
    }

    #[test]
    fn jitter_stays_in_the_upper_half() {
        for random in [0, 1, 0x7fff, 0xffff, u64::MAX] {
            let delay = jittered(CEILING, random);
            assert!(delay >= CEILING / 2 && delay <= CEILING, "{delay:?}");
        }
        assert_ne!(jittered(CEILING, 1), jittered(CEILING, 2));
    }

    #[test]
    fn a_success_starts_over() {
        let mut backoff = Backoff::new(BASE, CEILING);
        for _ in 0..5 {
            backoff.next_delay();
        }
        assert_eq!(backoff.failures(), 5);
        backoff.reset();
        assert!(backoff.next_delay() <= BASE);
    }
}
