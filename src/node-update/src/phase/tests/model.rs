//! A simulated host on which every sequence of targets, failures and restarts must end well.

use proptest::prelude::*;

use super::super::outward::AHEAD_RETRY;
use super::*;

/// A host and its cluster side, as far as the machine can see them.
#[derive(Debug)]
struct World {
    booted: Target,
    boot: u32,
    journal: Option<OpenJournal>,
    held: Option<(Target, String)>,
    planned: Option<Target>,
    service: Service,
    drained: bool,
    /// The newest target, as the Node's annotation says.
    desired: Target,
    /// What the Node's annotation names next.
    next: Option<NextTarget>,
    /// Reboots into targets that fail their checks.
    bad_boots: u32,
    /// The last target that was reached and is not bad.
    last_good: Target,
    /// What was booted when the newest plan was refused, until there is another plan.
    refused_in: Option<Target>,
    /// A refusal was just answered: only a new target is news.
    is_refused: bool,
    /// How often a plan failed while it was applied.
    misses: u32,
    /// Where an undo of a live change leads that was not carried through.
    undone_to: Option<Target>,
}

/// Whether the node takes pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    In,
    Out,
    /// The same, and this daemon failed to return it.
    Cannot,
}

/// How the world answers a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Luck {
    Good,
    Fails,
    DaemonDies,
    HostReboots,
    Retargeted(u8),
    /// The Node names this next; or nothing.
    Next(u8),
}

fn is_bad(target: &Target) -> bool {
    target.config == "bad" || target.image.as_deref() == Some("bad")
}

fn is_refused(target: &Target) -> bool {
    target.config == "refused"
}

/// The last differ from others in their image alone.
const NAMES: [&str; 8] = [
    "a", "b", "c", "bad", "refused", "a image", "a image2", "a bad",
];

impl World {
    fn new() -> Self {
        Self {
            booted: target("a"),
            boot: 1,
            journal: None,
            held: None,
            planned: None,
            service: Service::In,
            drained: false,
            desired: target("a"),
            next: None,
            bad_boots: 0,
            last_good: target("a"),
            refused_in: None,
            is_refused: false,
            misses: 0,
            undone_to: None,
        }
    }

    fn observation(&self) -> Observation {
        Observation {
            at: self.booted.clone(),
            boot_id: self.boot.to_string(),
            journal: self.journal.clone(),
            held: self.held.clone(),
            is_forced: false,
        }
    }

    /// The host goes down and comes back: the guard and the verify unit do their part.
    fn reboot(&mut self, origin: &Target) {
        self.boot += 1;
        let Some(journal) = self.journal.take() else {
            return;
        };
        if let Some(undone) = self.undone_to.take() {
            self.booted = undone;
            return;
        }
        if matches!(journal.stage, Stage::Switched { .. }) {
            if is_bad(&journal.to) {
                self.bad_boots += 1;
                self.boot += 1;
                self.held = Some((journal.to, "checks".to_owned()));
                self.booted = origin.clone();
            } else {
                self.booted = journal.to.clone();
                self.last_good = journal.to;
            }
        }
        // An unswitched plan is undone by the guard: the record is the origin's.
    }

    /// Sees a command before it is run: what was refused touches nothing.
    fn see(&mut self, command: &Command) {
        let touches = matches!(
            command,
            Command::Drain | Command::Apply | Command::Revert | Command::RollBack | Command::Reboot
        );
        assert!(
            !touches || self.refused_in.is_none(),
            "{command:?} after a refusal: {self:?}"
        );
        if matches!(command, Command::Prefetch { .. }) {
            assert_eq!(
                self.service,
                Service::In,
                "fetched ahead while out: {self:?}"
            );
            assert!(self.journal.is_none(), "fetched ahead of work: {self:?}");
        }
        if matches!(command, Command::Plan { .. } | Command::Prepare) {
            assert_ne!(
                self.service,
                Service::Out,
                "{command:?} while the node is out: {self:?}"
            );
        }
        if let Command::Plan { to, .. } = command {
            self.refused_in = is_refused(to).then(|| self.booted.clone());
        }
        if !matches!(command, Command::Uncordon | Command::RetryAfter(_)) {
            self.is_refused = false;
        }
    }

