//! Tables for the rows of the design.

mod goldens;
mod journal;
mod model;
mod samples;

use std::time::Duration;

use super::outward::FIRST_RETRY;
use super::*;
use crate::plan::Route;
use api::machineconfiguration::NodeState;
use journal::{started, under_way};

fn target(name: &str) -> Target {
    Target {
        config: name.to_owned(),
        image: None,
    }
}

fn observed(at: &str) -> Event {
    Event::Observed(Observation {
        at: target(at),
        boot_id: "1".to_owned(),
        journal: None,
        held: None,
        is_forced: false,
    })
}

/// Read in `a`, after `b` failed.
fn back_in_a() -> Event {
    Event::Observed(Observation {
        at: target("a"),
        boot_id: "3".to_owned(),
        journal: None,
        held: Some((target("b"), "kubelet.service failed".to_owned())),
        is_forced: false,
    })
}

/// Read in `b`, which was not verified yet.
fn booted_b() -> Event {
    Event::Observed(Observation {
        at: target("b"),
        boot_id: "2".to_owned(),
        journal: Some(OpenJournal {
            to: target("b"),
            stage: Stage::Booted,
            by_hand: false,
            stays: false,
        }),
        held: None,
        is_forced: false,
    })
}

const REBOOT: Outline = Outline {
    route: Route::Reboot,
    drain: true,
    image: None,
};

/// A machine that is Idle in `a`.
fn idle() -> Machine {
    let mut machine = Machine::new();
    for event in [
        Event::Desired(target("a")),
        observed("a"),
        Event::Verified,
        Event::InService,
    ] {
        machine.step(event).unwrap();
    }
    assert_eq!(machine.phase().name(), PhaseName::Idle);
    machine
}

/// A machine in `b`, which it does not know to hold yet.
fn verifying_b() -> Machine {
    let mut machine = Machine::new();
    drive(&mut machine, vec![Event::Desired(target("b")), booted_b()]);
    machine
}

fn drive(machine: &mut Machine, events: Vec<Event>) -> Vec<Command> {
    events
        .into_iter()
        .map(|event| machine.step(event).unwrap())
        .last()
        .unwrap_or_default()
}

#[test]
fn the_way_through_a_reboot() {
    let mut machine = idle();
    let b = target("b");
    let plan = Command::Plan {
        from: target("a"),
        to: b.clone(),
    };
    assert_eq!(drive(&mut machine, vec![Event::Desired(b)]), [plan]);
    assert_eq!(
        drive(&mut machine, vec![Event::Planned(REBOOT)]),
        [Command::Prepare]
    );
    assert_eq!(drive(&mut machine, vec![Event::Prepared]), [Command::Drain]);
    assert_eq!(drive(&mut machine, vec![Event::Drained]), [Command::Apply]);
    let switched = Event::Switched {
        boot_id: "1".to_owned(),
    };
    assert_eq!(drive(&mut machine, vec![switched]), [Command::Reboot]);
    assert_eq!(machine.state(), Some(NodeState::Working));
    assert_eq!(machine.current(), Some(&target("a")));
}

#[test]
fn a_new_target_while_draining_is_planned_once_the_node_is_in_service() {
    let mut machine = idle();
    drive(
        &mut machine,
        vec![
            Event::Desired(target("b")),
            Event::Planned(REBOOT),
            Event::Prepared,
        ],
    );
    let returns = [Command::Cancel, Command::ReturnToService];
    let commands = drive(&mut machine, vec![Event::Desired(target("c"))]);
    assert_eq!(commands, returns);
    assert_eq!(machine.phase().name(), PhaseName::Fetching);
    assert_eq!(machine.phase().waits_for(), "uncordon");
    let commands = drive(&mut machine, vec![Event::Desired(target("d"))]);
    assert_eq!(commands, returns);
    let plan = Command::Plan {
        from: target("a"),
        to: target("d"),
    };
    assert_eq!(drive(&mut machine, vec![Event::InService]), [plan]);
    // In service since: the next target is planned at once, and drained for anew.
    let plan = Command::Plan {
        from: target("a"),
        to: target("e"),
    };
    let commands = drive(&mut machine, vec![Event::Desired(target("e"))]);
    assert_eq!(commands, [Command::Cancel, plan]);
    let events = vec![Event::Planned(REBOOT), Event::Prepared];
    assert_eq!(drive(&mut machine, events), [Command::Drain]);
}

