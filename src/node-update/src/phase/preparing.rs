//! Before the host is changed: fetch, rehearse, drain.

use api::machineconfiguration::PhaseName;
use api::machineconfiguration::node_status::FailedIn;

use super::entry::set_out_with;
use super::failures::failed_in;
use super::step::{Step, prepend, stay};
use super::{
    Applying, Command, Degraded, Draining, Facts, Failures, Fetch, Fetching, Kind, Outline, Phase,
    Unreconcilable,
};

/// The host is untouched: the node is in service while it waits for the next attempt.
fn give_up(failures: Option<Failures>, cause: String, failed_in: Option<FailedIn>) -> Step {
    prepend(
        Command::Uncordon,
        Degraded::after(failures, cause, failed_in),
    )
}

impl Fetching {
    pub(super) const fn is_returning(&self) -> bool {
        matches!(self.step, Fetch::Returning)
    }

    pub(super) const fn is_joining(&self) -> bool {
        matches!(self.step, Fetch::Joining)
    }

    pub(super) const fn is_preparing(&self) -> bool {
        matches!(self.step, Fetch::Preparing(_))
    }

    /// In service; or what began before its turn ended, well or not.
    pub(super) fn begin_plan(self) -> Step {
        Self {
            step: Fetch::Planning,
            last_error: None,
            ..self
        }
        .begin()
    }

    pub(super) fn still_out(self, cause: String) -> Step {
        let failed_in = Some(failed_in(PhaseName::Fetching, &self.to));
        let failures = Failures::add(self.failures, cause, Kind::Failure, failed_in);
        Self {
            step: Fetch::Planning,
            failures: Some(failures),
            ..self
        }
        .begin()
    }

    pub(super) fn failed(self, cause: String) -> Step {
        let failed_in = Some(failed_in(PhaseName::Fetching, &self.to));
        give_up(self.failures, cause, failed_in)
    }

    pub(super) fn planned(self, outline: Outline) -> Step {
        Self {
            step: Fetch::Preparing(outline),
            last_error: None,
            ..self
        }
        .begin()
    }

    /// Another target. What was tried to return it to service is not tried once more.
    pub(super) fn retargeted(self, facts: &Facts) -> Step {
        let step = if self.is_returning() {
            Fetch::Returning
        } else {
            Fetch::Planning
        };
        let set_out = set_out_with(step, self.origin, None, facts);
        prepend(Command::Cancel, set_out)
    }

    pub(super) fn still_trying(self, error: String) -> Step {
        stay(Phase::Fetching(Self {
            last_error: Some(error),
            ..self
        }))
    }

    pub(super) fn prepared(self) -> Step {
        if matches!(self.step, Fetch::Preparing(Outline { drain: true, .. })) {
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

    /// What the rules reject, no installed host can follow. What a rehearsal finds on this host may
    /// mend itself, and shows as another failure.
    pub(super) fn rejected(self, reasons: Vec<String>) -> Step {
        let kind = if self.is_preparing() {
            Kind::Failure
        } else {
            Kind::Rejection
        };
        Unreconcilable::begin(self.origin, self.to, reasons, (self.failures, kind))
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
        let failed_in = Some(failed_in(PhaseName::Draining, &self.to));
        let failures = Failures::add(self.failures, what.clone(), Kind::Failure, failed_in);
        stay(Phase::Draining(Self {
            blocked: Some(what),
            failures: Some(failures),
            ..self
        }))
    }

    pub(super) fn failed(self, cause: String) -> Step {
        let failed_in = Some(failed_in(PhaseName::Draining, &self.to));
        give_up(self.failures, cause, failed_in)
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
