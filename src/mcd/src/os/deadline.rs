//! The deadline of a verification, which goes on from a process that died to the next one.

use std::time::Duration;

use anyhow::Context as _;
use chassis::report::Chain;
use host::files::{Content, Root};
use node_update::plan::{Attempt, Mode, OwnerIds};
use serde::{Deserialize, Serialize};
use tracing::warn;

/// Where the beginning of a verification is kept. In `/run`: another boot has another deadline.
const KEPT: &str = "/run/slipway/verification.json";

/// When a verification began, and how much of the time since does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    attempt: Attempt,
    boot_id: String,
    /// Time since the boot at which it began, in milliseconds.
    began_ms: u64,
    /// Time in which units waited for others, in milliseconds.
    waited_ms: u64,
}

/// The deadline of the verification of one attempt in one boot.
#[derive(Debug)]
pub(super) struct Deadline<'a> {
    root: &'a Root,
    length: Duration,
    kept: Kept,
}

impl<'a> Deadline<'a> {
    /// The deadline of the verification that begins at `now`, or of the one under way. `now` is the
    /// time since the boot.
    pub(super) fn resume(
        root: &'a Root,
        (attempt, boot_id): (Attempt, String),
        length: Duration,
        now: Duration,
    ) -> Self {
        let mut deadline = Self {
            root,
            length,
            kept: Kept {
                attempt,
                boot_id,
                began_ms: to_ms(now),
                waited_ms: 0,
            },
        };
        let earlier = deadline.read().unwrap_or_else(|error| {
            warn!(error = %Chain(&*error), "an earlier beginning of the verification is lost");
            None
        });
        match earlier {
            Some(earlier)
                if earlier.attempt == deadline.kept.attempt
                    && earlier.boot_id == deadline.kept.boot_id =>
            {
                deadline.kept = earlier;
            }
            Some(_) | None => deadline.keep(),
        }
        deadline
    }

    /// Takes time off in which units waited for others.
    pub(super) fn extend(&mut self, by: Duration) {
        self.kept.waited_ms += to_ms(by);
        self.keep();
    }

    /// The time taken off so far.
    pub(super) const fn waited(&self) -> Duration {
        Duration::from_millis(self.kept.waited_ms)
    }

    pub(super) fn is_over(&self, now: Duration) -> bool {
        let counted = to_ms(now).saturating_sub(self.kept.began_ms);
        Duration::from_millis(counted.saturating_sub(self.kept.waited_ms)) >= self.length
    }

    /// Forgets it: the verification is at its end, and another one begins.
    pub(super) fn forget(self) {
        let removed = self.root.locate(KEPT).and_then(|at| self.root.remove(&at));
        if let Err(error) = removed {
            warn!(error = %Chain(&error), "the beginning of the verification stays");
        }
    }

    fn read(&self) -> anyhow::Result<Option<Kept>> {
        let bytes = self.root.read(KEPT)?;
        let kept = bytes.map(|bytes| serde_json::from_slice(&bytes));
        kept.transpose().context(KEPT)
    }

    /// Keeps it; where that fails, this process goes on with it all the same.
    fn keep(&self) {
        let kept = serde_json::to_vec(&self.kept).map_err(anyhow::Error::from);
        let written = kept.and_then(|bytes| {
            let content = Content {
                bytes: &bytes,
                mode: Mode(0o600),
                owner: OwnerIds::ROOT,
            };
            Ok(self.root.replace(&self.root.locate(KEPT)?, content)?)
        });
        if let Err(error) = written {
            warn!(error = %Chain(&*error), "the beginning of the verification is not kept");
        }
    }
}

fn to_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_goes_on_after_a_restart_and_begins_anew_in_another_boot_or_attempt() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("run")).unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        let secs = Duration::from_secs;
        let at = |attempt: &str, boot: &str, now: u64| {
            let of = (Attempt(attempt.to_owned()), boot.to_owned());
            Deadline::resume(&root, of, secs(10), secs(now))
        };
        assert!(!at("a", "boot-1", 100).is_over(secs(109)));
        // Another process.
        let mut again = at("a", "boot-1", 108);
        assert!(again.is_over(secs(110)));
        again.extend(secs(5));
        assert!(!at("a", "boot-1", 112).is_over(secs(114)));
        assert!(at("a", "boot-1", 114).is_over(secs(115)));
        assert!(!at("a", "boot-2", 20).is_over(secs(29)));
        let other = at("b", "boot-2", 30);
        assert!(!other.is_over(secs(39)));
        other.forget();
        assert!(!at("b", "boot-2", 50).is_over(secs(59)));
    }
}
