//! What the machine does, by tables.
//!
//! - `samples`: states and events of each kind
//! - `drawing`: the page
//! - `model`: a cluster on which every sequence of events must end well

use super::*;

mod drawing;
mod model;
mod samples;

use super::command::ReleaseTask::{Check, Pass, Record, Retrieve, Wait};
use super::table::next;
use samples::{applied, checkup, end, loaded, on_disk, request, retrieved, spec_read};

fn step(state: &ReleaseState, event: ReleaseEvent) -> Step {
    next(state.clone(), event).unwrap()
}

#[test]
fn own_release_waits_for_one_whose_application_had_begun() {
    let state = ReleaseState::new(on_disk("own"));
    let begun = ReleaseEvent::Loaded(loaded(NewestEntry::Wanted));
    let (state, commands) = step(&state, begun.clone());
    assert_eq!(state.name(), "Resuming");
    assert_eq!(commands.then, Wait(ReleaseWait::Trial));
    // Until it was tried, well or not.
    let (state, commands) = step(&state, ReleaseEvent::SpecRead(spec_read("b")));
    assert_eq!((state.name(), commands.then), ("Retrieving", Retrieve));
    assert_eq!(step(&state, begun.clone()).1.then, Wait(ReleaseWait::Trial));
    let (state, commands) = step(&state, ReleaseEvent::NotRetrieved("away".to_owned()));
    assert!(commands.at_once.contains(&ReleaseCommand::Apply));
    assert_eq!(step(&state, begun).1.then, Pass);
}

#[test]
fn nothing_of_a_release_is_applied_before_the_history_has_it() {
    let state = ReleaseState::Alone(applied("b", ReleaseStage::Switching));
    for (newest, stage, then) in [
        (NewestEntry::Other, "Switching", Record),
        (NewestEntry::Wanted, "Switching", Record),
        (NewestEntry::Partial, "Applying", Pass),
        (NewestEntry::Completed, "Running", Pass),
    ] {
        let (state, commands) = step(&state, ReleaseEvent::Loaded(loaded(newest)));
        assert_eq!((state.name(), commands.then), (stage, then), "{newest:?}");
    }
}

#[test]
fn release_that_is_read_in_part_is_only_kept() {
    for (newest, then) in [
        (NewestEntry::Completed, Pass),
        (NewestEntry::Partial, Wait(ReleaseWait::Readable)),
        (NewestEntry::Other, Wait(ReleaseWait::Readable)),
    ] {
        let seen = LoadedRelease {
            has_fault: true,
            ..loaded(newest)
        };
        for state in [
            ReleaseState::Alone(applied("b", ReleaseStage::Running)),
            ReleaseState::new(on_disk("own")),
        ] {
            let (_, commands) = step(&state, ReleaseEvent::Loaded(seen));
            assert_eq!(commands.then, then, "{state} {newest:?}");
        }
    }
}

#[test]
fn passes_are_counted_while_a_release_is_kept() {
    let mut it = applied("b", ReleaseStage::Applying);
    for (is_kept, outcome, attempt, stage, wait) in [
        (
            false,
            PassOutcome::Incomplete,
            0,
            "Applying",
            ReleaseWait::Failed,
        ),
        (
            false,
            PassOutcome::Complete,
            0,
            "Running",
            ReleaseWait::Applied,
        ),
        (
            true,
            PassOutcome::Complete,
            1,
            "Running",
            ReleaseWait::Applied,
        ),
        (
            true,
            PassOutcome::Incomplete,
            2,
            "Running",
            ReleaseWait::Failed,
        ),
        (
            true,
            PassOutcome::Overdue,
            2,
            "Running",
            ReleaseWait::Nothing,
        ),
        (
            true,
            PassOutcome::GivenUp,
            2,
            "Running",
            ReleaseWait::Nothing,
        ),
        (
            false,
            PassOutcome::Incomplete,
            2,
            "Running",
            ReleaseWait::Failed,
        ),
        (
            false,
            PassOutcome::Complete,
            0,
            "Running",
            ReleaseWait::Applied,
        ),
    ] {
        let event = ReleaseEvent::Ended(end(&it, is_kept, outcome));
        let (state, commands) = step(&ReleaseState::Alone(it), event);
        assert_eq!((state.attempt(), state.name()), (attempt, stage));
        assert_eq!(commands.then, Wait(wait));
        let ReleaseState::Alone(now) = state else {
            panic!("{state}");
        };
        it = now;
    }
}

#[test]
fn pass_over_a_release_that_was_left_says_nothing_of_the_next() {
    let left = applied("a", ReleaseStage::Applying);
    for stage in [ReleaseStage::Switching, ReleaseStage::Applying] {
        let state = ReleaseState::Alone(applied("b", stage));
        let event = ReleaseEvent::Ended(end(&left, false, PassOutcome::Complete));
        let commands = ReleaseCommands::wait(ReleaseWait::Nothing);
        assert_eq!(step(&state, event), (state, commands));
    }
}

#[test]
fn request_is_withdrawn_or_replaced_wherever_it_is() {
    for state in samples::states() {
        let Some(before) = state.request().cloned() else {
            continue;
        };
        let running = state.on_disk();
        let (withdrawn, _) = step(&state, ReleaseEvent::SpecRead(spec_read(&running.image)));
        assert!(Arc::ptr_eq(withdrawn.on_disk(), running));
        assert_eq!(withdrawn.request(), None);
        let (replaced, commands) = step(&state, ReleaseEvent::SpecRead(spec_read("d")));
        assert_eq!(commands.then, Retrieve);
        assert!(Arc::ptr_eq(replaced.on_disk(), running));
        let now = replaced.request().unwrap();
        assert_ne!(now.release, before.release);
        assert_eq!(now.refusals, 0);
    }
}