#[test]
fn a_node_that_cannot_serve_fetches_while_it_is_out() {
    let mut machine = idle();
    let events = vec![
        Event::Desired(target("b")),
        Event::Planned(REBOOT),
        Event::Prepared,
        Event::Desired(target("c")),
    ];
    drive(&mut machine, events);
    let plan = Command::Plan {
        from: target("a"),
        to: target("c"),
    };
    let failed = Event::Failed("its kubelet is not Ready".to_owned());
    assert_eq!(drive(&mut machine, vec![failed]), [plan]);
    assert_eq!(machine.phase().name(), PhaseName::Fetching);
    assert_eq!(machine.state(), Some(NodeState::Degraded));
    assert_eq!(machine.phase().reason(), "its kubelet is not Ready");
}

#[test]
fn a_drain_that_is_overdue_shows_degraded_and_goes_on() {
    let mut machine = idle();
    let prepared = vec![
        Event::Desired(target("b")),
        Event::Planned(REBOOT),
        Event::Prepared,
    ];
    drive(&mut machine, prepared);
    let overdue = Event::Overdue("pod shop/web-1: budget web".to_owned());
    assert_eq!(drive(&mut machine, vec![overdue]), []);
    assert_eq!(machine.phase().name(), PhaseName::Draining);
    assert_eq!(machine.state(), Some(NodeState::Degraded));
    assert_eq!(machine.phase().reason(), "pod shop/web-1: budget web");
    assert_eq!(drive(&mut machine, vec![Event::Drained]), [Command::Apply]);
}

#[test]
fn back_to_current_while_draining_gives_the_node_back() {
    let mut machine = idle();
    drive(
        &mut machine,
        vec![
            Event::Desired(target("b")),
            Event::Planned(REBOOT),
            Event::Prepared,
        ],
    );
    let commands = drive(&mut machine, vec![Event::Desired(target("a"))]);
    assert_eq!(commands, [Command::Cancel, Command::ReturnToService]);
    drive(&mut machine, vec![Event::InService]);
    assert_eq!(machine.state(), Some(NodeState::Done));
}

#[test]
fn a_new_target_while_applying_takes_the_switch_back() {
    let mut machine = idle();
    drive(
        &mut machine,
        vec![
            Event::Desired(target("b")),
            Event::Planned(REBOOT),
            Event::Prepared,
            Event::Drained,
            Event::Desired(target("c")),
        ],
    );
    assert_eq!(machine.phase().name(), PhaseName::Applying);
    let switched = Event::Switched {
        boot_id: "1".to_owned(),
    };
    assert_eq!(drive(&mut machine, vec![switched]), [Command::Revert]);
    assert_eq!(
        drive(&mut machine, vec![Event::Reverted]),
        [Command::Observe]
    );
    // Not proved once more: the next plan begins with a check of what can be changed by hand.
    assert_eq!(
        drive(&mut machine, vec![observed("a")]),
        [Command::ReturnToService]
    );
    assert_eq!(
        drive(&mut machine, vec![Event::InService]),
        [Command::Plan {
            from: target("a"),
            to: target("c")
        }]
    );
    // Desired again, it is.
    assert_eq!(
        drive(&mut machine, vec![Event::Desired(target("a"))]),
        [Command::Cancel, Command::Verify { to: target("a") }]
    );
    let commands = drive(&mut machine, vec![Event::Verified, Event::InService]);
    assert_eq!(commands, []);
    assert_eq!(machine.state(), Some(NodeState::Done));
}

#[test]
fn a_refused_target_is_unreconcilable_and_touches_nothing() {
    let mut machine = idle();
    drive(&mut machine, vec![Event::Desired(target("b"))]);
    let commands = drive(&mut machine, vec![Event::Rejected(vec!["no".to_owned()])]);
    assert_eq!(
        commands,
        [Command::Uncordon, Command::RetryAfter(FIRST_RETRY)]
    );
    assert_eq!(machine.state(), Some(NodeState::Unreconcilable));
    assert_eq!(machine.phase().reason(), "no");
}

