//! How many bytes may pass at a rate.

use std::num::NonZeroU64;
use std::time::Duration;

/// Parts of a second: credit is counted in bytes by nanosecond, so that nothing is rounded.
const NANOS: u128 = 1_000_000_000;

/// The share of a second that may be caught up on at once, after a pause or a late wake-up.
const BURST_SHARE: u64 = 10;

/// What may always be caught up on, in bytes: what one pipe of the kernel holds.
const LEAST_BURST: u64 = 64 << 10;

/// A token bucket: in any time `t`, at most `rate × t + burst` bytes pass.
///
/// It is empty at first, so that from its beginning on at most `rate × t` bytes pass.
/// Units: rate in bytes a second; times since any one moment.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    rate: NonZeroU64,
    /// Bytes by nanosecond.
    credit: u128,
    /// When the credit was counted.
    at: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowance {
    /// So many bytes may pass now, and are counted.
    Bytes(u64),
    /// None may before this time has passed, and is counted.
    Wait(Duration),
}

impl TokenBucket {
    pub const fn new(rate: NonZeroU64, now: Duration) -> Self {
        Self {
            rate,
            credit: 0,
            at: now,
        }
    }

    /// Its rate, in bytes a second.
    pub const fn rate(&self) -> NonZeroU64 {
        self.rate
    }

    /// Most bytes that pass at once.
    pub fn burst(&self) -> u64 {
        (self.rate.get() / BURST_SHARE).max(LEAST_BURST)
    }

    /// Goes on at another rate, with the credit that it has, as far as that is within the burst.
    pub fn set_rate(&mut self, rate: NonZeroU64, now: Duration) {
        self.refill(now);
        self.rate = rate;
        self.refill(now);
    }

    /// Lets the next bytes of `wanted` pass: all of them, or as many as pass at once.
    pub fn take(&mut self, wanted: u64, now: Duration) -> Allowance {
        self.refill(now);
        let bytes = wanted.min(self.burst());
        let cost = u128::from(bytes) * NANOS;
        if let Some(rest) = self.credit.checked_sub(cost) {
            self.credit = rest;
            return Allowance::Bytes(bytes);
        }
        let missing = cost.saturating_sub(self.credit);
        let nanos = missing.div_ceil(u128::from(self.rate.get()));
        Allowance::Wait(Duration::from_nanos(
            u64::try_from(nanos).unwrap_or(u64::MAX),
        ))
    }

    fn refill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at).as_nanos();
        let gained = passed.saturating_mul(u128::from(self.rate.get()));
        let most = u128::from(self.burst()) * NANOS;
        self.credit = self.credit.saturating_add(gained).min(most);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(bytes: u64) -> NonZeroU64 {
        NonZeroU64::new(bytes).unwrap()
    }

    /// Any rate that occurs, from bytes to the speed of memory.
    fn any_rate() -> impl Strategy<Value = NonZeroU64> {
        (0..36_u32, any::<u64>()).prop_map(|(bits, number)| rate((number % (1 << bits)).max(1)))
    }

    /// Pauses and sizes of attempts to pass.
    fn any_attempts() -> impl Strategy<Value = Vec<(Duration, u64)>> {
        let pause = prop_oneof![
            Just(Duration::ZERO),
            (0..2_000_000_000_u64).prop_map(Duration::from_nanos),
            (0..7200_u64).prop_map(Duration::from_secs),
        ];
        prop::collection::vec((pause, 0..1_u64 << 30), 1..60)
    }

    /// Whether no more than the rate and `burst` bytes passed in a time.
    fn is_within(rate: NonZeroU64, burst: u64, bytes: u64, time: Duration) -> bool {
        let most = u128::from(rate.get()) * time.as_nanos() + u128::from(burst) * NANOS;
        u128::from(bytes) * NANOS <= most
    }

    proptest! {
        #[test]
        fn no_more_than_the_rate_and_a_burst_pass_in_any_time(
            rate in any_rate(), attempts in any_attempts()
        ) {
            let mut now = Duration::from_secs(5);
            let mut bucket = TokenBucket::new(rate, now);
            let began = now;
            let mut passed: Vec<(Duration, u64)> = Vec::new();
            for (pause, wanted) in attempts {
                now += pause;
                if let Allowance::Bytes(bytes) = bucket.take(wanted, now) {
                    prop_assert!(bytes <= wanted);
                    passed.push((now, bytes));
                }
            }
            for (place, (from, _)) in passed.iter().enumerate() {
                let mut bytes = 0;
                for (to, passed) in &passed[place..] {
                    bytes += passed;
                    prop_assert!(is_within(rate, bucket.burst(), bytes, to.saturating_sub(*from)));
                }
            }
            let all: u64 = passed.iter().map(|(_, bytes)| bytes).sum();
            prop_assert!(is_within(rate, 0, all, now.saturating_sub(began)));
        }

        #[test]
        fn all_pass_by_waits_as_long_as_it_says_and_in_no_more_time_than_the_rate_needs(
            rate in any_rate(), size in 0..1_u64 << 40
        ) {
            let mut now = Duration::ZERO;
            let mut bucket = TokenBucket::new(rate, now);
            let mut left = size.min(rate.get().saturating_mul(1000));
            let all = left;
            let mut waits = 0_u32;
            while left > 0 {
                match bucket.take(left, now) {
                    Allowance::Bytes(bytes) => {
                        prop_assert!(bytes > 0);
                        left -= bytes;
                    }
                    Allowance::Wait(wait) => {
                        prop_assert!(wait > Duration::ZERO);
                        now += wait;
                        // After it, the same bytes pass.
                        let passes = bucket.clone().take(left, now);
                        prop_assert!(matches!(passes, Allowance::Bytes(_)), "{passes:?}");
                        waits += 1;
                    }
                }
            }
            // Each wait is rounded up to a nanosecond.
            let needed = u128::from(all) * NANOS / u128::from(rate.get());
            prop_assert!(now.as_nanos() <= needed + u128::from(waits) + 1, "{now:?} {needed}");
        }

        #[test]
        fn a_change_of_the_rate_lets_no_more_pass_than_the_faster_of_the_two(
            rates in (any_rate(), any_rate()), attempts in any_attempts(), at in 0..60_usize
        ) {
            let mut now = Duration::ZERO;
            let mut bucket = TokenBucket::new(rates.0, now);
            let mut all = 0;
            for (place, (pause, wanted)) in attempts.into_iter().enumerate() {
                now += pause;
                if place == at {
                    bucket.set_rate(rates.1, now);
                    prop_assert_eq!(bucket.rate(), rates.1);
                }
                if let Allowance::Bytes(bytes) = bucket.take(wanted, now) {
                    all += bytes;
                }
            }
            prop_assert!(is_within(rates.0.max(rates.1), 0, all, now));
        }
    }

    #[test]
    fn a_clock_that_stands_or_runs_backwards_gains_nothing() {
        let second = Duration::from_secs(1);
        let mut bucket = TokenBucket::new(rate(100_000), second);
        assert_eq!(
            bucket.take(100_000, second),
            Allowance::Wait(second * 65_536 / 100_000)
        );
        assert_eq!(bucket.take(1000, second * 2), Allowance::Bytes(1000));
        // What one pipe holds is kept at most.
        assert_eq!(bucket.take(65_536 - 1000, second), Allowance::Bytes(64_536));
        let wait = Duration::from_millis(10);
        assert_eq!(bucket.take(1000, Duration::ZERO), Allowance::Wait(wait));
        assert_eq!(bucket.take(1000, second * 2 + wait), Allowance::Bytes(1000));
    }
}
