//! A phase of each kind, an event of each kind, and the facts that lead them different ways.

use super::*;

fn failures(kind: Kind, drains: LostDrains) -> Failures {
    let cause = match kind {
        Kind::Failure => "cannot write /etc/b: no space left",
        Kind::Rejection => "storage.files[0]: cannot write /usr/b",
    };
    Failures {
        cause: cause.to_owned(),
        kind,
        failed_in: None,
        tries: 3,
        drains,
    }
}

fn failed() -> Failures {
    failures(Kind::Failure, LostDrains::None)
}

fn rejected() -> Failures {
    failures(Kind::Rejection, LostDrains::None)
}

pub(super) fn outlines() -> [Outline; 3] {
    let outline = |route, drain, image: Option<&str>| Outline {
        route,
        drain,
        image: image.map(ToOwned::to_owned),
    };
    [
        outline(Route::Reboot, true, Some("registry/os@sha256:1")),
        outline(Route::Reboot, true, None),
        outline(Route::Live, false, None),
    ]
}

/// Every phase in `failures`, the update of `a` to `b`.
fn under_way(origin: &Origin, failures: Option<&Failures>) -> Vec<Phase> {
    let (origin, to, failures) = (origin.clone(), target("b"), failures.cloned());
    let cause = "kubelet.service is failed".to_owned();
    let what = || Some("pod shop/web-1: PodDisruptionBudget web allows no eviction".to_owned());
    let mut phases = vec![];
    for is_released in [false, true] {
        phases.push(Phase::Starting(Starting {
            is_released,
            failures: failures.clone(),
        }));
    }
    let fetch = |step, last_error: Option<&str>| {
        Phase::Fetching(Fetching {
            origin: origin.clone(),
            to: to.clone(),
            step,
            last_error: last_error.map(ToOwned::to_owned),
            failures: failures.clone(),
        })
    };
    phases.push(fetch(Fetch::Joining, None));
    phases.push(fetch(Fetch::Returning, None));
    phases.push(fetch(Fetch::Planning, None));
    phases.extend(outlines().map(|outline| fetch(Fetch::Preparing(outline), None)));
    let error = Some("registry.example: 503");
    phases.push(fetch(Fetch::Preparing(REBOOT), error));
    for blocked in [None, what()] {
        phases.push(Phase::Draining(Draining {
            origin: origin.clone(),
            to: to.clone(),
            blocked,
            failures: failures.clone(),
        }));
    }
    for is_drained in [false, true] {
        phases.push(Phase::Applying(Applying {
            origin: origin.clone(),
            to: to.clone(),
            is_drained,
            failures: failures.clone(),
        }));
    }
    phases.push(Phase::Rebooting(Rebooting {
        origin: origin.clone(),
        to: to.clone(),
        boot_id: "1".to_owned(),
        failures: failures.clone(),
    }));
    for unmet in [None, Some("unit kubelet.service is activating".to_owned())] {
        phases.push(Phase::Verifying(Verifying {
            to: to.clone(),
            unmet,
            failures: failures.clone(),
        }));
    }
    phases.push(Phase::Finishing(Finishing {
        to: to.clone(),
        failures: failures.clone(),
    }));
    for step in [
        RollBack::Reading,
        RollBack::Waiting,
        RollBack::Draining { blocked: None },
        RollBack::Draining { blocked: what() },
        RollBack::Reverting,
    ] {
        phases.push(Phase::RollingBack(RollingBack {
            origin: origin.clone(),
            target: to.clone(),
            cause: cause.clone(),
            step,
            failures: failures.clone(),
        }));
    }
    phases
}

/// What the Node names next.
pub(super) fn next(config: &str) -> NextTarget {
    NextTarget {
        to: target(config),
        after: Duration::from_secs(40),
    }
}

fn at_rest(ahead: Ahead) -> Phase {
    let at = target("a");
    Phase::Idle(Idle { at, ahead })
}

