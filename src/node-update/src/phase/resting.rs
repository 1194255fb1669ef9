//! Nothing is under way: in order, held, or waiting for the next attempt.

use super::entry::release;
use super::step::{Step, prepend, stay};
use super::{Command, Degraded, Facts, Held, LostDrains, Phase, Starting, Wait};

impl Held {
    /// An uncordon that is still tried is given up: the node may be on its way to what lets it be
    /// Ready.
    pub(super) fn leave(self, facts: &Facts) -> Step {
        prepend(Command::Cancel, release(self.origin, facts))
    }
}

impl Degraded {
    /// Uncordoning failed. A node that has to stay in service is uncordoned first, and stays after
    /// that.
    pub(super) fn still_cordoned(mut self) -> Step {
        if self.failures.drains == LostDrains::None {
            return stay(Phase::Degraded(self));
        }
        self.failures.owe_pause();
        Self::begin(self.failures, Wait::Uncordon, self.is_released)
    }

    pub(super) fn start(self) -> Step {
        Starting::begin(Some(self.failures), self.is_released)
    }

    /// The newest manual change is the reason, whatever failed before: no attempt begins until it
    /// is restored or forced.
    pub(super) fn drifted(mut self, what: String) -> Step {
        if self.wait == Wait::Retry {
            self.failures.cause = what;
            self.failures.failed_in = None;
        }
        stay(Phase::Degraded(self))
    }

    /// What kept the next attempt from beginning is gone. A node that has to stay in service does.
    pub(super) fn restored(self) -> Step {
        if self.wait == Wait::Retry {
            self.start()
        } else {
            stay(Phase::Degraded(self))
        }
    }

    /// Another target has no failures.
    pub(super) fn retargeted(self) -> Step {
        Starting::begin(None, self.is_released)
    }
}