#[test]
fn what_a_rehearsal_finds_is_a_failure_like_others() {
    let mut machine = idle();
    let outline = Outline {
        route: Route::Reboot,
        drain: true,
        image: None,
    };
    let events = [
        Event::Desired(target("b")),
        Event::Planned(outline),
        Event::Rejected(vec!["no room".to_owned()]),
    ];
    drive(&mut machine, events.into());
    assert_eq!(machine.phase().name(), PhaseName::Unreconcilable);
    assert_eq!(machine.state(), Some(NodeState::Degraded));
    assert_eq!(machine.phase().reason(), "no room");
}

#[test]
fn a_retry_does_not_flap_the_state() {
    let mut machine = idle();
    drive(
        &mut machine,
        vec![
            Event::Desired(target("b")),
            Event::Failed("broke".to_owned()),
        ],
    );
    drive(&mut machine, vec![Event::Retry, observed("a")]);
    assert_eq!(machine.phase().name(), PhaseName::Fetching);
    assert_eq!(machine.state(), Some(NodeState::Degraded));
    assert_eq!(machine.phase().reason(), "broke");
}

#[test]
fn a_reason_is_cut_where_the_annotation_ends() {
    let mut machine = idle();
    let long = "ä".repeat(3000);
    drive(
        &mut machine,
        vec![Event::Desired(target("b")), Event::Failed(long)],
    );
    assert_eq!(machine.phase().reason(), "ä".repeat(2000));
}

#[test]
fn a_held_target_waits_for_another() {
    let mut machine = Machine::new();
    let held = back_in_a();
    let commands = drive(&mut machine, vec![Event::Desired(target("b")), held]);
    assert_eq!(commands, [Command::Uncordon]);
    assert_eq!(machine.phase().name(), PhaseName::Held);
    assert!(machine.phase().reason().contains("kubelet.service failed"));
    let commands = drive(&mut machine, vec![Event::Release]);
    assert_eq!(commands[..2], [Command::Cancel, Command::Forget]);
}

#[test]
fn a_held_node_is_uncordoned_until_it_is() {
    let mut machine = Machine::new();
    drive(&mut machine, vec![Event::Desired(target("b")), back_in_a()]);
    let still = Event::StillCordoned("its kubelet is not Ready".to_owned());
    let commands = drive(&mut machine, vec![still]);
    assert_eq!(commands, [Command::RetryAfter(Duration::from_mins(1))]);
    assert_eq!(machine.phase().name(), PhaseName::Held);
    let commands = drive(&mut machine, vec![Event::Retry]);
    assert_eq!(commands, [Command::Uncordon]);
}

#[test]
fn a_held_target_is_forgotten_when_it_is_left() {
    let mut machine = Machine::new();
    drive(&mut machine, vec![Event::Desired(target("b")), back_in_a()]);
    let commands = drive(&mut machine, vec![Event::Desired(target("a"))]);
    let prove = Command::Verify { to: target("a") };
    assert_eq!(commands, [Command::Cancel, Command::Forget, prove.clone()]);

    // No daemon ran when it was left.
    let mut machine = Machine::new();
    let commands = drive(&mut machine, vec![Event::Desired(target("a")), back_in_a()]);
    assert_eq!(commands, [Command::Forget, prove]);
}

#[test]
fn what_was_let_go_while_the_daemon_was_away_is_tried_again() {
    let mut machine = Machine::new();
    let held = back_in_a();
    let commands = drive(
        &mut machine,
        vec![Event::Desired(target("b")), Event::Release, held],
    );
    let plan = Command::Plan {
        from: target("a"),
        to: target("b"),
    };
    assert_eq!(commands, [Command::Forget, Command::ReturnToService]);
    assert_eq!(drive(&mut machine, vec![Event::InService]), [plan]);
    assert_eq!(machine.phase().name(), PhaseName::Fetching);
}

