//! How long a drain of this node goes on, which goes on from a daemon that ended to the next one.
//!
//! The time of day says since when the node is drained, for people: it may be set. The limits of a
//! drain are counted by the time since the boot, which nothing sets.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use chassis::report::Chain;
use host::files::{Content, Root};
use host::journal;
use node_update::plan::{Mode, OwnerIds};
use serde::{Deserialize, Serialize};
use tracing::warn;

/// Where the beginning of a drain is kept. In `/run`: a boot ends every drain.
const KEPT: &str = "/run/slipway/drain.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// The drain: the text of its Node's annotation `slipway.dev/drain-since`.
    drain: String,
    boot_id: String,
    /// Time since the boot at which it began, in milliseconds.
    began_ms: u64,
}

/// The clock of a node's drains.
#[derive(Debug, Clone)]
pub struct DrainClock {
    root: PathBuf,
    now: fn() -> Duration,
}

impl DrainClock {
    /// The clock of the host whose root is mounted at `root`.
    pub fn of(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            now: journal::time_since_boot,
        }
    }

    /// How long this drain goes on; nothing where it begins, or began in an unknown time.
    pub fn passed(&self, drain: &str) -> Duration {
        let now = to_ms((self.now)());
        let began_ms = self.began(drain, now).unwrap_or_else(|error| {
            warn!(error = %Chain(&*error), "the beginning of the drain is not kept");
            now
        });
        Duration::from_millis(now.saturating_sub(began_ms))
    }

    /// When the drain began; kept where it begins now.
    fn began(&self, drain: &str, now_ms: u64) -> anyhow::Result<u64> {
        let root = Root::open(&self.root, None)?;
        let new = Kept {
            drain: drain.to_owned(),
            boot_id: journal::boot_id(&root)?,
            began_ms: now_ms,
        };
        match read(&root) {
            Ok(Some(kept)) if kept.drain == new.drain && kept.boot_id == new.boot_id => {
                return Ok(kept.began_ms);
            }
            Ok(_) => {}
            Err(error) => warn!(error = %Chain(&*error), "the beginning of the drain is lost"),
        }
        let bytes = serde_json::to_vec(&new)?;
        let content = Content {
            bytes: &bytes,
            mode: Mode(0o600),
            owner: OwnerIds::ROOT,
        };
        root.replace(&root.locate(KEPT)?, content)?;
        Ok(now_ms)
    }
}

fn read(root: &Root) -> anyhow::Result<Option<Kept>> {
    let bytes = root.read(KEPT)?;
    let kept = bytes.map(|bytes| serde_json::from_slice(&bytes));
    kept.transpose().context(KEPT)
}

fn to_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A host in its first boot, whose clock the test sets.
#[cfg(test)]
pub(super) mod fixture {
    use super::*;

    pub(in crate::daemon) fn host() -> tempfile::TempDir {
        let host = tempfile::tempdir().unwrap();
        boot(&host, "boot-1");
        host
    }

    pub(in crate::daemon) fn boot(host: &tempfile::TempDir, id: &str) {
        let root = Root::open(host.path(), None).unwrap();
        let content = Content {
            bytes: id.as_bytes(),
            mode: Mode(0o444),
            owner: OwnerIds::ROOT,
        };
        root.replace(&root.locate(journal::BOOT_ID).unwrap(), content)
            .unwrap();
    }

    pub(in crate::daemon) fn at(host: &tempfile::TempDir, now: fn() -> Duration) -> DrainClock {
        DrainClock {
            now,
            ..DrainClock::of(host.path())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::{at, boot, host};
    use super::*;

    #[test]
    fn a_drain_goes_on_after_a_restart_and_begins_anew_in_another_boot() {
        let host = host();
        let secs = Duration::from_secs;
        let began = || at(&host, || Duration::from_secs(100));
        let later = || at(&host, || Duration::from_secs(160));
        assert_eq!(began().passed("2026-11-21T19:00:00Z"), Duration::ZERO);
        // Another process.
        assert_eq!(later().passed("2026-11-21T19:00:00Z"), secs(60));
        // Another drain, and the first one again.
        assert_eq!(later().passed("2026-11-21T19:30:00Z"), Duration::ZERO);
        assert_eq!(later().passed("2026-11-21T19:00:00Z"), Duration::ZERO);
        boot(&host, "boot-2");
        assert_eq!(later().passed("2026-11-21T19:00:00Z"), Duration::ZERO);
        // What cannot be read begins again.
        let root = Root::open(host.path(), None).unwrap();
        let content = Content {
            bytes: b"{",
            mode: Mode(0o600),
            owner: OwnerIds::ROOT,
        };
        root.replace(&root.locate(KEPT).unwrap(), content).unwrap();
        assert_eq!(later().passed("2026-11-21T19:00:00Z"), Duration::ZERO);
        // Without a host that can be read there is no more than this process.
        let gone = DrainClock::of(Path::new("/nonexistent"));
        assert_eq!(gone.passed("2026-11-21T19:00:00Z"), Duration::ZERO);
    }
}
