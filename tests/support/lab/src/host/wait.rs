//! Waiting for what tells nobody when it changes.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks until there is something to see.
pub(super) fn until<T>(within: Duration, look: impl Fn() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(seen) = look()? {
            return Ok(seen);
        }
        if Instant::now() >= deadline {
            bail!("waited for {within:?}");
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Lets time pass, unless it is over with before.
pub(super) fn pause(time: Duration, is_over: impl Fn() -> bool) {
    drop(until(time, || Ok(is_over().then_some(()))));
}