#[test]
fn a_new_target_while_rebooting_or_verifying_waits_for_the_proof() {
    let switched = Event::Switched {
        boot_id: "1".to_owned(),
    };
    let mut rebooting = idle();
    drive(
        &mut rebooting,
        vec![
            Event::Desired(target("b")),
            Event::Planned(REBOOT),
            Event::Prepared,
            Event::Drained,
            switched,
        ],
    );
    let verifying = verifying_b();
    for (mut machine, phase) in [
        (rebooting, PhaseName::Rebooting),
        (verifying, PhaseName::Verifying),
    ] {
        assert_eq!(machine.phase().name(), phase);
        assert_eq!(
            drive(&mut machine, vec![Event::Desired(target("c"))]),
            [],
            "{phase} is left alone"
        );
        assert_eq!(machine.phase().name(), phase);
    }

    // Proved first, then from there to the newest; disproved, from where the host was.
    let newest = |machine: &mut Machine, events| {
        drive(
            machine,
            [vec![Event::Desired(target("c"))], events].concat(),
        )
    };
    let plan = |from| Command::Plan {
        from: target(from),
        to: target("c"),
    };
    let mut proved = verifying_b();
    assert_eq!(
        newest(&mut proved, vec![Event::Verified]),
        [Command::ReturnToService]
    );
    assert_eq!(drive(&mut proved, vec![Event::InService]), [plan("b")]);
    let mut back = verifying_b();
    let disproved = vec![Event::VerificationFailed(
        "kubelet.service failed".to_owned(),
    )];
    assert_eq!(newest(&mut back, disproved), [Command::Observe]);
    let held = back_in_a();
    assert_eq!(
        drive(&mut back, vec![held, Event::Verified]),
        [Command::ReturnToService]
    );
    assert_eq!(drive(&mut back, vec![Event::InService]), [plan("a")]);
}

#[test]
fn pods_that_left_for_nothing_are_left_alone_for_longer_each_time() {
    let mut machine = idle();
    let to_apply = || {
        vec![
            Event::Planned(REBOOT),
            Event::Prepared,
            Event::Drained,
            Event::Failed("cannot write to /boot".to_owned()),
        ]
    };
    drive(&mut machine, vec![Event::Desired(target("b"))]);
    for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
        drive(&mut machine, to_apply());
        let read = vec![Event::Retry, observed("a")];
        let wait = Command::RetryAfter(Duration::from_mins(minutes));
        assert_eq!(drive(&mut machine, read), [Command::Uncordon, wait]);
        assert_eq!(machine.state(), Some(NodeState::Degraded));
        assert_eq!(machine.phase().reason(), "cannot write to /boot");
        let read = vec![Event::Retry, observed("a"), Event::InService];
        let plan = Command::Plan {
            from: target("a"),
            to: target("b"),
        };
        assert_eq!(drive(&mut machine, read), [plan]);
    }
    // Another target has not failed yet.
    drive(&mut machine, to_apply());
    let another = vec![Event::Desired(target("c")), observed("a"), Event::InService];
    let plan = Command::Plan {
        from: target("a"),
        to: target("c"),
    };
    assert_eq!(drive(&mut machine, another), [plan]);
}

#[test]
fn a_drain_is_lost_once_and_for_its_own_target() {
    let failed = || Event::Failed("no room".to_owned());
    let undoing = || {
        let cause = "cannot write to /boot".to_owned();
        under_way("a", Stage::Undoing { cause }, false)
    };
    let on_the_way = || {
        vec![
            Event::Desired(target("b")),
            Event::Planned(REBOOT),
            Event::Prepared,
            Event::Drained,
        ]
    };
    // What the failure left fails to be undone again and again.
    let mut machine = idle();
    drive(&mut machine, [on_the_way(), vec![failed()]].concat());
    for _ in 0..5 {
        drive(&mut machine, vec![Event::Retry, undoing(), failed()]);
    }
    let undone = vec![Event::Retry, undoing(), Event::Reverted, observed("a")];
    let wait = Command::RetryAfter(Duration::from_mins(1));
    assert_eq!(drive(&mut machine, undone), [Command::Uncordon, wait]);

    // Another target had no part in it.
    let mut machine = idle();
    drive(&mut machine, on_the_way());
    let boot_id = "1".to_owned();
    let another = vec![
        Event::Desired(target("c")),
        Event::Switched { boot_id },
        failed(),
        Event::Retry,
        observed("a"),
    ];
    assert_eq!(drive(&mut machine, another), [Command::ReturnToService]);
    assert_eq!(machine.phase().name(), PhaseName::Fetching);
}

