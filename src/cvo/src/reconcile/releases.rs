//! The one owner of the release's state, and of what is in memory of it.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use api::config::{ClusterVersion, Release};
use chassis::backoff::Backoff;
use operator::Next;
use version_update::dropped::ReleaseInventory;
use version_update::release_state::{
    ReleaseCommand, ReleaseEvent, ReleaseOnDisk, ReleaseState, ReleaseTask, ReleaseWait,
};
use version_update::status;

use super::{Loaded, VersionOperator, VersionOperatorSettings, VersionWork};
use crate::events;

/// The release's state, and what is in memory of it.
#[derive(Debug)]
pub(super) struct Releases {
    pub(super) state: ReleaseState,
    /// The release that the program belongs to, once it was read.
    pub(super) own: Option<Release>,
    /// The files that were read last.
    loaded: Option<Arc<Loaded>>,
    /// What is stored of the release that is applied.
    pub(super) inventory: Option<ReleaseInventory>,
    pace: Pace,
}

/// How long a key waits.
#[derive(Debug)]
struct Pace {
    interval: Duration,
    /// Between two passes of which the first has failed.
    failures: Backoff,
    /// Between two trials of a request that was refused. What keeps it back is outside as a rule,
    /// such as a registry, and its end is not seen here. So the longest delay is a quarter of the
    /// interval, a minute at most.
    refusals: Backoff,
}

impl Pace {
    fn new(interval: Duration) -> Self {
        Self {
            interval,
            failures: Backoff::new(interval / 16, interval),
            refusals: Backoff::new(interval / 16, interval / 4),
        }
    }

    /// When a key's turn comes that waits for this.
    fn next(&mut self, wait: ReleaseWait) -> Next {
        Next::After(match wait {
            ReleaseWait::Change => return Next::Settled,
            ReleaseWait::Trial => {
                tracing::info!("waiting for the release whose application had begun");
                return Next::Settled;
            }
            ReleaseWait::FirstRelease => {
                tracing::info!("the first release is applied before another one is accepted");
                self.interval
            }
            ReleaseWait::Nothing => Duration::ZERO,
            ReleaseWait::Refused(refusals) => {
                if refusals <= 1 {
                    // Another request starts with the shortest delay.
                    self.refusals.reset();
                }
                self.refusals.next_delay()
            }
            ReleaseWait::Readable => self.interval,
            ReleaseWait::Applied => {
                self.failures.reset();
                self.interval
            }
            ReleaseWait::Failed => self.failures.next_delay(),
        })
    }
}

impl Releases {
    pub(super) fn new(settings: &VersionOperatorSettings) -> Self {
        Self {
            state: ReleaseState::new(own_on_disk(settings)),
            own: None,
            loaded: None,
            inventory: None,
            pace: Pace::new(settings.interval),
        }
    }

    /// The files of the release that is applied, if they were read.
    pub(super) fn loaded(&self) -> Option<&Arc<Loaded>> {
        let is_it = |loaded: &&Arc<Loaded>| Arc::ptr_eq(&loaded.on_disk, self.state.on_disk());
        self.loaded.as_ref().filter(is_it)
    }

    /// The files of the release that is applied, from now on.
    pub(super) fn keep(&mut self, loaded: Loaded) -> Arc<Loaded> {
        let files = &loaded.files;
        if loaded.on_disk.is_own() {
            self.own.get_or_insert_with(|| files.release.clone());
        }
        for (file, passed) in &files.inventory.passed_over {
            tracing::debug!(file, "{passed}");
        }
        for warning in &files.warnings {
            tracing::warn!("{warning}");
        }
        Arc::clone(self.loaded.insert(Arc::new(loaded)))
    }
}

/// The release that the program belongs to.
pub(super) fn own_on_disk(settings: &VersionOperatorSettings) -> Arc<ReleaseOnDisk> {
    let own = ReleaseOnDisk::own(settings.root.clone(), settings.image.clone());
    Arc::new(own)
}

impl VersionOperator {
    pub(super) fn releases(&self) -> MutexGuard<'_, Releases> {
        // Nothing panics while it is held; a poisoned lock still holds whole values.
        self.releases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the state of an event, and does at once what it leads to. What is to be done next.
    pub(super) fn tell(&self, object: &ClusterVersion, event: ReleaseEvent) -> ReleaseTask {
        let taken = self.releases().state.take(event);
        match taken {
            Ok(commands) => {
                self.obey(object, commands.at_once);
                commands.then
            }
            Err(error) => {
                tracing::error!(%error, "the state of the release stays");
                ReleaseTask::Wait(ReleaseWait::Readable)
            }
        }
    }

    fn obey(&self, object: &ClusterVersion, commands: Vec<ReleaseCommand>) {
        for command in commands {
            let woken = match command {
                ReleaseCommand::Say(event) => {
                    events::say(&event, &self.recorder, object, (self.now)());
                    continue;
                }
                ReleaseCommand::Restart => {
                    self.engine.report().restart();
                    continue;
                }
                ReleaseCommand::Apply => vec![VersionWork::Release],
                ReleaseCommand::Look => vec![VersionWork::Request],
                ReleaseCommand::Announce => vec![VersionWork::Advice, VersionWork::Preflight],
                ReleaseCommand::Report => vec![VersionWork::Status],
            };
            self.waker.wake(woken);
        }
    }

    /// When a key's turn comes that waits for this.
    pub(super) fn wait(&self, wait: ReleaseWait) -> Next {
        self.releases().pace.next(wait)
    }

    /// The files of the release that is applied, if they were read.
    pub(super) fn loaded(&self) -> Option<Arc<Loaded>> {
        self.releases().loaded().cloned()
    }

    /// The own release, as its files have it. While they cannot be read, what the status has of it.
    pub(super) fn own(&self) -> Release {
        let own = self.releases().own.clone();
        own.unwrap_or_else(|| {
            let object = self.object();
            let status = object.as_ref().and_then(|object| object.status.as_ref());
            status::known_release(&self.settings.image, status)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A refused release is tried again soon. Row 12 of `docs/reference/known-weaknesses.md`,
    /// "Version operator".
    #[test]
    fn refused_release_is_tried_again_within_a_quarter_of_the_interval() {
        let mut pace = Pace::new(Duration::from_mins(4));
        let mut after = |refusals| {
            let Next::After(delay) = pace.next(ReleaseWait::Refused(refusals)) else {
                panic!("it does not come back by itself");
            };
            delay.as_secs_f64()
        };
        for (refusals, longest) in [(1, 15.0), (2, 30.0), (3, 60.0), (4, 60.0), (5, 60.0)] {
            let delay = after(refusals);
            assert!(delay >= longest / 2.0 && delay <= longest, "{delay}");
        }
        // Another request does not wait for what became of the one before.
        assert!(after(1) <= 15.0);
        assert!(after(2) >= 15.0);
        assert!(after(1) <= 15.0);
    }
}
