//! Before the host is changed: fetch, rehearse, drain.

use api::machineconfiguration::PhaseName;
use api::machineconfiguration::node_status::FailedIn;

use super::failures::failed_in;
use super::table::{Step, prepend, stay};
use super::{
    Applying, Command, Degraded, Facts, Failures, Finishing, Kind, Origin, Outline, Phase,
    Unreconcilable, Verifying,
};
use crate::plan::Target;

/// The plan is made, the image fetched and the deployment rehearsed: in service, as long as the
/// node can serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetching {
    /// Where the update starts.
    pub origin: Origin,
    /// Where it leads.
    pub to: Target,
    /// How far it came.
    pub step: Fetch,
    /// The last error of a fetch that is retried.
    pub last_error: Option<String>,
    /// What failed before.
    pub failures: Option<Failures>,
}

/// How far a fetch came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetch {
    /// The node returns to service first, because an earlier target may have taken it out. One that
    /// cannot serve (its kubelet does not become Ready, or the API server refuses the uncordon)
    /// fetches while it is out: the target may be what mends it.
    Returning,
    /// The same target was fetched before its turn already, and that is under way still.
    Joining,
    /// The plan is made.
    Planning,
    /// The plan is stored; the image is fetched and the deployment rehearsed.
    Preparing(Outline),
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

fn set_out_with(step: Fetch, origin: Origin, failures: Option<Failures>, facts: &Facts) -> Step {
    match (origin, &facts.desired) {
        (origin, Some(to)) if to != origin.target() => {
            Fetching::anew(step, origin, to.clone(), failures)
        }
        (Origin::Verified(to), _) => {
            let finishing = Phase::Finishing(Finishing { to, failures });
            (finishing, vec![Command::ReturnToService])
        }
        (Origin::Read(to), _) => Verifying::begin(to, failures),
    }
}

/// Waits for the fetch of `to` that began before the node's turn, instead of beginning it anew.
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

/// The host is untouched: the node is in service while it waits for the next attempt.
fn give_up(failures: Option<Failures>, cause: String, failed_in: Option<FailedIn>) -> Step {
    prepend(
        Command::Uncordon,
        Degraded::after(failures, cause, failed_in),
    )
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
        Fetching::anew(Fetch::Returning, origin, to, failures)
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

impl Fetching {
    fn anew(step: Fetch, origin: Origin, to: Target, failures: Option<Failures>) -> Step {
        let fetching = Self {
            origin,
            to,
            step,
            last_error: None,
            failures,
        };
        fetching.begin()
    }

    fn begin(self) -> Step {
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

    /// It cannot serve.
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
