//! What came of an update: verified, or rolled back.

use api::machineconfiguration::PhaseName;

use super::entry::{leave, set_out, set_out_in_service};
use super::failures::failed_in;
use super::step::{Step, stay};
use super::{
    Command, Degraded, Facts, Finishing, Held, Idle, Observation, Origin, Phase, RollBack,
    RollingBack, Starting, Verifying,
};

impl Verifying {
    pub(super) fn unmet(self, what: String) -> Step {
        stay(Phase::Verifying(Self {
            unmet: Some(what),
            ..self
        }))
    }

    pub(super) fn verified(self, facts: &Facts) -> Step {
        if facts.wants(&self.to) {
            set_out(Origin::Verified(self.to), self.failures, facts)
        } else {
            leave(Origin::Verified(self.to), self.failures, facts)
        }
    }

    /// The checks could not be made.
    pub(super) fn not_verified(self, cause: String) -> Step {
        let failed_in = Some(failed_in(PhaseName::Verifying, &self.to));
        Degraded::after(self.failures, cause, failed_in)
    }

    pub(super) fn failed(self, cause: String) -> Step {
        let rolling_back = RollingBack {
            origin: Origin::Read(self.to.clone()),
            target: self.to,
            cause,
            step: RollBack::Reading,
            failures: self.failures,
        };
        (Phase::RollingBack(rolling_back), vec![Command::Observe])
    }
}

impl Finishing {
    pub(super) fn failed(self, cause: String) -> Step {
        let failed_in = Some(failed_in(PhaseName::Finishing, &self.to));
        Degraded::after(self.failures, cause, failed_in)
    }

    /// In service; the newest target is taken up right after.
    pub(super) fn in_service(self, facts: &Facts) -> Step {
        if facts.wants(&self.to) {
            Idle::begin(self.to, facts)
        } else {
            set_out_in_service(Origin::Verified(self.to), self.failures, facts)
        }
    }
}

impl RollingBack {
    /// What the host does about the target, and what it runs.
    pub(super) fn read(self, seen: Observation, facts: &Facts) -> Step {
        let starting = Starting {
            is_released: false,
            failures: self.failures,
        };
        starting.observed(seen, facts)
    }

    pub(super) const fn is_draining(&self) -> bool {
        matches!(self.step, RollBack::Draining { .. })
    }

    pub(super) fn blocked(self, what: String) -> Step {
        stay(Phase::RollingBack(Self {
            step: RollBack::Draining {
                blocked: Some(what),
            },
            ..self
        }))
    }

    /// Nothing keeps the host from rolling back, or it was to do so by itself and did not.
    pub(super) fn go_on(self) -> Step {
        Self {
            step: RollBack::Reverting,
            ..self
        }
        .begin()
    }

    pub(super) fn failed(self, cause: String) -> Step {
        let failed_in = Some(failed_in(PhaseName::RollingBack, &self.target));
        Degraded::after(self.failures, cause, failed_in)
    }

    pub(super) fn reverted(self, facts: &Facts) -> Step {
        if facts.wants(&self.target) {
            Held::begin(self.origin, self.target, self.cause)
        } else {
            set_out(self.origin, self.failures, facts)
        }
    }
}
