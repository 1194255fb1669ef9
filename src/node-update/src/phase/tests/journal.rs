//! What an open journal on the host leads to.

use super::*;

/// Read in `at`, with an attempt to `b` at this stage, begun in this boot.
pub(super) fn under_way(at: &str, stage: Stage, by_hand: bool) -> Event {
    Event::Observed(Observation {
        at: target(at),
        boot_id: "1".to_owned(),
        journal: Some(OpenJournal {
            to: target("b"),
            stage,
            by_hand,
            stays: false,
        }),
        held: None,
        is_forced: false,
    })
}

/// A daemon that starts with `desired` asked for, and reads its host.
fn started(desired: &str, read: Event) -> (Machine, Vec<Command>) {
    let mut machine = Machine::new();
    let commands = drive(&mut machine, vec![Event::Desired(target(desired)), read]);
    (machine, commands)
}

#[test]
fn an_undo_that_did_not_end_is_taken_up_again() {
    let stage = Stage::Undoing {
        cause: "no room".to_owned(),
    };
    let (mut machine, commands) = started("b", under_way("a", stage.clone(), false));
    assert_eq!(commands, [Command::Revert]);
    assert_eq!(machine.state(), Some(NodeState::Degraded));
    assert_eq!(machine.phase().reason(), "no room");
    let failed = Event::Failed("still no room".to_owned());
    let commands = drive(&mut machine, vec![failed]);
    assert_eq!(commands, [Command::RetryAfter(FIRST_RETRY * 2)]);
    let commands = drive(
        &mut machine,
        vec![Event::Retry, under_way("a", stage, false)],
    );
    assert_eq!(commands, [Command::Revert]);
    assert_eq!(
        drive(&mut machine, vec![Event::Reverted]),
        [Command::Observe]
    );
}

#[test]
fn a_host_that_rolls_back_by_itself_is_waited_for_and_then_rebooted() {
    let back = Stage::RollingBack {
        cause: "kubelet.service failed".to_owned(),
    };
    let mut machine = verifying_b();
    let wait = [Command::RetryAfter(Duration::from_mins(1))];
    let disproved = Event::VerificationFailed("kubelet.service failed".to_owned());
    let commands = drive(
        &mut machine,
        vec![disproved, under_way("b", back.clone(), false)],
    );
    assert_eq!(commands, wait);
    assert_eq!(drive(&mut machine, vec![Event::Retry]), [Command::RollBack]);
    assert_eq!(machine.phase().name(), PhaseName::RollingBack);
    // One that a person began is that person's to reboot.
    let (_, commands) = started("b", under_way("b", back, true));
    assert_eq!(commands, [Command::RetryAfter(FIRST_RETRY)]);
}

#[test]
fn a_target_that_stays_is_looked_at_again_and_left_for_another() {
    let stays = Stage::Stays {
        cause: "kubelet.service failed".to_owned(),
    };
    let (mut machine, commands) = started("b", under_way("b", stays.clone(), false));
    assert_eq!(commands, [Command::Verify { to: target("b") }]);
    let failed = Event::Failed("kubelet.service failed".to_owned());
    drive(&mut machine, vec![failed, Event::Desired(target("a"))]);
    let commands = drive(&mut machine, vec![under_way("b", stays, false)]);
    assert_eq!(commands, [Command::Drain]);
    assert_eq!(machine.phase().name(), PhaseName::RollingBack);
    drive(&mut machine, vec![Event::Blocked("a budget".to_owned())]);
    assert_eq!(machine.phase().waits_for(), "a budget");
    assert!(
        machine.phase().reason().contains("a budget"),
        "{}",
        machine.phase().reason()
    );
    let commands = drive(&mut machine, vec![Event::Drained]);
    assert_eq!(commands, [Command::RollBack]);
    assert_eq!(machine.phase().waits_for(), "the way back");
}

#[test]
fn a_target_that_stays_and_is_rolled_back_by_hand_is_drained_before_it_reboots() {
    let back = Stage::RollingBack {
        cause: "rolled back by hand".to_owned(),
    };
    let read = Event::Observed(Observation {
        at: target("b"),
        boot_id: "1".to_owned(),
        journal: Some(OpenJournal {
            to: target("b"),
            stage: back,
            by_hand: false,
            stays: true,
        }),
        held: None,
        is_forced: false,
    });
    let (mut machine, commands) = started("b", read);
    assert_eq!(commands, [Command::Drain]);
    assert_eq!(
        drive(&mut machine, vec![Event::Drained]),
        [Command::RollBack]
    );
}

#[test]
fn what_a_person_began_on_the_host_is_left_to_that_person() {
    let switched = || Stage::Switched {
        boot_id: "1".to_owned(),
    };
    for (desired, stage) in [
        ("b", Stage::Applying),
        ("b", switched()),
        ("a", Stage::Applying),
        ("a", switched()),
    ] {
        let (machine, commands) = started(desired, under_way("a", stage, true));
        assert_eq!(commands, [Command::RetryAfter(FIRST_RETRY)], "{desired}");
        assert!(
            machine.phase().reason().contains("by hand"),
            "{}",
            machine.phase().reason()
        );
    }
    // Rebooted, it is proved as any other.
    let switched = Stage::Switched {
        boot_id: "0".to_owned(),
    };
    let (_, commands) = started("b", under_way("b", switched, true));
    assert_eq!(commands, [Command::Verify { to: target("b") }]);
}
