//! A cluster on which every sequence of requests, refusals, lost events and restarts must end well.

use proptest::prelude::*;

use super::*;

const IMAGES: [&str; 4] = ["own", "a", "b", "c"];

#[derive(Debug, Clone, Copy)]
enum Action {
    /// Another release is requested.
    Ask {
        image: usize,
        is_forced: bool,
    },
    /// The turn of the request; what was under way for it is given up.
    Look,
    /// What is under way for the request ends, in one of several ways.
    Finish(u8),
    /// The turn of the applied release; true if some of it cannot be read.
    Turn(bool),
    /// Its files cannot be read at all.
    Unreadable,
    /// The pass under way ends.
    End(PassOutcome),
    Write,
    /// What is under way is lost, as with a request to the API server that fails.
    Lose,
    Restart,
    /// The cluster is restored to a time when this was the newest entry.
    Restore {
        image: usize,
        is_completed: bool,
    },
}

/// A cluster and a version operator, as far as the machine can see them.
#[derive(Debug)]
struct World {
    state: ReleaseState,
    wanted: usize,
    is_forced: bool,
    generation: i64,
    /// The newest entry of the history, and whether it is completed.
    head: Option<(String, bool)>,
    has_completed: bool,
    /// What is under way for the request, and for the applied release.
    task: Option<ReleaseTask>,
    pass: Option<PassEnd>,
    /// What the next status says: the release, and whether it is applied whole.
    report: Option<(String, bool)>,
    /// Releases whose check has passed in this process.
    passed: BTreeSet<String>,
}

impl World {
    fn new() -> Self {
        Self {
            state: ReleaseState::new(on_disk("own")),
            wanted: 0,
            is_forced: false,
            generation: 1,
            head: None,
            has_completed: false,
            task: None,
            pass: None,
            report: None,
            passed: BTreeSet::new(),
        }
    }

    fn image(&self) -> String {
        self.state.on_disk().image.clone()
    }

    /// Takes an event. What is to be done is one thing that ends in an event, or a wait.
    fn take(&mut self, event: ReleaseEvent) -> ReleaseTask {
        let commands = self.state.take(event).unwrap();
        for command in commands.at_once {
            if command == ReleaseCommand::Restart {
                self.report = None;
            }
        }
        commands.then
    }

    fn look(&mut self) {
        let task = self.take(ReleaseEvent::SpecRead(SpecRead {
            is_forced: self.is_forced,
            generation: Some(self.generation),
            has_completed: self.has_completed,
            ..spec_read(IMAGES[self.wanted])
        }));
        assert!(matches!(task, Retrieve | Wait(_)), "{task:?}");
        self.task = Some(task);
    }

    fn finish(&mut self, how: u8) {
        let Some(request) = self.state.request().cloned() else {
            return;
        };
        let event = match (self.task, how) {
            (Some(Retrieve), 0) => ReleaseEvent::NotRetrieved("away".to_owned()),
            (Some(Retrieve), _) => ReleaseEvent::Retrieved(retrieved()),
            (Some(Check), 0) => ReleaseEvent::NotLoaded("malformed".to_owned()),
            (Some(Check), 1) => ReleaseEvent::Checked(checkup("other")),
            (Some(Check), 2) => {
                if request.is_forced {
                    self.passed.insert(request.release.image.clone());
                }
                ReleaseEvent::Checked(crate::acceptance::Checkup {
                    findings: vec![samples::finding(true)],
                    ..checkup(&request.release.image)
                })
            }
            (Some(Check), _) => {
                self.passed.insert(request.release.image.clone());
                ReleaseEvent::Checked(checkup(&request.release.image))
            }
            _ => return,
        };
        let task = self.take(event);
        assert!(matches!(task, Check | Wait(_)), "{task:?}");
        self.task = Some(task);
    }

    fn turn(&mut self, has_fault: bool) {
        if self.pass.is_some() {
            // A key has one turn at a time.
            return;
        }
        let image = self.image();
        let newest = match &self.head {
            Some((head, true)) if *head == image => NewestEntry::Completed,
            Some((head, false)) if *head == image => NewestEntry::Partial,
            Some((head, _)) if *head == IMAGES[self.wanted] && self.wanted != 0 => {
                NewestEntry::Wanted
            }
            _ => NewestEntry::Other,
        };
        let seen = LoadedRelease {
            is_new: true,
            has_fault,
            newest,
        };
        match self.take(ReleaseEvent::Loaded(seen)) {
            Record => self.report = Some((image, false)),
            Pass => {
                if image != "own" {
                    assert!(self.passed.contains(&image), "{image} was not checked");
                    let head = self.head.as_ref().map(|(head, _)| head);
                    assert_eq!(head, Some(&image), "{image} was not recorded");
                }
                self.report.get_or_insert((image, false));
                self.pass = Some(PassEnd {
                    on_disk: Arc::clone(self.state.on_disk()),
                    is_kept: newest == NewestEntry::Completed,
                    outcome: PassOutcome::GivenUp,
                });
            }
            Wait(_) => {}
            task @ (Retrieve | Check) => panic!("{task:?}"),
        }
    }