fn resting(origin: &Origin) -> Vec<Phase> {
    let mut phases = vec![
        at_rest(Ahead::Nothing),
        at_rest(Ahead::Waiting(next("b"))),
        at_rest(Ahead::Fetching(target("b"))),
        at_rest(Ahead::Fetched(target("b"))),
        at_rest(Ahead::Failed {
            to: target("b"),
            cause: "manifest unknown".to_owned(),
        }),
        Phase::Held(Held {
            origin: origin.clone(),
            target: target("b"),
            cause: "kubelet.service is failed".to_owned(),
        }),
    ];
    let lost = |drains| failures(Kind::Failure, drains);
    for (failures, wait) in [
        (failed(), Wait::Retry),
        (lost(LostDrains::PauseDue { count: 2 }), Wait::Retry),
        (lost(LostDrains::Paused { count: 2 }), Wait::InService),
        (lost(LostDrains::PauseDue { count: 2 }), Wait::Uncordon),
    ] {
        phases.push(Phase::Degraded(Degraded {
            failures,
            wait,
            is_released: false,
        }));
    }
    phases.push(Phase::Unreconcilable(Unreconcilable {
        origin: origin.clone(),
        target: target("b"),
        reasons: vec![
            "storage.files[0]: cannot write /usr/b".to_owned(),
            "fips: cannot be changed".to_owned(),
        ],
        failures: Failures {
            cause: "storage.files[0]: cannot write /usr/b; fips: cannot be changed".to_owned(),
            ..rejected()
        },
    }));
    phases
}

/// Phases that differ in what they show or in where events lead.
pub(super) fn phases() -> Vec<Phase> {
    let mut phases = vec![];
    for origin in [Origin::Verified(target("a")), Origin::Read(target("a"))] {
        let due = failures(Kind::Failure, LostDrains::PauseDue { count: 2 });
        for failures in [None, Some(&failed()), Some(&rejected()), Some(&due)] {
            phases.extend(under_way(&origin, failures));
        }
        phases.extend(resting(&origin));
    }
    phases
}

/// Phases on the way without and with a failure before, and those at rest: what each shows.
pub(super) fn shown() -> Vec<Phase> {
    let origin = Origin::Verified(target("a"));
    let mut phases = under_way(&origin, None);
    phases.extend(under_way(&origin, Some(&failed())));
    phases.extend(under_way(&origin, Some(&rejected())));
    phases.extend(resting(&origin));
    phases
}

/// The newest target and the one that was verified, as an update of `a` to `b` finds them.
pub(super) fn facts() -> Vec<Facts> {
    let mut facts = vec![];
    for desired in [None, Some("a"), Some("b"), Some("c")] {
        for current in [None, Some("a")] {
            for named in [None, Some("b"), Some("c")] {
                facts.push(Facts {
                    desired: desired.map(target),
                    current: current.map(target),
                    next: named.map(next),
                });
            }
        }
    }
    facts
}

fn observations() -> Vec<Event> {
    let cause = || "kubelet.service is failed".to_owned();
    let switched = |boot: &str| Stage::Switched {
        boot_id: boot.to_owned(),
    };
    let mut events = vec![];
    for (at, stage) in [
        ("a", Stage::Applying),
        ("a", switched("1")),
        ("b", switched("0")),
        ("b", Stage::Booted),
        ("b", Stage::RollingBack { cause: cause() }),
        ("a", Stage::Undoing { cause: cause() }),
        ("b", Stage::Stays { cause: cause() }),
    ] {
        for (by_hand, stays) in [(false, false), (true, false), (false, true)] {
            events.push(Event::Observed(Observation {
                at: target(at),
                boot_id: "1".to_owned(),
                journal: Some(OpenJournal {
                    to: target("b"),
                    stage: stage.clone(),
                    by_hand,
                    stays,
                }),
                held: None,
                is_forced: false,
            }));
        }
    }
    for is_forced in [false, true] {
        for held in [None, Some((target("b"), cause()))] {
            events.push(Event::Observed(Observation {
                at: target("a"),
                boot_id: "1".to_owned(),
                journal: None,
                held,
                is_forced,
            }));
        }
    }
    events
}

/// Events that differ in where they lead. The desired target of `facts` is the one that
/// [`Event::Desired`] brings.
pub(super) fn events(facts: &Facts) -> Vec<Event> {
    let text = || "it broke".to_owned();
    let mut events = observations();
    events.extend(facts.desired.clone().map(Event::Desired));
    events.extend(outlines().map(Event::Planned));
    events.extend([
        Event::Next(facts.next.clone()),
        Event::Rejected(vec![text()]),
        Event::Prepared,
        Event::Fetched,
        Event::NotFetched(text()),
        Event::StillTrying(text()),
        Event::Blocked(text()),
        Event::Overdue(text()),
        Event::Drained,
        Event::Switched {
            boot_id: "1".to_owned(),
        },
        Event::Applied,
        Event::Reverted,
        Event::Unmet(text()),
        Event::Verified,
        Event::VerificationFailed(text()),
        Event::InService,
        Event::StillCordoned(text()),
        Event::Failed(text()),
        Event::Drifted(text()),
        Event::Restored,
        Event::Retry,
        Event::Release,
    ]);
    events
}
