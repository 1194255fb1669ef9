//! Tables for the rows of the design, and a simulated host on which every sequence of targets, failures and restarts must end well.

use proptest::prelude::*;

use super::outward::State;
use super::table::FIRST_RETRY;
use super::*;
use crate::plan::Route;

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
    })
}

/// Read in `a`, after `b` failed.
fn back_in_a() -> Event {
    Event::Observed(Observation {
        at: target("a"),
        boot_id: "3".to_owned(),
        journal: None,
        held: Some((target("b"), "kubelet.service failed".to_owned())),
    })
}

/// Read in `b`, which nobody has judged yet.
fn booted_b() -> Event {
    Event::Observed(Observation {
        at: target("b"),
        boot_id: "2".to_owned(),
        journal: Some(Journal {
            to: target("b"),
            stage: Stage::Booted,
        }),
        held: None,
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
        Event::Proved,
        Event::GivenBack,
    ] {
        machine.step(event).unwrap();
    }
    assert_eq!(machine.phase(), &Phase::Idle);
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
    assert_eq!(machine.state(), Some(State::Working));
    assert_eq!(machine.current(), Some(&target("a")));
}

#[test]
fn a_new_target_while_draining_cancels_and_plans_from_current() {
    let mut machine = idle();
    drive(
        &mut machine,
        vec![
            Event::Desired(target("b")),
            Event::Planned(REBOOT),
            Event::Prepared,
        ],
    );
    let commands = drive(&mut machine, vec![Event::Desired(target("c"))]);
    assert_eq!(
        commands,
        [
            Command::Cancel,
            Command::Plan {
                from: target("a"),
                to: target("c")
            }
        ]
    );
    let live = Outline {
        route: Route::Live,
        drain: false,
        image: None,
    };
    let commands = drive(&mut machine, vec![Event::Planned(live)]);
    assert_eq!(commands, [Command::Uncordon, Command::Prepare]);
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
    assert_eq!(machine.phase().name(), "Draining");
    assert_eq!(machine.state(), Some(State::Degraded));
    assert_eq!(machine.reason(), "pod shop/web-1: budget web");
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
    assert_eq!(commands, [Command::Cancel, Command::GiveBack]);
    drive(&mut machine, vec![Event::GivenBack]);
    assert_eq!(machine.state(), Some(State::Done));
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
    assert_eq!(machine.phase().name(), "Applying");
    let switched = Event::Switched {
        boot_id: "1".to_owned(),
    };
    assert_eq!(drive(&mut machine, vec![switched]), [Command::TakeBack]);
    assert_eq!(
        drive(&mut machine, vec![Event::TakenBack]),
        [Command::Plan {
            from: target("a"),
            to: target("c")
        }]
    );
}

#[test]
fn a_refused_target_is_unreconcilable_and_touches_nothing() {
    let mut machine = idle();
    drive(&mut machine, vec![Event::Desired(target("b"))]);
    let commands = drive(&mut machine, vec![Event::Refused(vec!["no".to_owned()])]);
    assert_eq!(
        commands,
        [Command::Uncordon, Command::RetryAfter(FIRST_RETRY)]
    );
    assert_eq!(machine.state(), Some(State::Unreconcilable));
    assert_eq!(machine.reason(), "no");
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
    drive(
        &mut machine,
        vec![Event::Retry, observed("a"), Event::Proved],
    );
    assert_eq!(machine.phase().name(), "Fetching");
    assert_eq!(machine.state(), Some(State::Degraded));
    assert_eq!(machine.reason(), "broke");
}

#[test]
fn a_held_target_waits_for_another() {
    let mut machine = Machine::new();
    let held = back_in_a();
    let commands = drive(&mut machine, vec![Event::Desired(target("b")), held]);
    assert_eq!(commands, [Command::Uncordon]);
    assert_eq!(machine.phase().name(), "Held");
    assert!(machine.reason().contains("kubelet.service failed"));
    let commands = drive(&mut machine, vec![Event::Release]);
    assert_eq!(commands.first(), Some(&Command::Forget));
}

#[test]
fn a_held_target_is_forgotten_when_it_is_left() {
    let mut machine = Machine::new();
    drive(&mut machine, vec![Event::Desired(target("b")), back_in_a()]);
    let commands = drive(&mut machine, vec![Event::Desired(target("a"))]);
    let prove = Command::Prove { to: target("a") };
    assert_eq!(commands, [Command::Forget, prove.clone()]);

    // Nobody was there when it was left.
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
    assert_eq!(commands, [Command::Forget, plan]);
    assert_eq!(machine.phase().name(), "Fetching");
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
    for (mut machine, phase) in [(rebooting, "Rebooting"), (verifying, "Verifying")] {
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
    assert_eq!(newest(&mut verifying_b(), vec![Event::Proved]), [plan("b")]);
    let mut back = verifying_b();
    let disproved = vec![Event::Disproved("kubelet.service failed".to_owned())];
    assert_eq!(newest(&mut back, disproved), [Command::Observe]);
    let held = back_in_a();
    assert_eq!(drive(&mut back, vec![held, Event::Proved]), [plan("a")]);
}

#[test]
fn a_wrong_event_leaves_the_machine_unchanged() {
    let mut machine = idle();
    let before = machine.clone();
    let error = machine.step(Event::Drained).unwrap_err();
    assert_eq!(error.phase, "Idle");
    assert_eq!(machine, before);
}

/// A host and its cluster side, as far as the machine can see them.
#[derive(Debug)]
struct World {
    booted: Target,
    boot: u32,
    journal: Option<Journal>,
    held: Option<(Target, String)>,
    planned: Option<Target>,
    cordoned: bool,
    drained: bool,
    /// The newest target, as the Node's annotation says.
    wanted: Target,
    /// Reboots into targets that fail their checks.
    bad_boots: u32,
}

/// How the world answers a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Luck {
    Good,
    Fails,
    DaemonDies,
    HostReboots,
    Retargeted(u8),
}

fn is_bad(target: &Target) -> bool {
    target.config == "bad"
}

const NAMES: [&str; 4] = ["a", "b", "c", "bad"];

impl World {
    fn new() -> Self {
        Self {
            booted: target("a"),
            boot: 1,
            journal: None,
            held: None,
            planned: None,
            cordoned: false,
            drained: false,
            wanted: target("a"),
            bad_boots: 0,
        }
    }

    fn observation(&self) -> Observation {
        Observation {
            at: self.booted.clone(),
            boot_id: self.boot.to_string(),
            journal: self.journal.clone(),
            held: self.held.clone(),
        }
    }

    /// The host goes down and comes back: the guard and the verify unit do their part.
    fn reboot(&mut self, origin: &Target) {
        self.boot += 1;
        let Some(journal) = self.journal.take() else {
            return;
        };
        if matches!(journal.stage, Stage::Switched { .. }) {
            if is_bad(&journal.to) {
                self.bad_boots += 1;
                self.boot += 1;
                self.held = Some((journal.to, "checks".to_owned()));
                self.booted = origin.clone();
            } else {
                self.booted = journal.to;
            }
        }
        // An unswitched plan is undone by the guard: the record is the origin's.
    }

    /// Runs one command to its answer.
    fn run(&mut self, command: &Command, good: bool) -> Option<Event> {
        let fails = || Event::Failed("bad luck".to_owned());
        Some(match command {
            Command::Observe if good => Event::Observed(self.observation()),
            Command::Plan { to, .. } if good => {
                self.planned = Some(to.clone());
                Event::Planned(if to.config == "c" {
                    Outline {
                        route: Route::Live,
                        drain: false,
                        image: None,
                    }
                } else {
                    REBOOT
                })
            }
            Command::Prepare if good => Event::Prepared,
            Command::Drain if good => {
                self.cordoned = true;
                self.drained = true;
                Event::Drained
            }
            Command::Apply if good => {
                let to = self.journal.as_ref().map_or_else(
                    || self.planned.clone().unwrap(),
                    |journal| journal.to.clone(),
                );
                if to.config == "c" {
                    self.booted = to;
                    self.journal = None;
                    Event::Applied
                } else {
                    assert!(self.cordoned && self.drained, "applied without a drain");
                    let boot_id = self.boot.to_string();
                    self.journal = Some(Journal {
                        to,
                        stage: Stage::Switched {
                            boot_id: boot_id.clone(),
                        },
                    });
                    Event::Switched { boot_id }
                }
            }
            Command::TakeBack if good => {
                self.journal = None;
                Event::TakenBack
            }
            Command::Prove { to } if good => {
                assert_eq!(to, &self.booted, "proved something else than what runs");
                Event::Proved
            }
            Command::GiveBack if good => {
                self.cordoned = false;
                self.drained = false;
                Event::GivenBack
            }
            Command::Uncordon => {
                self.cordoned = false;
                self.drained = false;
                return None;
            }
            Command::Forget => {
                self.held = None;
                return None;
            }
            Command::Cancel | Command::Reboot => return None,
            Command::RetryAfter(_) => Event::Retry,
            Command::Observe
            | Command::Plan { .. }
            | Command::Prepare
            | Command::Drain
            | Command::TakeBack
            | Command::Prove { .. }
            | Command::GiveBack => fails(),
            Command::Apply => {
                // Died in the middle: the journal is open, or everything was undone.
                if self.planned.as_ref().is_some_and(|to| to.config != "c")
                    && self.boot.is_multiple_of(2)
                {
                    self.journal = self.planned.clone().map(|to| Journal {
                        to,
                        stage: Stage::Applying,
                    });
                }
                fails()
            }
        })
    }
}

/// Runs the machine until nothing is left to do, with `luck` for the first answers and good luck after.
fn play(luck: &[Luck]) -> (Machine, World) {
    let (mut machine, mut world) = (Machine::new(), World::new());
    let rests = run(
        &mut machine,
        &mut world,
        &[luck, &[Luck::Good; 2000]].concat(),
    );
    assert!(rests, "never comes to rest: {machine:?} {world:?}");
    (machine, world)
}

/// Answers one command a turn; tells whether nothing was left to do in the end.
fn run(machine: &mut Machine, world: &mut World, luck: &[Luck]) -> bool {
    let mut todo = vec![Command::Observe];
    machine.step(Event::Desired(world.wanted.clone())).unwrap();
    for &chance in luck {
        let origin = world.booted.clone();
        let mut event = None;
        let mut restart = false;
        match chance {
            Luck::DaemonDies => restart = true,
            Luck::HostReboots => {
                world.reboot(&origin);
                restart = true;
            }
            Luck::Retargeted(n) => {
                world.wanted = target(NAMES[usize::from(n) % NAMES.len()]);
                event = Some(Event::Desired(world.wanted.clone()));
            }
            Luck::Good | Luck::Fails => {
                if todo.is_empty() {
                    continue;
                }
                let command = todo.remove(0);
                if command == Command::Reboot {
                    world.reboot(&origin);
                    restart = true;
                } else {
                    event = world.run(&command, chance != Luck::Fails);
                }
            }
        }
        if restart {
            *machine = Machine::new();
            machine.step(Event::Desired(world.wanted.clone())).unwrap();
            todo = vec![Command::Observe];
        }
        if let Some(event) = event {
            let cancels = matches!(event, Event::Desired(_));
            let commands = machine.step(event).unwrap();
            if cancels && commands.first() == Some(&Command::Cancel) {
                todo.clear();
            }
            todo.extend(commands);
        }
        if machine.state() == Some(State::Done) {
            assert_eq!(
                machine.desired(),
                Some(&world.booted),
                "Done on something else"
            );
            assert_eq!(
                machine.current(),
                Some(&world.booted),
                "Done without a proof"
            );
            assert!(world.journal.is_none(), "Done with an open journal");
        }
    }
    todo.is_empty()
}

fn luck() -> impl Strategy<Value = Luck> {
    prop_oneof![
        6 => Just(Luck::Good),
        1 => Just(Luck::Fails),
        1 => Just(Luck::DaemonDies),
        1 => Just(Luck::HostReboots),
        2 => (0u8..4).prop_map(Luck::Retargeted),
    ]
}

proptest! {
    #[test]
    fn any_sequence_ends_in_the_last_target_or_held(lucks in prop::collection::vec(luck(), 0..60)) {
        let (machine, world) = play(&lucks);
        if is_bad(&world.wanted) {
            prop_assert_eq!(machine.phase().name(), "Held");
            prop_assert!(!is_bad(&world.booted));
        } else {
            prop_assert_eq!(machine.phase(), &Phase::Idle);
            prop_assert_eq!(&world.booted, &world.wanted);
        }
        prop_assert!(!world.cordoned, "left cordoned");
        prop_assert!(world.journal.is_none());
    }

    #[test]
    fn a_failed_target_is_booted_once(more in prop::collection::vec(
        prop_oneof![Just(Luck::Good), Just(Luck::DaemonDies), Just(Luck::HostReboots)], 0..40)) {
        let mut lucks = vec![Luck::Good, Luck::Good, Luck::Good, Luck::Retargeted(3)];
        lucks.extend(more);
        let (_, world) = play(&lucks);
        prop_assert_eq!(world.bad_boots, 1);
    }

    #[test]
    fn a_reboot_while_fetching_or_draining_changes_nothing(steps in 0usize..3) {
        // Observed, proved, given back; then a new target: planned, prepared, and the host goes down before anything was applied.
        let mut lucks = vec![Luck::Good, Luck::Good, Luck::Good, Luck::Retargeted(1)];
        lucks.extend(vec![Luck::Good; steps]);
        lucks.push(Luck::HostReboots);
        // Observed and proved again, before it sets out anew.
        lucks.extend([Luck::Good, Luck::Good]);
        let (mut machine, mut world) = (Machine::new(), World::new());
        run(&mut machine, &mut world, &lucks);
        prop_assert_eq!(&world.booted, &target("a"));
        prop_assert!(world.journal.is_none());
        prop_assert_eq!(machine.phase().name(), "Fetching");
    }
}
