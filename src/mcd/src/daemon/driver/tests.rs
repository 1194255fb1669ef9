//! The loop over a simulated host: whatever fails, is killed or retargeted, the node never says
//! Done on anything but what is proved.

use std::cell::RefCell;
use std::rc::Rc;

use api::machineconfiguration::NodeState;
use chassis::shutdown;
use jiff::Timestamp;
use node_update::phase::{NextTarget, Observation, OpenJournal, Outline, Stage};
use node_update::plan::{Route, Target};
use proptest::prelude::*;

use super::super::publish::Shown;
use super::*;

/// A host, its guard, and what the outside was shown of it.
#[derive(Debug)]
struct World {
    boot: u32,
    at: Target,
    /// What was proved in this boot.
    proved: Option<Target>,
    journal: Option<OpenJournal>,
    held: Option<(Target, String)>,
    /// Where the open journal began.
    origin: Target,
    /// Configurations that never pass their checks.
    bad: Vec<&'static str>,
    /// Configurations that reboot.
    reboots: Vec<&'static str>,
    /// Commands still to fail, by stimulus: one bit each, in order.
    faults: u64,
    cordoned: bool,
    drained: bool,
    shown: Option<(Option<NodeState>, Option<Target>)>,
    faulty: Vec<String>,
    /// The last configuration that was reached and is not bad.
    last_good: Target,
    /// What was booted when the newest plan was refused, until there is another plan.
    refused_in: Option<Target>,
}

impl World {
    fn new(at: &str) -> Self {
        Self {
            boot: 1,
            at: target(at),
            proved: None,
            journal: None,
            held: None,
            origin: target(at),
            bad: Vec::new(),
            reboots: vec!["b", "c"],
            faults: 0,
            cordoned: false,
            drained: false,
            shown: None,
            faulty: Vec::new(),
            last_good: target(at),
            refused_in: None,
        }
    }

    /// Sees a command before it is run: what was refused touches nothing.
    fn see(&mut self, command: &Command) {
        let touches = matches!(
            command,
            Command::Drain | Command::Apply | Command::Revert | Command::RollBack | Command::Reboot
        );
        if touches && self.refused_in.is_some() {
            self.complain(&format!("{command:?} after a refusal"));
        }
        if matches!(command, Command::Prefetch { .. })
            && (self.cordoned || self.journal.is_some() || self.proved.as_ref() != Some(&self.at))
        {
            self.complain("fetches ahead of its turn while it is not at rest");
        }
        if let Command::Plan { to, .. } = command {
            self.refused_in = (to.config == "refused").then(|| self.at.clone());
        }
    }

    fn is_bad(&self, target: &Target) -> bool {
        self.bad.contains(&target.config.as_str()) || target.image.as_deref() == Some("bad")
    }

    fn fails(&mut self) -> bool {
        let fails = self.faults & 1 == 1;
        self.faults >>= 1;
        fails
    }

    /// The host goes down and comes up; its guard does what the real one does.
    fn reboot(&mut self) {
        self.boot += 1;
        self.proved = None;
        let Some(journal) = self.journal.take() else {
            return;
        };
        match journal.stage {
            Stage::Switched { .. } | Stage::Booted => {
                self.at = journal.to.clone();
                if self.is_bad(&journal.to) {
                    // Not proved until the deadline: back, and remembered.
                    self.boot += 1;
                    self.held = Some((journal.to, "checks failed".to_owned()));
                    self.at = self.origin.clone();
                } else {
                    self.last_good = journal.to.clone();
                    self.proved = Some(journal.to);
                }
            }
            Stage::RollingBack { .. }
            | Stage::Undoing { .. }
            | Stage::Stays { .. }
            | Stage::Applying => self.at = self.origin.clone(),
        }
    }

    fn complain(&mut self, what: &str) {
        self.faulty.push(format!("{what}: {self:?}"));
    }
}

/// A configuration, or one with an image, as annotations name it.
fn target(text: &str) -> Target {
    Target::parse(text).unwrap()
}

