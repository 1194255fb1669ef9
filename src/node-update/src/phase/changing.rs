//! The host is changed: the stored plan is executed or reverted, and the target booted.

use api::machineconfiguration::PhaseName;

use super::failures::failed_in;
use super::step::Step;
use super::{
    Applying, Command, Degraded, Facts, Phase, Rebooting, RollBack, RollingBack, Verifying,
};

impl Applying {
    /// The stored plan went on to the switch; where that leads is decided now.
    pub(super) fn switched(self, boot_id: String, facts: &Facts) -> Step {
        if facts.wants(&self.to) {
            Rebooting::begin(self.origin, self.to, boot_id, self.failures)
        } else {
            (Phase::Applying(self), vec![Command::Revert])
        }
    }

    pub(super) fn applied(self) -> Step {
        Verifying::begin(self.to, self.failures)
    }

    /// One drain is lost once, however often what it led to cannot be undone, and for its own
    /// target only.
    pub(super) fn failed(self, cause: String, facts: &Facts) -> Step {
        let is_drain_lost = self.is_drained && facts.wants(&self.to);
        let failed_in = Some(failed_in(PhaseName::Applying, &self.to));
        Degraded::after_change(self.failures, cause, failed_in, is_drain_lost)
    }
}

impl Rebooting {
    pub(super) fn failed(self, cause: String) -> Step {
        let rolling_back = RollingBack {
            origin: self.origin,
            target: self.to,
            cause,
            step: RollBack::Reverting,
            failures: self.failures,
        };
        (Phase::RollingBack(rolling_back), vec![Command::Revert])
    }
}