    fn end(&mut self, outcome: PassOutcome) {
        let Some(end) = self.pass.take() else {
            return;
        };
        let is_left = !Arc::ptr_eq(&end.on_disk, self.state.on_disk());
        let before = self.state.clone();
        let task = self.take(ReleaseEvent::Ended(PassEnd { outcome, ..end }));
        assert!(matches!(task, Wait(_)), "{task:?}");
        if is_left {
            assert_eq!(self.state, before);
        } else if outcome == PassOutcome::Complete
            && let Some(report) = &mut self.report
        {
            report.1 = true;
        }
    }

    fn write(&mut self) {
        let Some((image, is_applied)) = self.report.clone() else {
            return;
        };
        let was_completed = matches!(&self.head, Some((head, true)) if *head == image);
        self.head = Some((image, is_applied || was_completed));
        self.has_completed |= is_applied;
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Ask { image, is_forced } => {
                self.wanted = image;
                self.is_forced = is_forced;
                self.generation += 1;
            }
            Action::Look => self.look(),
            Action::Finish(how) => self.finish(how),
            Action::Turn(has_fault) => self.turn(has_fault),
            Action::Unreadable => {
                if self.pass.is_none() {
                    let task = self.take(ReleaseEvent::Unreadable);
                    assert_eq!(task, Wait(ReleaseWait::Readable));
                }
            }
            Action::End(outcome) => self.end(outcome),
            Action::Write => self.write(),
            Action::Lose => {
                self.task = None;
                self.pass = None;
            }
            Action::Restart => {
                *self = Self {
                    head: self.head.take(),
                    has_completed: self.has_completed,
                    wanted: self.wanted,
                    is_forced: self.is_forced,
                    generation: self.generation,
                    ..Self::new()
                };
            }
            Action::Restore {
                image,
                is_completed,
            } => {
                self.head = Some((IMAGES[image].to_owned(), is_completed));
                self.has_completed |= is_completed;
            }
        }
    }

    /// From now on all goes well: the requested release must come to run.
    fn settle(&mut self) {
        for _ in 0..8 {
            self.look();
            self.finish(9);
            self.finish(9);
            self.turn(false);
            self.end(PassOutcome::Complete);
            self.write();
        }
        assert_eq!(self.image(), IMAGES[self.wanted]);
        assert_eq!(self.state.name(), "Running");
        let head = (IMAGES[self.wanted].to_owned(), true);
        assert_eq!(self.head, Some(head));
    }
}

fn outcomes() -> impl Strategy<Value = PassOutcome> {
    prop_oneof![
        3 => Just(PassOutcome::Complete),
        1 => Just(PassOutcome::Incomplete),
        1 => Just(PassOutcome::Overdue),
        1 => Just(PassOutcome::GivenUp),
    ]
}

fn actions() -> impl Strategy<Value = Action> {
    let image = || 0..IMAGES.len();
    prop_oneof![
        2 => (image(), any::<bool>()).prop_map(|(image, is_forced)| Action::Ask { image, is_forced }),
        4 => Just(Action::Look),
        6 => (0..6_u8).prop_map(Action::Finish),
        4 => prop::bool::weighted(0.1).prop_map(Action::Turn),
        1 => Just(Action::Unreadable),
        4 => outcomes().prop_map(Action::End),
        4 => Just(Action::Write),
        1 => Just(Action::Lose),
        1 => Just(Action::Restart),
        1 => (image(), any::<bool>())
            .prop_map(|(image, is_completed)| Action::Restore { image, is_completed }),
    ]
}

proptest! {
    /// What is applied has passed its check and is in the history, or is the own release; no event
    /// is without a next one; and the newest request wins.
    #[test]
    fn every_sequence_ends_in_the_release_that_is_asked_for(
        actions in prop::collection::vec(actions(), 0..80),
    ) {
        let mut world = World::new();
        for action in actions {
            world.act(action);
        }
        world.settle();
    }
}
