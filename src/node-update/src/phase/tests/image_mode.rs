//! Targets that differ in their image alone, or in it, too.

use super::*;

/// From where to where: into image mode, to another image, out of it, and all of it with another
/// configuration.
const WAYS: [(&str, &str); 6] = [
    ("a", "a os@1"),
    ("a os@1", "a os@2"),
    ("a os@1", "a"),
    ("a", "b os@1"),
    ("a os@1", "b os@2"),
    ("a os@1", "b"),
];

fn idle_in(at: &str) -> Machine {
    let mut machine = Machine::new();
    let events = vec![wish(at), observed(at), Event::Verified, Event::InService];
    drive(&mut machine, events);
    assert_eq!(machine.state(), Some(NodeState::Done));
    machine
}

/// Read in a deployment that is being verified.
fn booted(at: &str) -> Event {
    Event::Observed(Observation {
        at: target(at),
        boot_id: "2".to_owned(),
        journal: Some(OpenJournal {
            to: target(at),
            stage: Stage::Booted,
            by_hand: false,
            stays: false,
        }),
        held: None,
        is_forced: false,
    })
}

#[test]
fn each_way_is_one_transaction_with_one_reboot() {
    for (from, to) in WAYS {
        let steps = [
            on([wish(to)], [plan(from, to)]),
            on([Event::Planned(REBOOT)], [Command::Prepare]),
            on([Event::Prepared], [Command::Drain]),
            on([Event::Drained], [Command::Apply]),
            on([switched()], [Command::Reboot]),
        ];
        let machine = run(idle_in(from), steps);
        assert_eq!(machine.current(), Some(&target(from)), "{from} to {to}");
        // The daemon of the next boot.
        let verify = Command::Verify { to: target(to) };
        let steps = [
            on([wish(to), booted(to)], [verify]),
            on([Event::Verified], [Command::ReturnToService]),
            on([Event::InService], []).shows(PhaseName::Idle, NodeState::Done, ""),
            on([wish(to)], []),
        ];
        let machine = run(Machine::new(), steps);
        assert_eq!(machine.current(), Some(&target(to)), "{from} to {to}");
    }
}

#[test]
fn target_that_was_rolled_back_is_held_with_its_image_and_another_image_is_not() {
    let held = |at: &str, failed: &str| {
        Event::Observed(Observation {
            at: target(at),
            boot_id: "3".to_owned(),
            journal: None,
            held: Some((target(failed), "kubelet.service failed".to_owned())),
            is_forced: false,
        })
    };
    for (from, to) in WAYS {
        let machine = run(
            Machine::new(),
            [on([wish(to), held(from, to)], [Command::Uncordon])],
        );
        assert_eq!(machine.phase().name(), PhaseName::Held, "{from} to {to}");
        let failed_in = machine.failed_in().unwrap();
        assert_eq!(failed_in.target, target(to));
        assert!(
            machine
                .phase()
                .reason()
                .starts_with(&format!("{to} failed on this node"))
        );
        // The same again is held still; with another image it is another target.
        let machine = run(machine, [on([wish(to)], [])]);
        let another = format!("{} os@3", target(to).config);
        let left = [Command::Cancel, Command::Forget, Command::ReturnToService];
        run(machine, [on([wish(&another)], left)]);
        // What is desired is not what is held.
        let (wished, seen) = (wish(&another), held(from, to));
        let forgotten = run(Machine::new(), [after([wished, seen])]);
        assert_ne!(forgotten.phase().name(), PhaseName::Held);
    }
}

#[test]
fn failures_name_the_image_and_go_with_it() {
    let steps = [
        after(to_apply("a os@1")),
        after([failed(BOOT)]).shows(PhaseName::Degraded, NodeState::Degraded, BOOT),
    ];
    let machine = run(idle(), steps);
    assert_eq!(machine.failed_in().unwrap().target, target("a os@1"));
    let machine = run(machine, [after([wish("a os@2"), observed("a")])]);
    assert_eq!(machine.failed_in(), None);
    assert_eq!(machine.state(), Some(NodeState::Working));
}

#[test]
fn image_that_is_named_next_is_fetched_ahead_for_the_same_configuration() {
    let prefetch = |to: &str| Command::Prefetch {
        from: target("a os@1"),
        to: target(to),
    };
    let next = "a os@2";
    let steps = [
        on([named_next(next)], [due(next)]),
        on([Event::Retry], [prefetch(next)]),
        // Another image meanwhile.
        on([named_next("a os@3")], [Command::Cancel, due("a os@3")]),
        on([Event::Retry], [prefetch("a os@3")]),
        on([Event::Fetched], []).shows(PhaseName::Idle, NodeState::Done, ""),
        on([wish("a os@3")], [plan("a os@1", "a os@3")]),
    ];
    run(idle_in("a os@1"), steps);
    // What runs is not fetched.
    run(idle_in("a os@1"), [on([named_next("a os@1")], [])]);
}
