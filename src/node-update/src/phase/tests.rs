//! Tables for the rows of the design.

mod goldens;
mod image_mode;
mod journal;
mod model;
mod samples;

use std::time::Duration;

use super::outward::FIRST_RETRY;
use super::*;
use crate::plan::Route;
use api::machineconfiguration::NodeState;
use journal::under_way;

/// A configuration, or one with an image, as annotations name it.
fn target(name: &str) -> Target {
    Target::parse(name).unwrap()
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

/// Events, and what is expected after the last of them.
struct Step {
    events: Vec<Event>,
    /// Its commands; any where there are none to compare.
    commands: Option<Vec<Command>>,
    /// Phase, state and reason.
    shows: Option<(PhaseName, NodeState, String)>,
}

impl Step {
    fn shows(mut self, phase: PhaseName, state: NodeState, reason: &str) -> Self {
        self.shows = Some((phase, state, reason.to_owned()));
        self
    }
}

fn on(events: impl Into<Vec<Event>>, commands: impl Into<Vec<Command>>) -> Step {
    Step {
        commands: Some(commands.into()),
        ..after(events)
    }
}

fn after(events: impl Into<Vec<Event>>) -> Step {
    Step {
        events: events.into(),
        commands: None,
        shows: None,
    }
}

/// Takes all steps, and compares each.
#[track_caller]
fn run(mut machine: Machine, steps: impl IntoIterator<Item = Step>) -> Machine {
    for (number, step) in (1..).zip(steps) {
        let commands = drive(&mut machine, step.events);
        if let Some(expected) = step.commands {
            assert_eq!(commands, expected, "step {number}");
        }
        if let Some((phase, state, reason)) = step.shows {
            let shown = (machine.phase().name(), machine.state());
            assert_eq!(shown, (phase, Some(state)), "step {number}");
            assert_eq!(machine.phase().reason(), reason, "step {number}");
        }
    }
    machine
}

fn wish(config: &str) -> Event {
    Event::Desired(target(config))
}

fn failed(why: &str) -> Event {
    Event::Failed(why.to_owned())
}

fn disproved() -> Event {
    Event::VerificationFailed("kubelet.service failed".to_owned())
}

fn switched() -> Event {
    Event::Switched {
        boot_id: "1".to_owned(),
    }
}

/// Up to the drain.
fn to_drain(config: &str) -> Vec<Event> {
    vec![wish(config), Event::Planned(REBOOT), Event::Prepared]
}

/// Up to the application.
fn to_apply(config: &str) -> Vec<Event> {
    [to_drain(config), vec![Event::Drained]].concat()
}

fn plan(from: &str, to: &str) -> Command {
    let (from, to) = (target(from), target(to));
    Command::Plan { from, to }
}

fn wait(minutes: u64) -> Command {
    Command::RetryAfter(Duration::from_mins(minutes))
}

const KUBELET: &str = "its kubelet is not Ready";
const BOOT: &str = "cannot write to /boot";

#[test]
fn the_way_through_a_reboot() {
    let machine = run(
        idle(),
        [
            on([wish("b")], [plan("a", "b")]),
            on([Event::Planned(REBOOT)], [Command::Prepare]),
            on([Event::Prepared], [Command::Drain]),
            on([Event::Drained], [Command::Apply]),
            on([switched()], [Command::Reboot]).shows(PhaseName::Rebooting, NodeState::Working, ""),
        ],
    );
    assert_eq!(machine.current(), Some(&target("a")));
}

#[test]
fn a_new_target_while_draining_is_planned_once_the_node_is_in_service() {
    let returns = [Command::Cancel, Command::ReturnToService];
    let to_c = [
        after(to_drain("b")),
        on([wish("c")], returns.clone()).shows(PhaseName::Fetching, NodeState::Working, ""),
    ];
    let machine = run(idle(), to_c);
    assert_eq!(machine.phase().waits_for(), "uncordon");
    let steps = [
        on([wish("d")], returns),
        on([Event::InService], [plan("a", "d")]),
        // In service since: the next target is planned at once, and drained for again.
        on([wish("e")], [Command::Cancel, plan("a", "e")]),
        on([Event::Planned(REBOOT), Event::Prepared], [Command::Drain]),
    ];
    run(machine, steps);
}

#[test]
fn a_node_that_cannot_serve_fetches_while_it_is_out() {
    let steps = [
        after(to_drain("b")),
        after([wish("c")]),
        on([failed(KUBELET)], [plan("a", "c")]).shows(
            PhaseName::Fetching,
            NodeState::Degraded,
            KUBELET,
        ),
    ];
    run(idle(), steps);
}

#[test]
fn a_drain_that_is_overdue_shows_degraded_and_goes_on() {
    let pod = "pod shop/web-1: budget web";
    let steps = [
        after(to_drain("b")),
        on([Event::Overdue(pod.to_owned())], []).shows(
            PhaseName::Draining,
            NodeState::Degraded,
            pod,
        ),
        on([Event::Drained], [Command::Apply]),
    ];
    run(idle(), steps);
}

#[test]
fn back_to_current_while_draining_gives_the_node_back() {
    let returns = [Command::Cancel, Command::ReturnToService];
    let steps = [
        after(to_drain("b")),
        on([wish("a")], returns),
        after([Event::InService]).shows(PhaseName::Idle, NodeState::Done, ""),
    ];
    run(idle(), steps);
}

#[test]
fn a_new_target_while_applying_takes_the_switch_back() {
    let verify = Command::Verify { to: target("a") };
    let steps = [
        after(to_apply("b")),
        after([wish("c")]).shows(PhaseName::Applying, NodeState::Working, ""),
        on([switched()], [Command::Revert]),
        on([Event::Reverted], [Command::Observe]),
        // Not proved once more: the next plan begins with a check of what can be changed by hand.
        on([observed("a")], [Command::ReturnToService]),
        on([Event::InService], [plan("a", "c")]),
        // Desired again, it is.
        on([wish("a")], [Command::Cancel, verify]),
        on([Event::Verified, Event::InService], []).shows(PhaseName::Idle, NodeState::Done, ""),
    ];
    run(idle(), steps);
}

#[test]
fn a_refused_target_is_unreconcilable_and_touches_nothing() {
    let rejected = Event::Rejected(vec!["no".to_owned()]);
    let later = [Command::Uncordon, Command::RetryAfter(FIRST_RETRY)];
    let refused = on([wish("b"), rejected], later);
    let state = NodeState::Unreconcilable;
    run(
        idle(),
        [refused.shows(PhaseName::Unreconcilable, state, "no")],
    );
}

#[test]
fn what_a_rehearsal_finds_is_a_failure_like_others() {
    let rejected = Event::Rejected(vec!["no room".to_owned()]);
    let found = after([wish("b"), Event::Planned(REBOOT), rejected]);
    let phase = PhaseName::Unreconcilable;
    run(idle(), [found.shows(phase, NodeState::Degraded, "no room")]);
}

#[test]
fn a_retry_does_not_flap_the_state() {
    let events = [wish("b"), failed("broke"), Event::Retry, observed("a")];
    let shown = after(events).shows(PhaseName::Fetching, NodeState::Degraded, "broke");
    run(idle(), [shown]);
}

#[test]
fn a_reason_is_cut_where_the_annotation_ends() {
    let long = failed(&"ä".repeat(3000));
    let machine = run(idle(), [after([wish("b"), long])]);
    assert_eq!(machine.phase().reason(), "ä".repeat(2000));
}

#[test]
fn a_held_target_waits_for_another() {
    let held = on([wish("b"), back_in_a()], [Command::Uncordon]);
    let mut machine = run(Machine::new(), [held]);
    assert_eq!(machine.phase().name(), PhaseName::Held);
    assert!(machine.phase().reason().contains("kubelet.service failed"));
    let commands = drive(&mut machine, vec![Event::Release]);
    assert_eq!(commands[..2], [Command::Cancel, Command::Forget]);
}

#[test]
fn a_held_node_is_uncordoned_until_it_is() {
    let still = Event::StillCordoned(KUBELET.to_owned());
    let steps = [after([wish("b"), back_in_a()]), on([still], [wait(1)])];
    let machine = run(Machine::new(), steps);
    assert_eq!(machine.phase().name(), PhaseName::Held);
    run(machine, [on([Event::Retry], [Command::Uncordon])]);
}

#[test]
fn a_held_target_is_forgotten_when_it_is_left() {
    let prove = Command::Verify { to: target("a") };
    let left = [Command::Cancel, Command::Forget, prove.clone()];
    let steps = [after([wish("b"), back_in_a()]), on([wish("a")], left)];
    run(Machine::new(), steps);

    // No daemon ran when it was left.
    let left = on([wish("a"), back_in_a()], [Command::Forget, prove]);
    run(Machine::new(), [left]);
}

#[test]
fn what_was_let_go_while_the_daemon_was_away_is_tried_again() {
    let events = [wish("b"), Event::Release, back_in_a()];
    let steps = [
        on(events, [Command::Forget, Command::ReturnToService]),
        on([Event::InService], [plan("a", "b")]),
    ];
    let machine = run(Machine::new(), steps);
    assert_eq!(machine.phase().name(), PhaseName::Fetching);
}

#[test]
fn a_new_target_while_rebooting_or_verifying_waits_for_the_proof() {
    let rebooting = run(idle(), [after(to_apply("b")), after([switched()])]);
    for (machine, phase) in [
        (rebooting, PhaseName::Rebooting),
        (verifying_b(), PhaseName::Verifying),
    ] {
        assert_eq!(machine.phase().name(), phase);
        let machine = run(machine, [on([wish("c")], [])]);
        assert_eq!(machine.phase().name(), phase, "{phase} is left alone");
    }

    // Proved first, then from there to the newest; disproved, from where the host was.
    let proved = [
        on([wish("c"), Event::Verified], [Command::ReturnToService]),
        on([Event::InService], [plan("b", "c")]),
    ];
    run(verifying_b(), proved);
    let returns = [Command::ReturnToService];
    let back = [
        on([wish("c"), disproved()], [Command::Observe]),
        on([back_in_a(), Event::Verified], returns),
        on([Event::InService], [plan("a", "c")]),
    ];
    run(verifying_b(), back);
}

#[test]
fn pods_that_left_for_nothing_are_left_alone_for_longer_each_time() {
    let fails = || {
        let mut events = to_apply("b").split_off(1);
        events.push(failed(BOOT));
        after(events)
    };
    let read = || vec![Event::Retry, observed("a")];
    let mut machine = run(idle(), [after([wish("b")])]);
    for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
        let waits = on(read(), [Command::Uncordon, wait(minutes)]);
        let steps = [
            fails(),
            waits.shows(PhaseName::Degraded, NodeState::Degraded, BOOT),
            on([read(), vec![Event::InService]].concat(), [plan("a", "b")]),
        ];
        machine = run(machine, steps);
    }
    // Another target has not failed yet.
    let another = [wish("c"), observed("a"), Event::InService];
    run(machine, [fails(), on(another, [plan("a", "c")])]);
}

