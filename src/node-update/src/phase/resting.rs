//! Nothing is under way: in order, held, or waiting for the next attempt.

use api::machineconfiguration::PhaseName;
use api::machineconfiguration::node_status::FailedIn;

use super::failures::failed_in;
use super::preparing::set_out;
use super::table::{Step, prepend, stay, wait};
use super::{Ahead, Command, Facts, Failures, Kind, LostDrains, Origin, Phase, Starting};
use crate::plan::Target;

/// The desired target is verified and the node in service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idle {
    /// What runs.
    pub at: Target,
    /// What is fetched before the node's turn.
    pub ahead: Ahead,
}

/// In the origin and in service; the target that failed is not tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// What runs.
    pub origin: Origin,
    /// What failed.
    pub target: Target,
    /// Why.
    pub cause: String,
}

/// An attempt failed, or an administrator works on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Degraded {
    /// What failed; the newest cause is why.
    pub failures: Failures,
    /// What it waits for.
    pub wait: Wait,
    /// An administrator released the held target before the host was read.
    pub is_released: bool,
}

/// What a degraded node waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The next attempt.
    Retry,
    /// The next drain: the node is in service after one that was lost.
    InService,
    /// The same, and the node could not be uncordoned yet.
    Uncordon,
}

/// The target is rejected; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreconcilable {
    /// What runs.
    pub origin: Origin,
    /// What is rejected.
    pub target: Target,
    /// Why, one sentence each.
    pub reasons: Vec<String>,
    /// This rejection, and what failed before.
    pub failures: Failures,
}

impl Held {
    pub(super) fn begin(origin: Origin, target: Target, cause: String) -> Step {
        let held = Self {
            origin,
            target,
            cause,
        };
        (Phase::Held(held), vec![Command::Uncordon])
    }

    /// An uncordon that is still tried is given up: the node may be on its way to what lets it be
    /// Ready.
    pub(super) fn leave(self, facts: &Facts) -> Step {
        prepend(Command::Cancel, release(self.origin, facts))
    }
}

/// Sets out for another target than the held one, or for the held one anew.
pub(super) fn release(origin: Origin, facts: &Facts) -> Step {
    prepend(Command::Forget, set_out(origin, None, facts))
}

impl Degraded {
    fn begin(failures: Failures, wait_for: Wait, is_released: bool) -> Step {
        wait(Phase::Degraded(Self {
            failures,
            wait: wait_for,
            is_released,
        }))
    }

    /// The host may be half way: it is read before the next attempt.
    pub(super) fn after(
        failures: Option<Failures>,
        cause: String,
        failed_in: Option<FailedIn>,
    ) -> Step {
        Self::after_change(failures, cause, failed_in, false)
    }

    /// The same before the host was read.
    pub(super) fn after_start(starting: Starting, cause: String) -> Step {
        let failures = Failures::add(starting.failures, cause, Kind::Failure, None);
        Self::begin(failures, Wait::Retry, starting.is_released)
    }

    pub(super) fn after_change(
        failures: Option<Failures>,
        cause: String,
        failed_in: Option<FailedIn>,
        is_drain_lost: bool,
    ) -> Step {
        let mut failures = Failures::add(failures, cause, Kind::Failure, failed_in);
        if is_drain_lost {
            failures.lose_drain();
        }
        Self::begin(failures, Wait::Retry, false)
    }

    /// In the old state after a lost drain: in service for a while.
    pub(super) fn pause(failures: Failures) -> Step {
        prepend(
            Command::Uncordon,
            Self::begin(failures, Wait::InService, false),
        )
    }

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

impl Unreconcilable {
    /// The host is untouched: the node is in service while it waits for another target. A rejection
    /// may end without one: an account appears, room is made.
    pub(super) fn begin(
        origin: Origin,
        target: Target,
        reasons: Vec<String>,
        (failures, kind): (Option<Failures>, Kind),
    ) -> Step {
        let failed_in = Some(failed_in(PhaseName::Fetching, &target));
        let failures = Failures::add(failures, reasons.join("; "), kind, failed_in);
        let rejected = wait(Phase::Unreconcilable(Self {
            origin,
            target,
            reasons,
            failures,
        }));
        prepend(Command::Uncordon, rejected)
    }
}