/// Carries out commands on the simulated host. Each takes a moment, so that targets and kills find
/// it at work.
struct Fake {
    world: Rc<RefCell<World>>,
    /// Ends the process, as a reboot does.
    dies: shutdown::Trigger,
    planned: RefCell<Option<(Target, Outline)>>,
}

impl Executor for Fake {
    async fn run(&self, command: Command, events: EventSink) -> Option<Event> {
        self.world.borrow_mut().see(&command);
        tokio::time::sleep(Duration::from_secs(1)).await;
        if let Command::Reboot = command {
            self.world.borrow_mut().reboot();
            self.dies.fire();
            return std::future::pending().await;
        }
        let mut world = self.world.borrow_mut();
        if command != Command::Forget && world.fails() {
            let cause = "out of luck".to_owned();
            return Some(if command == Command::Uncordon {
                Event::StillCordoned(cause)
            } else if let Command::Prefetch { .. } = command {
                Event::NotFetched(cause)
            } else {
                Event::Failed(cause)
            });
        }
        let event = match command {
            Command::Observe => Event::Observed(Observation {
                at: world.at.clone(),
                boot_id: world.boot.to_string(),
                journal: world.journal.clone(),
                held: world.held.clone(),
                is_forced: false,
            }),
            Command::Plan { to, .. } => {
                if to.config == "refused" {
                    Event::Rejected(vec!["no".to_owned()])
                } else {
                    let reboots =
                        world.reboots.contains(&to.config.as_str()) || to.image != world.at.image;
                    let outline = Outline {
                        route: if reboots { Route::Reboot } else { Route::Live },
                        drain: reboots,
                        image: None,
                    };
                    *self.planned.borrow_mut() = Some((to, outline.clone()));
                    Event::Planned(outline)
                }
            }
            Command::Prefetch { .. } => {
                events.send(Event::StillTrying("slow".to_owned()));
                Event::Fetched
            }
            Command::Prepare => {
                events.send(Event::StillTrying("slow".to_owned()));
                Event::Prepared
            }
            Command::Drain => {
                world.cordoned = true;
                events.send(Event::Blocked("a budget".to_owned()));
                world.drained = true;
                Event::Drained
            }
            Command::Apply => self.apply(&mut world),
            Command::Revert | Command::RollBack => {
                world.journal = None;
                world.at = world.origin.clone();
                Event::Reverted
            }
            Command::Verify { to } => {
                if world.journal.is_some() {
                    world.complain("nothing to prove while a plan is open");
                }
                if to == world.at && !world.is_bad(&to) {
                    world.proved = Some(to);
                    Event::Verified
                } else {
                    Event::Failed("does not verify".to_owned())
                }
            }
            Command::ReturnToService | Command::Uncordon => {
                world.cordoned = false;
                world.drained = false;
                if command == Command::Uncordon {
                    return None;
                }
                Event::InService
            }
            Command::Forget => {
                world.held = None;
                return None;
            }
            Command::Reboot | Command::Cancel | Command::RetryAfter(_) => return None,
        };
        Some(event)
    }

    async fn cancel(&self) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    fn show(&self, machine: &Machine) {
        let shown = Shown::of(machine, Timestamp::UNIX_EPOCH);
        let (state, in_force) = shown.claims();
        let mut world = self.world.borrow_mut();
        if let Some(claimed) = in_force
            && world.proved.as_ref() != Some(claimed)
            && world.shown.as_ref().and_then(|(_, shown)| shown.as_ref()) != Some(claimed)
        {
            world.complain("claims a configuration that is not proved");
        }
        if state == Some(NodeState::Done) {
            let is_true = world.proved.as_ref() == Some(&world.at)
                && in_force == Some(&world.at)
                && world.journal.is_none()
                && !world.cordoned
                && machine.desired().is_none_or(|desired| *desired == world.at);
            if !is_true {
                world.complain("says Done and is not");
            }
        }
        if state.is_some() {
            world.shown = Some((state, in_force.cloned()));
        }
    }
}

