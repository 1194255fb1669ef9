//! How fast bytes pass, all pipes of one skopeo together.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chassis::report::Chain;
use node_update::pull::{Allowance, TokenBucket};

use super::pace::Pace;

/// How often the limit is read again: a node whose turn comes waits for no more than this.
const REFRESH: Duration = Duration::from_millis(250);

/// Lets bytes pass.
#[derive(Debug)]
pub(super) struct Gate<P> {
    pace: P,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// None where there is no limit.
    bucket: Option<TokenBucket>,
    /// When the limit is read again.
    refresh_at: Duration,
}

impl<P: Pace> Gate<P> {
    pub(super) fn new(pace: P) -> Self {
        Self {
            pace,
            state: Mutex::default(),
        }
    }

    /// Waits until some of `wanted` bytes may pass, and returns how many.
    pub(super) fn pass(&self, wanted: usize) -> usize {
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        // It is held through the waits: pipes pass one after the other. Nothing panics meanwhile.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = self.pace.now();
            if now >= state.refresh_at {
                self.refresh(&mut state, now);
            }
            let allowance = match &mut state.bucket {
                None => Allowance::Bytes(wanted),
                Some(bucket) => bucket.take(wanted, now),
            };
            match allowance {
                Allowance::Bytes(bytes) => return usize::try_from(bytes).unwrap_or(usize::MAX),
                Allowance::Wait(time) => self.pace.sleep(time.min(REFRESH)),
            }
        }
    }

    fn refresh(&self, state: &mut State, now: Duration) {
        state.refresh_at = now + REFRESH;
        match (self.pace.rate(), &mut state.bucket) {
            (Ok(None), bucket) => *bucket = None,
            (Ok(Some(rate)), Some(bucket)) if bucket.rate() == rate => {}
            (Ok(Some(rate)), Some(bucket)) => bucket.set_rate(rate, now),
            (Ok(Some(rate)), bucket @ None) => *bucket = Some(TokenBucket::new(rate, now)),
            // The rate before holds.
            (Err(error), _) => tracing::debug!(error = %Chain(&error), "cannot read the limit"),
        }
    }
}