#[test]
fn a_forced_update_is_planned_unverified_and_to_what_runs_too() {
    let forced = |held| {
        Event::Observed(Observation {
            at: target("a"),
            boot_id: "1".to_owned(),
            journal: None,
            held,
            is_forced: true,
        })
    };
    let plan = |to| Command::Plan {
        from: target("a"),
        to: target(to),
    };
    for desired in ["a", "b"] {
        let (mut machine, commands) = started(desired, forced(None));
        assert_eq!(commands, [Command::ReturnToService]);
        let commands = drive(&mut machine, vec![Event::InService]);
        assert_eq!(commands, [plan(desired)]);
        assert_eq!(machine.phase().name(), PhaseName::Fetching);
    }
    // Checked, the host differs; then an administrator forces it.
    let (mut machine, _) = started("a", observed("a"));
    let failed = Event::Failed("content mismatch".to_owned());
    let retry = vec![failed, Event::Retry, forced(None), Event::InService];
    assert_eq!(drive(&mut machine, retry), [plan("a")]);
    // A held target is let go.
    let held = Some((target("b"), "kubelet.service failed".to_owned()));
    let (_, commands) = started("b", forced(held));
    assert_eq!(commands, [Command::Forget, Command::ReturnToService]);
}

#[test]
fn a_manual_change_shows_until_it_is_restored() {
    let mut machine = idle();
    let drift = || "content mismatch for file \"/etc/a\"".to_owned();
    let commands = drive(&mut machine, vec![Event::Drifted(drift())]);
    assert_eq!(commands, [Command::RetryAfter(FIRST_RETRY)]);
    assert_eq!(machine.state(), Some(NodeState::Degraded));
    assert_eq!(machine.phase().reason(), drift());
    // The newest change is the reason.
    let later = "content mismatch for file \"/etc/b\"".to_owned();
    assert_eq!(drive(&mut machine, vec![Event::Drifted(later.clone())]), []);
    assert_eq!(machine.phase().reason(), later);
    let commands = drive(&mut machine, vec![Event::Restored]);
    assert_eq!(commands, [Command::Observe]);
    let restored = vec![observed("a"), Event::Verified, Event::InService];
    assert_eq!(drive(&mut machine, restored), []);
    assert_eq!(machine.state(), Some(NodeState::Done));
}

#[test]
fn a_node_that_pauses_returns_to_service_first() {
    let mut machine = idle();
    let events = vec![
        Event::Desired(target("b")),
        Event::Planned(REBOOT),
        Event::Prepared,
        Event::Drained,
        Event::Failed("cannot write to /boot".to_owned()),
        Event::Retry,
        observed("a"),
    ];
    drive(&mut machine, events);
    let still = Event::StillCordoned("its kubelet is not Ready".to_owned());
    let commands = drive(&mut machine, vec![still]);
    assert_eq!(commands, [Command::RetryAfter(Duration::from_mins(1))]);
    let read = vec![Event::Retry, observed("a")];
    let wait = Command::RetryAfter(Duration::from_mins(1));
    assert_eq!(drive(&mut machine, read), [Command::Uncordon, wait]);
}

#[test]
fn a_wrong_event_leaves_the_machine_unchanged() {
    let mut machine = idle();
    let before = machine.clone();
    let error = machine.step(Event::Drained).unwrap_err();
    assert_eq!(error.phase, PhaseName::Idle);
    assert_eq!(machine, before);
}

fn named_next(config: &str) -> Event {
    Event::Next(Some(samples::next(config)))
}