impl Fake {
    fn apply(&self, world: &mut World) -> Event {
        let planned = self.planned.borrow_mut().take();
        let (to, outline) = match (&world.journal, planned) {
            (Some(journal), _) => (
                journal.to.clone(),
                Outline {
                    route: Route::Reboot,
                    drain: true,
                    image: None,
                },
            ),
            (None, Some(planned)) => planned,
            (None, None) => {
                world.complain("applies what was not planned");
                return Event::Failed("no plan".to_owned());
            }
        };
        if outline.drain && world.journal.is_none() && !world.drained {
            world.complain("applies before the drain");
        }
        if world.journal.is_none() {
            world.origin = world.at.clone();
        }
        match outline.route {
            Route::Live if world.is_bad(&to) => {
                // Undone by the helper.
                Event::Failed("a reload failed".to_owned())
            }
            Route::Live => {
                world.last_good = to.clone();
                world.at = to;
                Event::Applied
            }
            Route::Reboot => {
                let boot_id = world.boot.to_string();
                world.journal = Some(OpenJournal {
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
    }
}

/// What happens to the daemon from outside.
#[derive(Debug, Clone)]
enum Stimulus {
    /// The Node names another target.
    Desired(&'static str),
    /// The Node names what may be fetched before its turn, or nothing.
    Next(Option<&'static str>),
    /// Time passes, in seconds.
    Wait(u64),
    Kill,
    /// The host reboots by itself.
    PowerCut,
    /// An administrator asks for another try.
    Release,
}

/// Plays the stimuli, then waits until all is quiet.
fn play(mut world: World, stimuli: &[Stimulus]) -> World {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let mut desired = None;
    world.faults &= 0xff_ffff;
    let world = Rc::new(RefCell::new(world));
    let mut stimuli = stimuli.iter();
    let mut lives = 0;
    loop {
        lives += 1;
        assert!(lives < 200, "never comes to rest: {:?}", world.borrow());
        world.borrow_mut().shown = None;
        let (trigger, shutdown) = shutdown::pair();
        let fake = Fake {
            world: Rc::clone(&world),
            dies: trigger,
            planned: RefCell::new(None),
        };
        let (inputs_to, inputs) = mpsc::channel(8);
        let is_quiet = runtime.block_on(async {
            if let Some(desired) = desired {
                inputs_to
                    .send(Event::Desired(target(desired)))
                    .await
                    .unwrap();
            }
            let outside = async {
                for stimulus in stimuli.by_ref() {
                    match stimulus {
                        Stimulus::Desired(config) => {
                            desired = Some(*config);
                            inputs_to
                                .send(Event::Desired(target(config)))
                                .await
                                .unwrap();
                        }
                        Stimulus::Wait(secs) => tokio::time::sleep(Duration::from_secs(*secs)).await,
                        Stimulus::Kill => return false,
                        Stimulus::PowerCut => {
                            world.borrow_mut().reboot();
                            return false;
                        }
                        Stimulus::Release => inputs_to.send(Event::Release).await.unwrap(),
                        Stimulus::Next(config) => {
                            let next = config.map(|config| NextTarget {
                                to: target(config),
                                after: Duration::from_secs(2),
                            });
                            inputs_to.send(Event::Next(next)).await.unwrap();
                        }
                    }
                }
                // Longer than any row of retries.
                tokio::time::sleep(Duration::from_hours(2)).await;
                true
            };
            tokio::select! {
                result = drive(&fake, inputs, tokio::time::sleep(Duration::from_secs(1)), shutdown) => {
                    result.unwrap();
                    false
                }
                is_quiet = outside => is_quiet,
            }
        });
        drop(fake);
        if is_quiet {
            return Rc::try_unwrap(world).unwrap().into_inner();
        }
    }
}

fn stimuli() -> impl Strategy<Value = Vec<Stimulus>> {
    let config = prop::sample::select(vec![
        "a",
        "b",
        "c",
        "live",
        "bad",
        "refused",
        "a image",
        "a image2",
        "live image",
        "a bad",
    ]);
    let stimulus = prop_oneof![
        4 => config.clone().prop_map(Stimulus::Desired),
        2 => prop::option::of(config).prop_map(Stimulus::Next),
        6 => (0_u64..8).prop_map(Stimulus::Wait),
        1 => Just(Stimulus::Kill),
        1 => Just(Stimulus::PowerCut),
        1 => Just(Stimulus::Release),
    ];
    prop::collection::vec(stimulus, 0..14)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn never_done_on_anything_but_the_proved_booted_state(stimuli in stimuli(), faults: u64) {
        let mut world = World::new("a");
        world.bad = vec!["bad"];
        world.reboots.push("bad");
        world.faults = faults;
        let world = play(world, &stimuli);
        prop_assert!(world.faulty.is_empty(), "{:#?}", world.faulty);
        let last = stimuli.iter().rev().find_map(|stimulus| match stimulus {
            Stimulus::Desired(config) => Some(*config),
            Stimulus::Next(_)
            | Stimulus::Wait(_)
            | Stimulus::Kill
            | Stimulus::PowerCut
            | Stimulus::Release => None,
        });
        let state = world.shown.as_ref().and_then(|(state, _)| *state);
        match last {
            Some("refused") => {
                prop_assert_eq!(state, Some(NodeState::Unreconcilable));
                prop_assert_eq!(world.refused_in.as_ref(), Some(&world.at));
                prop_assert_eq!(&world.at, &world.last_good);
                prop_assert!(world.journal.is_none(), "{:?}", world.journal);
            }
            Some("bad" | "a bad") => {
                prop_assert_eq!(state, Some(NodeState::Degraded));
                prop_assert_eq!(&world.at, &world.last_good);
            }
            Some(config) => {
                prop_assert_eq!(&world.at, &target(config));
                prop_assert_eq!(state, Some(NodeState::Done));
            }
            None => prop_assert_eq!(state, Some(NodeState::Done)),
        }
        prop_assert!(!world.cordoned, "a node at rest is in service");
    }
}

#[test]
fn a_failed_target_reboots_the_host_once_and_is_not_tried_again() {
    let mut world = World::new("a");
    world.bad = vec!["bad"];
    world.reboots.push("bad");
    let world = play(
        world,
        &[Stimulus::Desired("bad"), Stimulus::Wait(60), Stimulus::Kill],
    );
    // Into the target and back.
    assert_eq!(world.boot, 3);
    assert_eq!(
        world.held,
        Some((target("bad"), "checks failed".to_owned()))
    );
    assert!(world.faulty.is_empty(), "{:#?}", world.faulty);
}

#[test]
fn a_power_cut_while_draining_changes_nothing() {
    let world = World::new("a");
    let world = play(
        world,
        &[
            Stimulus::Desired("b"),
            Stimulus::Wait(6),
            Stimulus::PowerCut,
            Stimulus::Desired("a"),
        ],
    );
    assert_eq!(world.at, target("a"));
    assert!(world.faulty.is_empty(), "{:#?}", world.faulty);
}

/// Without the API server the host is still read, and a plan that is open is finished.
#[tokio::test(start_paused = true)]
async fn the_host_is_looked_after_without_the_api_server() {
    let mut world = World::new("a");
    world.boot = 2;
    world.journal = Some(OpenJournal {
        to: target("b"),
        stage: Stage::Applying,
        by_hand: false,
        stays: false,
    });
    let world = Rc::new(RefCell::new(world));
    let (trigger, shutdown) = shutdown::pair();
    let fake = Fake {
        world: Rc::clone(&world),
        dies: trigger,
        planned: RefCell::new(None),
    };
    let (_silent, inputs) = mpsc::channel(1);
    drive(&fake, inputs, std::future::pending::<()>(), shutdown)
        .await
        .unwrap();
    assert_eq!(
        world.borrow().boot,
        3,
        "it went on and rebooted into the target"
    );
}
