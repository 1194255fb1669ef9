//! States and events of each kind.

use super::*;
use crate::acceptance::Checkup;
use crate::precondition::Finding;
use crate::validation::WantedRelease;

const STAGES: [ReleaseStage; 3] = [
    ReleaseStage::Switching,
    ReleaseStage::Applying,
    ReleaseStage::Running,
];

pub(super) fn release(image: &str) -> Release {
    Release {
        version: format!("4.{image}.0"),
        image: image.to_owned(),
        ..Release::default()
    }
}

pub(super) fn on_disk(image: &str) -> Arc<ReleaseOnDisk> {
    Arc::new(ReleaseOnDisk {
        accepted: (image != "own").then(|| TargetRelease {
            release: release(image),
            ..TargetRelease::default()
        }),
        ..ReleaseOnDisk::own(format!("/{image}").into(), image.to_owned())
    })
}

pub(super) fn applied(image: &str, stage: ReleaseStage) -> AppliedRelease {
    AppliedRelease {
        on_disk: on_disk(image),
        stage,
        attempt: 0,
    }
}

pub(super) fn request(image: &str) -> RequestedRelease {
    RequestedRelease {
        release: release(image),
        is_forced: false,
        generation: Some(1),
        step: None,
        refusals: 0,
    }
}

pub(super) fn retrieved() -> RetrievedRelease {
    RetrievedRelease {
        root: "/retrieved".into(),
        is_verified: true,
        risk: None,
    }
}

pub(super) fn checkup(image: &str) -> Checkup {
    Checkup {
        found: release(image),
        findings: Vec::new(),
        exposed: None,
        implied: BTreeSet::new(),
    }
}

pub(super) fn finding(is_blocking: bool) -> Finding {
    Finding {
        check: "C",
        reason: "R".to_owned(),
        message: "m".to_owned(),
        is_blocking,
    }
}

pub(super) fn loaded(newest: NewestEntry) -> LoadedRelease {
    LoadedRelease {
        newest,
        ..LoadedRelease::default()
    }
}

pub(super) fn end(applied: &AppliedRelease, is_kept: bool, outcome: PassOutcome) -> PassEnd {
    PassEnd {
        on_disk: Arc::clone(&applied.on_disk),
        is_kept,
        outcome,
    }
}

/// A ClusterVersion that asks for this image.
pub(super) fn spec_read(image: &str) -> SpecRead {
    SpecRead {
        wanted: if image == "own" {
            WantedRelease::Own
        } else {
            WantedRelease::Other(release(image))
        },
        own: on_disk("own"),
        is_forced: false,
        generation: Some(1),
        has_completed: true,
    }
}

/// The same, without the request.
pub(super) fn alone(state: &ReleaseState) -> ReleaseState {
    match state.clone() {
        ReleaseState::Requested(it, _)
        | ReleaseState::Retrieving(it, _)
        | ReleaseState::Checking(it, ..) => ReleaseState::Alone(it),
        state @ (ReleaseState::Starting(_) | ReleaseState::Alone(_)) => state,
    }
}

/// A release that is applied, of each kind.
fn applieds() -> Vec<AppliedRelease> {
    let mut all: Vec<_> = STAGES.map(|stage| applied("a", stage)).into();
    all.extend([
        applied("own", ReleaseStage::Resuming),
        applied("own", ReleaseStage::Applying),
        applied("own", ReleaseStage::Running),
    ]);
    all
}

pub(super) fn states() -> Vec<ReleaseState> {
    let mut states = vec![ReleaseState::new(on_disk("own"))];
    for it in applieds() {
        let mut requests = vec![ReleaseState::Alone(it.clone())];
        // While the own release is held back, nothing was refused yet.
        if it.stage != ReleaseStage::Resuming {
            requests.push(ReleaseState::Requested(it.clone(), request("b")));
        }
        requests.extend([
            ReleaseState::Retrieving(it.clone(), request("b")),
            ReleaseState::Checking(it, request("b"), retrieved()),
        ]);
        states.extend(requests);
    }
    states
}

/// What can happen to the applied release of a state that has one.
pub(super) fn applied_events(state: &ReleaseState) -> Vec<ReleaseEvent> {
    let mut events = vec![ReleaseEvent::Unreadable];
    let is_own = state.on_disk().is_own();
    for newest in [
        NewestEntry::Other,
        NewestEntry::Wanted,
        NewestEntry::Partial,
        NewestEntry::Completed,
    ] {
        for (is_new, has_fault) in [(false, false), (true, false), (true, true)] {
            events.push(ReleaseEvent::Loaded(LoadedRelease {
                is_new: is_new || matches!(state, ReleaseState::Starting(_)),
                has_fault,
                newest,
            }));
        }
    }
    if matches!(state, ReleaseState::Starting(_)) {
        return events;
    }
    let it = AppliedRelease {
        on_disk: Arc::clone(state.on_disk()),
        ..applied("a", ReleaseStage::Applying)
    };
    let left = applied(if is_own { "a" } else { "own" }, ReleaseStage::Applying);
    for outcome in [
        PassOutcome::Complete,
        PassOutcome::Incomplete,
        PassOutcome::Overdue,
        PassOutcome::GivenUp,
    ] {
        events.push(ReleaseEvent::Ended(end(&it, false, outcome)));
        events.push(ReleaseEvent::Ended(end(&it, true, outcome)));
        events.push(ReleaseEvent::Ended(end(&left, false, outcome)));
    }
    events
}

/// What can happen in a state.
pub(super) fn events(state: &ReleaseState) -> Vec<ReleaseEvent> {
    let mut events = applied_events(state);
    for image in ["own", "a", "b"] {
        for has_completed in [true, false] {
            events.push(ReleaseEvent::SpecRead(SpecRead {
                has_completed,
                ..spec_read(image)
            }));
        }
    }
    match state {
        ReleaseState::Starting(_) | ReleaseState::Alone(_) | ReleaseState::Requested(..) => {}
        ReleaseState::Retrieving(..) => events.extend([
            ReleaseEvent::Retrieved(retrieved()),
            ReleaseEvent::Retrieved(RetrievedRelease {
                risk: Some("unsigned".to_owned()),
                ..retrieved()
            }),
            ReleaseEvent::NotRetrieved("away".to_owned()),
        ]),
        ReleaseState::Checking(..) => events.extend([
            ReleaseEvent::Checked(checkup("b")),
            ReleaseEvent::Checked(checkup("other")),
            ReleaseEvent::Checked(Checkup {
                findings: vec![finding(true)],
                ..checkup("b")
            }),
            ReleaseEvent::NotLoaded("malformed".to_owned()),
        ]),
    }
    events
}