fn fetching_ahead() -> Machine {
    let mut machine = idle();
    let wait = Command::RetryAfter(samples::next("b").after);
    assert_eq!(drive(&mut machine, vec![named_next("b")]), [wait]);
    let prefetch = Command::Prefetch {
        from: target("a"),
        to: target("b"),
    };
    assert_eq!(drive(&mut machine, vec![Event::Retry]), [prefetch]);
    machine
}

#[test]
fn what_is_named_next_is_fetched_once_while_the_node_stays_done() {
    let mut machine = fetching_ahead();
    let is_done = |machine: &Machine| {
        (machine.phase().name(), machine.state()) == (PhaseName::Idle, Some(NodeState::Done))
    };
    assert!(is_done(&machine));
    assert_eq!(
        drive(&mut machine, vec![Event::StillTrying("503".to_owned())]),
        []
    );
    assert_eq!(machine.phase().reason(), "");
    // Named again, a timer that was left, and the end of the fetch: nothing more.
    let events = vec![named_next("b"), Event::Retry, Event::Fetched, Event::Retry];
    for event in events {
        assert_eq!(drive(&mut machine, vec![event]), []);
        assert!(is_done(&machine));
    }
    let plan = Command::Plan {
        from: target("a"),
        to: target("b"),
    };
    assert_eq!(
        drive(&mut machine, vec![Event::Desired(target("b"))]),
        [plan]
    );
}

#[test]
fn a_fetch_ahead_that_fails_leaves_the_node_done_and_is_tried_again_later() {
    let mut machine = fetching_ahead();
    let failed = Event::NotFetched("manifest unknown".to_owned());
    assert_eq!(
        drive(&mut machine, vec![failed]),
        [Command::RetryAfter(Duration::from_mins(30))]
    );
    assert_eq!(machine.state(), Some(NodeState::Done));
    assert_eq!(machine.phase().reason(), "");
    let commands = drive(&mut machine, vec![Event::Retry]);
    assert!(matches!(commands[..], [Command::Prefetch { .. }]));
}

#[test]
fn the_turn_to_what_is_being_fetched_waits_for_it_and_to_another_stops_it() {
    let plan = |to| Command::Plan {
        from: target("a"),
        to: target(to),
    };
    for end in [Event::Fetched, Event::NotFetched("503".to_owned())] {
        let mut machine = fetching_ahead();
        let turn = vec![Event::Desired(target("b"))];
        assert_eq!(drive(&mut machine, turn), []);
        assert_eq!(machine.phase().name(), PhaseName::Fetching);
        assert_eq!(machine.state(), Some(NodeState::Working));
        assert_eq!(drive(&mut machine, vec![end]), [plan("b")]);
    }
    let mut machine = fetching_ahead();
    let turn = vec![Event::Desired(target("c"))];
    assert_eq!(drive(&mut machine, turn), [Command::Cancel, plan("c")]);
    // Back to what runs while it is waited for.
    let mut machine = fetching_ahead();
    let turns = vec![Event::Desired(target("b")), Event::Desired(target("a"))];
    assert_eq!(
        drive(&mut machine, turns),
        [Command::Cancel, Command::ReturnToService]
    );
}

#[test]
fn what_is_not_named_any_more_is_stopped_and_what_runs_is_not_fetched() {
    let mut machine = fetching_ahead();
    assert_eq!(
        drive(&mut machine, vec![Event::Next(None)]),
        [Command::Cancel]
    );
    let mut machine = fetching_ahead();
    let wait = Command::RetryAfter(samples::next("c").after);
    assert_eq!(
        drive(&mut machine, vec![named_next("c")]),
        [Command::Cancel, wait]
    );
    let mut machine = fetching_ahead();
    let commands = drive(&mut machine, vec![Event::Drifted("/etc/a".to_owned())]);
    assert_eq!(commands[0], Command::Cancel);
    let mut machine = idle();
    assert_eq!(drive(&mut machine, vec![named_next("a")]), []);
    // Named before the node came to rest.
    let mut machine = verifying_b();
    let events = vec![named_next("a"), Event::Verified, Event::InService];
    let wait = Command::RetryAfter(samples::next("a").after);
    assert_eq!(drive(&mut machine, events), [wait]);
}
