//! Waiting for what sends no word when it changes.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::PATIENCE;

/// Time between two polls over the network.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// Polls until `found` is something, and returns that.
///
/// # Errors
///
/// `within` is over; says what was waited for and the last answer. An error of `found` ends the
/// wait.
pub async fn until<T>(
    what: &str,
    within: Duration,
    mut found: impl AsyncFnMut() -> Result<Result<T, String>>,
) -> Result<T> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = judge(what, within, deadline, found().await?)? {
            return Ok(found);
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// Polls until what `read` returns is so, and returns that; for as long as [`PATIENCE`] lasts.
///
/// # Errors
///
/// Those of [`until`]; the last answer is what was read last.
pub async fn until_so<T: Debug>(
    what: &str,
    mut read: impl AsyncFnMut() -> Result<T>,
    is_so: impl Fn(&T) -> bool,
) -> Result<T> {
    until(what, PATIENCE, async || {
        let found = read().await?;
        Ok(if is_so(&found) {
            Ok(found)
        } else {
            Err(format!("{found:?}"))
        })
    })
    .await
}

/// The same as [`until`] on a thread, with `pause` between two polls.
///
/// # Errors
///
/// Those of [`until`].
pub fn until_blocking<T>(
    what: &str,
    within: Duration,
    pause: Duration,
    mut found: impl FnMut() -> Result<Result<T, String>>,
) -> Result<T> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = judge(what, within, deadline, found()?)? {
            return Ok(found);
        }
        std::thread::sleep(pause);
    }
}

fn judge<T>(
    what: &str,
    within: Duration,
    deadline: Instant,
    found: Result<T, String>,
) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(last) if Instant::now() >= deadline => {
            bail!("waited {} s for {what}: {last}", within.as_secs());
        }
        Err(_) => Ok(None),
    }
}

/// Lets time pass, unless it is over with before.
pub(crate) fn pause(time: Duration, is_over: impl Fn() -> bool) {
    const POLL_EVERY: Duration = Duration::from_millis(10);
    let until = Instant::now() + time;
    while !is_over() && Instant::now() < until {
        std::thread::sleep(POLL_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_read_is_returned_once_it_is_so() {
        let mut reads = 0;
        let read = async || {
            reads += 1;
            Ok(reads)
        };
        let found = until_so("two", read, |read| *read == 2).await.unwrap();
        assert_eq!(found, 2);
    }
}