#[test]
fn own_release_comes_back_without_a_check() {
    for state in samples::states() {
        let is_own = state.on_disk().is_own();
        if is_own || matches!(state, ReleaseState::Starting(_)) {
            continue;
        }
        let (state, commands) = step(&state, ReleaseEvent::SpecRead(spec_read("own")));
        assert_eq!(state.name(), "Applying");
        assert!(state.on_disk().is_own());
        let expected = [
            ReleaseCommand::Restart,
            ReleaseCommand::Apply,
            ReleaseCommand::Report,
        ];
        assert_eq!(commands.at_once, expected);
    }
}

/// The events of a refused release, and how long it waits.
#[test]
fn refusal_names_its_step() {
    let it = applied("a", ReleaseStage::Running);
    let retrieving = ReleaseState::Retrieving(it.clone(), request("b"));
    let checking = ReleaseState::Checking(it, request("b"), retrieved());
    let checked = |change: fn(&mut crate::acceptance::Checkup)| {
        let mut checkup = checkup("b");
        change(&mut checkup);
        ReleaseEvent::Checked(checkup)
    };
    let named = "version=\"4.b.0\" image=\"b\"";
    for (state, event, reason, message) in [
        (
            &retrieving,
            ReleaseEvent::NotRetrieved("away".to_owned()),
            "RetrievePayload",
            format!("Retrieving payload failed {named} failure=away"),
        ),
        (
            &checking,
            ReleaseEvent::NotLoaded("malformed".to_owned()),
            "LoadPayload",
            format!("Loading payload failed {named} failure=malformed"),
        ),
        (
            &checking,
            checked(|checkup| checkup.found.version = "4.9.9".to_owned()),
            "VerifyPayloadVersion",
            format!(
                "Verifying payload failed {named} failure=release image version 4.9.9 does not \
                 match the expected upstream version 4.b.0"
            ),
        ),
        (
            &checking,
            checked(|checkup| checkup.findings = vec![samples::finding(true)]),
            "PreconditionChecks",
            format!(
                "Preconditions failed for payload loaded {named}: Precondition \"C\" failed \
                 because of \"R\": m"
            ),
        ),
    ] {
        let (state, commands) = step(state, event);
        let shown = state.step().unwrap();
        assert_eq!((shown.reason, &shown.message), (reason, &message));
        assert_eq!(shown.status, api::ConditionStatus::False);
        assert_eq!(commands.then, Wait(ReleaseWait::Refused(1)));
        // The same request counts on, another one starts at zero.
        for (generation, refusals) in [(Some(1), 2), (Some(2), 1)] {
            let again = SpecRead {
                generation,
                ..spec_read("b")
            };
            let (state, commands) = step(&state, ReleaseEvent::SpecRead(again));
            assert_eq!(commands.then, Retrieve);
            let (_, commands) = step(&state, ReleaseEvent::NotRetrieved(String::new()));
            assert_eq!(commands.then, Wait(ReleaseWait::Refused(refusals)));
        }
    }
}

#[test]
fn what_was_overridden_and_accepted_is_recorded() {
    let it = applied("a", ReleaseStage::Running);
    for (risk, finding, exposed, recorded) in [
        (None, false, None, ""),
        (Some("unsigned"), false, None, "unsigned"),
        (
            None,
            false,
            Some("exposed to R."),
            "The target release b is exposed to R.",
        ),
        (
            Some("unsigned"),
            true,
            Some("exposed to R."),
            "unsigned\nForced through blocking failures: Precondition \"C\" failed because of \
             \"R\": m; It is exposed to R.",
        ),
    ] {
        let on_disk = RetrievedRelease {
            risk: risk.map(str::to_owned),
            ..retrieved()
        };
        let request = RequestedRelease {
            is_forced: true,
            ..request("b")
        };
        let state = ReleaseState::Retrieving(it.clone(), request);
        let (state, commands) = step(&state, ReleaseEvent::Retrieved(on_disk));
        assert_eq!(commands.then, Check);
        assert_eq!(commands.at_once.len(), 1 + usize::from(risk.is_some()));
        let checkup = crate::acceptance::Checkup {
            findings: finding
                .then(|| samples::finding(true))
                .into_iter()
                .collect(),
            exposed: exposed.map(str::to_owned),
            ..checkup("b")
        };
        let (state, _) = step(&state, ReleaseEvent::Checked(checkup));
        assert_eq!(state.name(), "Switching");
        assert_eq!(state.accepted().unwrap().accepted_risks, recorded);
    }
}

/// Whatever happens to the applied release, the one on its way stays where it is.
#[test]
fn the_two_releases_do_not_disturb_each_other() {
    for state in samples::states() {
        if state.request().is_none() {
            continue;
        }
        for event in samples::applied_events(&state) {
            let (after, commands) = step(&state, event.clone());
            assert_eq!(after.name(), state.name());
            assert_eq!(after.request(), state.request());
            let (_, alone) = step(&samples::alone(&state), event);
            assert_eq!(commands, alone);
        }
    }
}

#[test]
fn what_cannot_be_is_an_error_and_changes_nothing() {
    let mut state = ReleaseState::Alone(applied("a", ReleaseStage::Running));
    let before = state.clone();
    let error = state.take(ReleaseEvent::NotLoaded("x".to_owned()));
    let error = error.unwrap_err().to_string();
    assert_eq!(
        error,
        "event NotLoaded(\"x\") cannot happen in state Running"
    );
    assert_eq!(state, before);
}