    /// A drain begins; another target may come before its end.
    const fn cordon(&mut self) {
        self.service = Service::Out;
    }

    /// A plan fails while it is applied: everything was undone, or it died in the middle, or the
    /// undo did; then the journal is open.
    fn miss(&mut self) {
        let under_way = self.journal.take().map(|journal| journal.to);
        let Some(to) = under_way.or_else(|| self.planned.clone()) else {
            panic!("applied what was not planned");
        };
        let is_live = to.config == "c";
        let stage = match self.misses % 3 {
            1 if !is_live => Some(Stage::Applying),
            2 => Some(Stage::Undoing {
                cause: "bad luck".to_owned(),
            }),
            _ => None,
        };
        self.misses += 1;
        if is_live && stage.is_some() {
            // Written already, and not put back.
            self.undone_to = Some(std::mem::replace(&mut self.booted, to.clone()));
        }
        self.journal = stage.map(|stage| OpenJournal {
            to,
            stage,
            by_hand: false,
            stays: false,
        });
    }

    const fn return_to_service(&mut self) {
        self.service = Service::In;
        self.drained = false;
    }

    /// Runs one command to its answer.
    fn run(&mut self, command: &Command, good: bool) -> Option<Event> {
        let fails = || Event::Failed("bad luck".to_owned());
        Some(match command {
            Command::Observe if good => Event::Observed(self.observation()),
            Command::Plan { to, .. } if good && is_refused(to) => {
                self.is_refused = true;
                Event::Rejected(vec!["no".to_owned()])
            }
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
            Command::Prefetch { to, .. } if good && !is_refused(to) => Event::Fetched,
            Command::Prefetch { .. } => Event::NotFetched("no".to_owned()),
            Command::Prepare if good => Event::Prepared,
            Command::Drain if good => {
                self.drained = true;
                Event::Drained
            }
            Command::Apply if good => {
                let to = self.journal.as_ref().map_or_else(
                    || self.planned.clone().unwrap(),
                    |journal| journal.to.clone(),
                );
                if to.config == "c" {
                    self.booted = to.clone();
                    self.last_good = to;
                    self.journal = None;
                    Event::Applied
                } else {
                    let is_out = self.service != Service::In;
                    assert!(is_out && self.drained, "applied without a drain");
                    let boot_id = self.boot.to_string();
                    self.journal = Some(OpenJournal {
                        to,
                        stage: Stage::Switched {
                            boot_id: boot_id.clone(),
                        },
                        by_hand: false,
                        stays: false,
                    });
                    Event::Switched { boot_id }
                }
            }
            Command::Revert | Command::RollBack if good => {
                self.journal = None;
                if let Some(undone) = self.undone_to.take() {
                    self.booted = undone;
                }
                Event::Reverted
            }
            Command::Verify { to } if good => {
                assert_eq!(to, &self.booted, "proved something else than what runs");
                Event::Verified
            }
            Command::ReturnToService if good => {
                self.return_to_service();
                Event::InService
            }
            Command::Uncordon if good => {
                self.return_to_service();
                return None;
            }
            Command::Uncordon => Event::StillCordoned("bad luck".to_owned()),
            Command::Forget => {
                self.held = None;
                return None;
            }
            // A fetch ahead of the turn is tried again for ever.
            Command::Cancel | Command::Reboot | Command::RetryAfter(AHEAD_RETRY) => return None,
            // Once the node is uncordoned it would be rejected for ever; only a new target ends
            // that here.
            Command::RetryAfter(_) if self.is_refused && self.service == Service::In => {
                return None;
            }
            Command::RetryAfter(_) => Event::Retry,
            Command::ReturnToService => {
                if self.service == Service::Out {
                    self.service = Service::Cannot;
                }
                fails()
            }
            Command::Observe
            | Command::Plan { .. }
            | Command::Prepare
            | Command::Drain
            | Command::Revert
            | Command::RollBack
            | Command::Verify { .. } => fails(),
            Command::Apply => {
                self.miss();
                fails()
            }
        })
    }
}