#[test]
fn a_drain_is_lost_once_and_for_its_own_target() {
    let undoing = || {
        let cause = BOOT.to_owned();
        under_way("a", Stage::Undoing { cause }, false)
    };
    // What the failure left fails to be undone again and again.
    let mut machine = run(idle(), [after(to_apply("b")), after([failed("no room")])]);
    for _ in 0..5 {
        let again = after([Event::Retry, undoing(), failed("no room")]);
        machine = run(machine, [again]);
    }
    let undone = [Event::Retry, undoing(), Event::Reverted, observed("a")];
    run(machine, [on(undone, [Command::Uncordon, wait(1)])]);

    // Another target had no part in it.
    let read = [failed("no room"), Event::Retry, observed("a")];
    let steps = [
        after(to_apply("b")),
        after([wish("c"), switched()]),
        on(read, [Command::ReturnToService]),
    ];
    let machine = run(idle(), steps);
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
    let returns = Command::ReturnToService;
    for desired in ["a", "b"] {
        let steps = [
            on([wish(desired), forced(None)], [returns.clone()]),
            on([Event::InService], [plan("a", desired)]),
        ];
        let machine = run(Machine::new(), steps);
        assert_eq!(machine.phase().name(), PhaseName::Fetching);
    }
    // Checked, the host differs; then an administrator forces it.
    let differs = failed("content mismatch");
    let retry = [differs, Event::Retry, forced(None), Event::InService];
    let steps = [
        after([wish("a"), observed("a")]),
        on(retry, [plan("a", "a")]),
    ];
    run(Machine::new(), steps);
    // A held target is let go.
    let held = Some((target("b"), "kubelet.service failed".to_owned()));
    let let_go = on([wish("b"), forced(held)], [Command::Forget, returns]);
    run(Machine::new(), [let_go]);
}

