//! The clock of a gate, and the limit that it keeps.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::limit::{InvalidLimit, read_limit};

/// The clock, and the limit as it is now.
pub(super) trait Pace: Send + Sync {
    /// The time since any one moment.
    fn now(&self) -> Duration;

    fn sleep(&self, time: Duration);

    /// Bytes a second; none if there is no limit.
    fn rate(&self) -> Result<Option<NonZeroU64>, InvalidLimit>;
}

/// The rate of a file, and this system's clock.
#[derive(Debug)]
pub(super) struct FilePace {
    /// None: there is no limit.
    path: Option<PathBuf>,
    began: Instant,
}

impl FilePace {
    pub(super) fn new(path: Option<&Path>) -> Self {
        Self {
            path: path.map(Path::to_owned),
            began: Instant::now(),
        }
    }
}

impl Pace for FilePace {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }

    fn rate(&self) -> Result<Option<NonZeroU64>, InvalidLimit> {
        self.path.as_deref().map_or(Ok(None), read_limit)
    }
}