/// Runs the machine until nothing is left to do, with `luck` for the first answers and good luck
/// after.
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
    machine.step(Event::Desired(world.desired.clone())).unwrap();
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
                world.desired = target(NAMES[usize::from(n) % NAMES.len()]);
                event = Some(Event::Desired(world.desired.clone()));
            }
            Luck::Next(n) => {
                world.next = NAMES.get(usize::from(n)).copied().map(samples::next);
                event = Some(Event::Next(world.next.clone()));
            }
            Luck::Good | Luck::Fails => {
                if todo.is_empty() {
                    continue;
                }
                let command = todo.remove(0);
                world.see(&command);
                if command == Command::Reboot {
                    world.reboot(&origin);
                    restart = true;
                } else {
                    event = world.run(&command, chance != Luck::Fails);
                }
            }
        }
        if restart {
            if world.service == Service::Cannot {
                world.service = Service::Out;
            }
            *machine = Machine::new();
            machine.step(Event::Desired(world.desired.clone())).unwrap();
            machine.step(Event::Next(world.next.clone())).unwrap();
            todo = vec![Command::Observe];
        }
        if let Some(event) = event {
            let commands = machine.step(event).unwrap();
            if commands.first() == Some(&Command::Cancel) {
                todo.clear();
            }
            if commands.contains(&Command::Drain) {
                world.cordon();
            }
            todo.extend(commands);
        }
        if machine.state() == Some(NodeState::Done) {
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

fn ahead(machine: &Machine) -> Ahead {
    let Phase::Idle(it) = machine.phase() else {
        panic!("{machine:?}");
    };
    it.ahead.clone()
}

/// What a node at rest ends with: what its Node names next is fetched, or refused.
fn ends_ahead(world: &World) -> Option<&Target> {
    let next = world.next.as_ref().map(|next| &next.to);
    next.filter(|to| **to != world.booted)
}

fn luck() -> impl Strategy<Value = Luck> {
    prop_oneof![
        6 => Just(Luck::Good),
        1 => Just(Luck::Fails),
        1 => Just(Luck::DaemonDies),
        1 => Just(Luck::HostReboots),
        2 => (0u8..8).prop_map(Luck::Retargeted),
        2 => (0u8..6).prop_map(Luck::Next),
    ]
}

proptest! {
    #[test]
    fn any_sequence_ends_in_the_last_target_or_held(lucks in prop::collection::vec(luck(), 0..60)) {
        let (machine, world) = play(&lucks);
        if is_bad(&world.desired) {
            prop_assert_eq!(machine.phase().name(), PhaseName::Held);
            prop_assert_eq!(&world.booted, &world.last_good);
        } else if is_refused(&world.desired) {
            prop_assert_eq!(machine.phase().name(), PhaseName::Unreconcilable);
            prop_assert_eq!(world.refused_in.as_ref(), Some(&world.booted));
            prop_assert_eq!(&world.booted, &world.last_good);
        } else {
            prop_assert_eq!(machine.phase().name(), PhaseName::Idle);
            prop_assert_eq!(&world.booted, &world.desired);
            let ahead = ahead(&machine);
            prop_assert_eq!(ahead.target(), ends_ahead(&world));
            let is_over = matches!(ahead, Ahead::Nothing | Ahead::Fetched(_) | Ahead::Failed { .. });
            prop_assert!(is_over, "{:?}", ahead);
        }
        prop_assert_eq!(world.service, Service::In, "left cordoned");
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
        // Observed, verified, in service; then a new target: planned, prepared, and the host goes
        // down before anything was applied.
        let mut lucks = vec![Luck::Good, Luck::Good, Luck::Good, Luck::Retargeted(1)];
        lucks.extend(vec![Luck::Good; steps]);
        lucks.push(Luck::HostReboots);
        // Observed and proved again, before it sets out again.
        lucks.extend([Luck::Good, Luck::Good]);
        let (mut machine, mut world) = (Machine::new(), World::new());
        run(&mut machine, &mut world, &lucks);
        prop_assert_eq!(&world.booted, &target("a"));
        prop_assert!(world.journal.is_none());
        prop_assert_eq!(machine.phase().name(), PhaseName::Fetching);
    }
}
