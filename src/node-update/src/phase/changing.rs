//! The host is changed: the stored plan is executed or reverted, and the target booted.

use api::machineconfiguration::PhaseName;

use super::failures::failed_in;
use super::table::Step;
use super::{Command, Degraded, Facts, Failures, Origin, Phase, RollBack, RollingBack, Verifying};
use crate::plan::Target;

/// The stored plan is executed, or reverted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applying {
    /// Where the update starts.
    pub origin: Origin,
    /// Where it leads.
    pub to: Target,
    /// Whether pods were evicted for this attempt, and that is not counted as lost yet.
    pub is_drained: bool,
    /// What failed before.
    pub failures: Option<Failures>,
}

/// The boot loader names the target; the host goes down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebooting {
    /// What still runs.
    pub origin: Origin,
    /// Where the reboot leads.
    pub to: Target,
    /// The boot that ends. Another one means that the host is back.
    pub boot_id: String,
    /// What failed before.
    pub failures: Option<Failures>,
}

impl Applying {
    /// A plan that another process began is continued, or reverted.
    pub(super) fn resume(
        origin: Origin,
        to: Target,
        failures: Option<Failures>,
        command: Command,
    ) -> Step {
        let applying = Self {
            origin,
            to,
            is_drained: false,
            failures,
        };
        (Phase::Applying(applying), vec![command])
    }

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
    pub(super) fn begin(
        origin: Origin,
        to: Target,
        boot_id: String,
        failures: Option<Failures>,
    ) -> Step {
        let rebooting = Self {
            origin,
            to,
            boot_id,
            failures,
        };
        (Phase::Rebooting(rebooting), vec![Command::Reboot])
    }

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