#[test]
fn a_manual_change_shows_until_it_is_restored() {
    let drift = "content mismatch for file \"/etc/a\"";
    let later = "content mismatch for file \"/etc/b\"";
    let drifted = |what: &str| [Event::Drifted(what.to_owned())];
    let phase = PhaseName::Degraded;
    let restored = [observed("a"), Event::Verified, Event::InService];
    let steps = [
        on(drifted(drift), [Command::RetryAfter(FIRST_RETRY)]).shows(
            phase,
            NodeState::Degraded,
            drift,
        ),
        // The newest change is the reason.
        on(drifted(later), []).shows(phase, NodeState::Degraded, later),
        on([Event::Restored], [Command::Observe]),
        on(restored, []).shows(PhaseName::Idle, NodeState::Done, ""),
    ];
    run(idle(), steps);
}

#[test]
fn a_node_that_pauses_returns_to_service_first() {
    let read = || [Event::Retry, observed("a")];
    let still = Event::StillCordoned(KUBELET.to_owned());
    let steps = [
        after(to_apply("b")),
        after([failed(BOOT)]),
        after(read()),
        on([still], [wait(1)]),
        on(read(), [Command::Uncordon, wait(1)]),
    ];
    run(idle(), steps);
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

/// Until a target that is named next is due.
fn due(config: &str) -> Command {
    Command::RetryAfter(samples::next(config).after)
}

fn prefetch() -> Command {
    let (from, to) = (target("a"), target("b"));
    Command::Prefetch { from, to }
}

fn not_fetched(why: &str) -> Event {
    Event::NotFetched(why.to_owned())
}

fn fetching_ahead() -> Machine {
    let steps = [
        on([named_next("b")], [due("b")]),
        on([Event::Retry], [prefetch()]),
    ];
    run(idle(), steps)
}

#[test]
fn what_is_named_next_is_fetched_once_while_the_node_stays_done() {
    // Named again, a timer that was left, and the end of the fetch: nothing more.
    let nothing = [
        Event::StillTrying("503".to_owned()),
        named_next("b"),
        Event::Retry,
        Event::Fetched,
        Event::Retry,
    ];
    let steps = nothing.map(|event| on([event], []).shows(PhaseName::Idle, NodeState::Done, ""));
    let machine = fetching_ahead();
    assert_eq!(machine.phase().name(), PhaseName::Idle);
    assert_eq!(machine.state(), Some(NodeState::Done));
    let machine = run(machine, steps);
    run(machine, [on([wish("b")], [plan("a", "b")])]);
}

#[test]
fn a_fetch_ahead_that_fails_leaves_the_node_done_and_is_tried_again_later() {
    let fails = on([not_fetched("manifest unknown")], [wait(30)]);
    let steps = [
        fails.shows(PhaseName::Idle, NodeState::Done, ""),
        on([Event::Retry], [prefetch()]),
    ];
    run(fetching_ahead(), steps);
}

#[test]
fn the_turn_to_what_is_being_fetched_waits_for_it_and_to_another_stops_it() {
    for end in [Event::Fetched, not_fetched("503")] {
        let steps = [
            on([wish("b")], []).shows(PhaseName::Fetching, NodeState::Working, ""),
            on([end], [plan("a", "b")]),
        ];
        run(fetching_ahead(), steps);
    }
    let turn = on([wish("c")], [Command::Cancel, plan("a", "c")]);
    run(fetching_ahead(), [turn]);
    // Back to what runs while it is waited for.
    let returns = [Command::Cancel, Command::ReturnToService];
    run(fetching_ahead(), [on([wish("b"), wish("a")], returns)]);
}

#[test]
fn what_is_not_named_any_more_is_stopped_and_what_runs_is_not_fetched() {
    let table = [
        on([Event::Next(None)], [Command::Cancel]),
        on([named_next("c")], [Command::Cancel, due("c")]),
    ];
    for stopped in table {
        run(fetching_ahead(), [stopped]);
    }
    let drifted = vec![Event::Drifted("/etc/a".to_owned())];
    let commands = drive(&mut fetching_ahead(), drifted);
    assert_eq!(commands[0], Command::Cancel);
    run(idle(), [on([named_next("a")], [])]);
    // Named before the node came to rest.
    let events = [named_next("a"), Event::Verified, Event::InService];
    run(verifying_b(), [on(events, [due("a")])]);
}
