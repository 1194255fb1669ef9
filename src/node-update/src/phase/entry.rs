//! How each phase is entered: its data, and its first commands.

use api::machineconfiguration::PhaseName;
use api::machineconfiguration::node_status::FailedIn;

use super::failures::failed_in;
use super::step::{Step, prepend, stay, wait};
use super::{
    Ahead, Applying, Command, Degraded, Facts, Failures, Fetch, Fetching, Finishing, Held, Idle,
    Kind, Origin, Phase, Rebooting, RollBack, RollingBack, Starting, Unreconcilable, Verifying,
    Wait,
};
use crate::plan::Target;

/// Starts from where the host is to the desired target, in service; there already, the node returns
/// to service.
pub(super) fn set_out(origin: Origin, failures: Option<Failures>, facts: &Facts) -> Step {
    set_out_with(Fetch::Returning, origin, failures, facts)
}

/// The same for a node that is in service already.
pub(super) fn set_out_in_service(
    origin: Origin,
    failures: Option<Failures>,
    facts: &Facts,
) -> Step {
    set_out_with(Fetch::Planning, origin, failures, facts)
}

pub(super) fn set_out_with(
    step: Fetch,
    origin: Origin,
    failures: Option<Failures>,
    facts: &Facts,
) -> Step {
    match (origin, &facts.desired) {
        (origin, Some(to)) if to != origin.target() => {
            Fetching::from_step(step, origin, to.clone(), failures)
        }
        (Origin::Verified(to), _) => {
            let finishing = Phase::Finishing(Finishing { to, failures });
            (finishing, vec![Command::ReturnToService])
        }
        (Origin::Read(to), _) => Verifying::begin(to, failures),
    }
}

/// Waits for the fetch of `to` that began before the node's turn, instead of restarting it.
pub(super) const fn join(origin: Origin, to: Target) -> Step {
    let fetching = Fetching {
        origin,
        to,
        step: Fetch::Joining,
        last_error: None,
        failures: None,
    };
    (Phase::Fetching(fetching), vec![])
}

/// Gives up an update of an untouched host for another target.
pub(super) fn cancel(origin: Origin, facts: &Facts) -> Step {
    prepend(Command::Cancel, set_out(origin, None, facts))
}

/// Leaves a state for another target: after a lost drain, once the node was in service for a while.
pub(super) fn leave(origin: Origin, failures: Option<Failures>, facts: &Facts) -> Step {
    begin_anew(failures, |failures| set_out(origin, failures, facts))
}

/// The same where an administrator forces the update: to what runs already, too.
pub(super) fn force(origin: Origin, failures: Option<Failures>, facts: &Facts) -> Step {
    let to = facts
        .desired
        .as_ref()
        .unwrap_or_else(|| origin.target())
        .clone();
    begin_anew(failures, |failures| {
        Fetching::from_step(Fetch::Returning, origin, to, failures)
    })
}

fn begin_anew(failures: Option<Failures>, begin: impl FnOnce(Option<Failures>) -> Step) -> Step {
    let Some(mut failures) = failures else {
        return begin(None);
    };
    if failures.begin_pause() {
        return Degraded::pause(failures);
    }
    begin(Some(failures))
}

/// Sets out for another target than the held one, or for the held one again.
pub(super) fn release(origin: Origin, facts: &Facts) -> Step {
    prepend(Command::Forget, set_out(origin, None, facts))
}

impl Starting {
    pub(super) fn begin(failures: Option<Failures>, is_released: bool) -> Step {
        let starting = Self {
            is_released,
            failures,
        };
        (Phase::Starting(starting), vec![Command::Observe])
    }
}

impl Idle {
    /// At rest in `at`, with what the Node names next ahead of it.
    pub(super) fn begin(at: Target, facts: &Facts) -> Step {
        let next = facts.next.as_ref().filter(|next| next.to != at);
        let ahead = next.map_or(Ahead::Nothing, |next| Ahead::Waiting(next.clone()));
        wait(Phase::Idle(Self { at, ahead }))
    }
}

impl Fetching {
    pub(super) fn from_step(
        step: Fetch,
        origin: Origin,
        to: Target,
        failures: Option<Failures>,
    ) -> Step {
        let fetching = Self {
            origin,
            to,
            step,
            last_error: None,
            failures,
        };
        fetching.begin()
    }

    pub(super) fn begin(self) -> Step {
        let command = match self.step {
            Fetch::Joining => return stay(Phase::Fetching(self)),
            Fetch::Returning => Command::ReturnToService,
            Fetch::Planning => Command::Plan {
                from: self.origin.target().clone(),
                to: self.to.clone(),
            },
            Fetch::Preparing(_) => Command::Prepare,
        };
        (Phase::Fetching(self), vec![command])
    }
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
}

impl Degraded {
    pub(super) fn begin(failures: Failures, wait_for: Wait, is_released: bool) -> Step {
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
