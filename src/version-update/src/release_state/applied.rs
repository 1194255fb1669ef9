//! The release that is applied.

use std::sync::Arc;

use super::command::{ReleaseCommand, ReleaseCommands, ReleaseTask, ReleaseWait};
use super::{
    AppliedRelease, LoadedRelease, NewestEntry, PassEnd, PassOutcome, ReleaseOnDisk, ReleaseStage,
    ReleaseState, Step,
};

impl ReleaseState {
    /// What becomes of the applied release, beside which all stays as it is. The own one, just
    /// read, may have to wait.
    pub(super) fn with_applied(
        self,
        change: impl FnOnce(AppliedRelease) -> (AppliedRelease, ReleaseCommands),
    ) -> Step {
        match self {
            Self::Starting(own) => {
                let (it, commands) = change(AppliedRelease::begin(own, ReleaseStage::Resuming));
                (Self::Alone(it), commands)
            }
            Self::Alone(it) => {
                let (it, commands) = change(it);
                (Self::Alone(it), commands)
            }
            Self::Requested(it, request) => {
                let (it, commands) = change(it);
                (Self::Requested(it, request), commands)
            }
            Self::Retrieving(it, request) => {
                let (it, commands) = change(it);
                (Self::Retrieving(it, request), commands)
            }
            Self::Checking(it, request, on_disk) => {
                let (it, commands) = change(it);
                (Self::Checking(it, request, on_disk), commands)
            }
        }
    }
}

impl AppliedRelease {
    pub(super) const fn begin(on_disk: Arc<ReleaseOnDisk>, stage: ReleaseStage) -> Self {
        Self {
            on_disk,
            stage,
            attempt: 0,
        }
    }

    /// Another release was tried, and the own one need not wait for that any more.
    pub(super) fn after_trial(self) -> (Self, Vec<ReleaseCommand>) {
        if self.stage != ReleaseStage::Resuming {
            return (self, Vec::new());
        }
        let this = Self {
            stage: ReleaseStage::Applying,
            ..self
        };
        (this, vec![ReleaseCommand::Apply])
    }

    pub(super) fn loaded(mut self, seen: LoadedRelease) -> (Self, ReleaseCommands) {
        let mut at_once = Vec::new();
        if seen.is_new {
            at_once.extend([ReleaseCommand::Look, ReleaseCommand::Announce]);
        }
        if self.stage == ReleaseStage::Resuming {
            if seen.newest == NewestEntry::Wanted {
                let wait = ReleaseTask::Wait(ReleaseWait::Trial);
                return (self, ReleaseCommands::then(at_once, wait));
            }
            self.stage = ReleaseStage::Applying;
        }
        let is_kept = seen.newest == NewestEntry::Completed;
        if seen.has_fault && !is_kept {
            // The rest of a release that is there is kept as it is; a cluster is not led to one
            // that cannot be read.
            let wait = ReleaseTask::Wait(ReleaseWait::Readable);
            return (self, ReleaseCommands::then(at_once, wait));
        }
        let is_recorded = is_kept || seen.newest == NewestEntry::Partial;
        if !self.on_disk.is_own() && !is_recorded {
            self.stage = ReleaseStage::Switching;
            return (self, ReleaseCommands::then(at_once, ReleaseTask::Record));
        }
        self.stage = if is_kept {
            ReleaseStage::Running
        } else {
            ReleaseStage::Applying
        };
        (self, ReleaseCommands::then(at_once, ReleaseTask::Pass))
    }

    /// A pass has ended. One over a release that was left since says nothing of this one.
    pub(super) fn ended(self, end: &PassEnd) -> (Self, ReleaseCommands) {
        let Self {
            on_disk,
            stage,
            attempt,
        } = self;
        let is_begun = matches!(stage, ReleaseStage::Applying | ReleaseStage::Running);
        let is_left = !is_begun || !Arc::ptr_eq(&on_disk, &end.on_disk);
        let outcome = if is_left {
            PassOutcome::GivenUp
        } else {
            end.outcome
        };
        let (is_complete, wait) = match outcome {
            PassOutcome::Complete => (true, ReleaseWait::Applied),
            PassOutcome::Incomplete => (false, ReleaseWait::Failed),
            // It still waits: what was applied long ago may have changed.
            PassOutcome::Overdue | PassOutcome::GivenUp => {
                let this = Self {
                    on_disk,
                    stage,
                    attempt,
                };
                return (this, ReleaseCommands::wait(ReleaseWait::Nothing));
            }
        };
        let this = Self {
            on_disk,
            stage: if is_complete {
                ReleaseStage::Running
            } else {
                stage
            },
            attempt: match (end.is_kept, is_complete) {
                (true, _) => attempt + 1,
                (false, true) => 0,
                (false, false) => attempt,
            },
        };
        (this, ReleaseCommands::wait(wait))
    }
}
