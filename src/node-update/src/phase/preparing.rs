//! Before the host is changed: fetch, rehearse, drain.

use super::table::{Step, prepend, stay};
use super::{
    Applying, Command, Degraded, Facts, Failures, Finishing, Kind, Origin, Outline, Phase,
    Unreconcilable, Verifying,
};
use crate::plan::Target;

/// The plan is made, the image fetched and the deployment rehearsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetching {
    /// Where the update starts.
    pub origin: Origin,
    /// Where it leads.
    pub to: Target,
    /// The plan's outline, once it is made.
    pub outline: Option<Outline>,
    /// The last error of a fetch that is retried.
    pub last_error: Option<String>,
    /// What failed before.
    pub failures: Option<Failures>,
}

/// Pods are evicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draining {
    /// Where the update starts.
    pub origin: Origin,
    /// Where it leads.
    pub to: Target,
    /// What blocks the drain, for people: pod and budget.
    pub blocked: Option<String>,
    /// What failed before.
    pub failures: Option<Failures>,
}

/// Starts from where the host is to the desired target; there already, the node returns to service.
pub(super) fn set_out(origin: Origin, failures: Option<Failures>, facts: &Facts) -> Step {
    match (origin, &facts.desired) {
        (origin, Some(to)) if to != origin.target() => {
            let plan = Command::Plan {
                from: origin.target().clone(),
                to: to.clone(),
            };
            let fetching = Fetching {
                origin,
                to: to.clone(),
                outline: None,
                last_error: None,
                failures,
            };
            (Phase::Fetching(fetching), vec![plan])
        }
        (Origin::Verified(to), _) => {
            let finishing = Phase::Finishing(Finishing { to, failures });
            (finishing, vec![Command::ReturnToService])
        }
        (Origin::Read(to), _) => Verifying::begin(to, failures),
    }
}

/// Gives up an update of an untouched host for another target.
pub(super) fn cancel(origin: Origin, facts: &Facts) -> Step {
    prepend(Command::Cancel, set_out(origin, None, facts))
}

/// The host is untouched: the node is in service while it waits for the next attempt.
pub(super) fn give_up(failures: Option<Failures>, cause: String) -> Step {
    prepend(Command::Uncordon, Degraded::after(failures, cause))
}

/// Leaves a state for another target: after a lost drain, once the node was in service for a while.
pub(super) fn leave(origin: Origin, failures: Option<Failures>, facts: &Facts) -> Step {
    let Some(mut failures) = failures else {
        return set_out(origin, None, facts);
    };
    if failures.begin_pause() {
        return Degraded::pause(failures);
    }
    // In its old state after a failure: it is in service until the next drain.
    prepend(Command::Uncordon, set_out(origin, Some(failures), facts))
}

impl Fetching {
    pub(super) fn planned(self, outline: Outline) -> Step {
        let mut commands = vec![];
        if !outline.drain {
            // An earlier target may have begun to drain.
            commands.push(Command::Uncordon);
        }
        commands.push(Command::Prepare);
        let fetching = Self {
            outline: Some(outline),
            last_error: None,
            ..self
        };
        (Phase::Fetching(fetching), commands)
    }

    pub(super) fn still_trying(self, error: String) -> Step {
        stay(Phase::Fetching(Self {
            last_error: Some(error),
            ..self
        }))
    }

    pub(super) fn prepared(self) -> Step {
        if self.outline.is_some_and(|outline| outline.drain) {
            let draining = Draining {
                origin: self.origin,
                to: self.to,
                blocked: None,
                failures: self.failures,
            };
            return (Phase::Draining(draining), vec![Command::Drain]);
        }
        let applying = Applying {
            origin: self.origin,
            to: self.to,
            is_drained: false,
            failures: self.failures,
        };
        (Phase::Applying(applying), vec![Command::Apply])
    }

    pub(super) fn rejected(self, reasons: Vec<String>) -> Step {
        Unreconcilable::begin(self.origin, self.to, reasons, self.failures)
    }
}

impl Draining {
    pub(super) fn blocked(self, what: String) -> Step {
        stay(Phase::Draining(Self {
            blocked: Some(what),
            ..self
        }))
    }

    /// Blocked for too long: the node counts as failed, and the drain goes on.
    pub(super) fn overdue(self, what: String) -> Step {
        let failures = Failures::add(self.failures, what.clone(), Kind::Failure);
        stay(Phase::Draining(Self {
            blocked: Some(what),
            failures: Some(failures),
            ..self
        }))
    }

    pub(super) fn drained(self) -> Step {
        let applying = Applying {
            origin: self.origin,
            to: self.to,
            is_drained: true,
            failures: self.failures,
        };
        (Phase::Applying(applying), vec![Command::Apply])
    }
}
