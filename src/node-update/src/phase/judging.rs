//! What came of an update: verified, or rolled back.

use api::machineconfiguration::PhaseName;

use super::failures::failed_in;
use super::preparing::{leave, set_out, set_out_in_service};
use super::table::{Step, stay, wait};
use super::{Command, Degraded, Facts, Failures, Held, Idle, Observation, Origin, Phase, Starting};
use crate::plan::Target;

/// The host is checked against the target's expectations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verifying {
    /// What it is checked against.
    pub to: Target,
    /// What does not hold yet, for people.
    pub unmet: Option<String>,
    /// What failed before.
    pub failures: Option<Failures>,
}

/// Verified; the node returns to service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finishing {
    /// What it reached.
    pub to: Target,
    /// What failed before.
    pub failures: Option<Failures>,
}

/// The target failed; the host returns to the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollingBack {
    /// What still runs.
    pub origin: Origin,
    /// What failed.
    pub target: Target,
    /// Why.
    pub cause: String,
    /// How far the host is.
    pub step: RollBack,
    /// What failed before.
    pub failures: Option<Failures>,
}

/// How far a roll back is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RollBack {
    /// The host found the target bad; it is read for what it does about that.
    Reading,
    /// The host reboots by itself in a moment.
    Waiting,
    /// The target stayed booted and may have been in service meanwhile: pods are evicted first.
    Draining {
        /// What blocks the drain, for people: pod and budget.
        blocked: Option<String>,
    },
    /// The plan is undone, or the host reboots into the origin.
    Reverting,
}

impl Verifying {
    /// Checks the host against what it is or became.
    pub(super) fn begin(to: Target, failures: Option<Failures>) -> Step {
        let command = Command::Verify { to: to.clone() };
        let verifying = Self {
            to,
            unmet: None,
            failures,
        };
        (Phase::Verifying(verifying), vec![command])
    }

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
    pub(super) fn begin(self) -> Step {
        match self.step {
            RollBack::Reading => (Phase::RollingBack(self), vec![Command::Observe]),
            RollBack::Waiting => wait(Phase::RollingBack(self)),
            RollBack::Draining { .. } => (Phase::RollingBack(self), vec![Command::Drain]),
            RollBack::Reverting => (Phase::RollingBack(self), vec![Command::RollBack]),
        }
    }

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
