//! What is written of each phase, and that nothing is written twice.

use std::sync::Arc;

use apimock::{Call, Reply, Script};
use chassis::shutdown;
use cluster::access::Access;
use node_update::phase::{Event, Observation, OpenJournal, Outline, Stage};
use node_update::plan::Route;
use serde_json::{Value, json};

use super::*;

const NODE: &str = "/api/v1/nodes/n";

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(1_795_000_000 + secs).unwrap()
}

fn target(config: &str) -> Target {
    Target {
        config: config.to_owned(),
        image: None,
    }
}

fn observed(config: &str, journal: Option<OpenJournal>) -> Event {
    Event::Observed(Observation {
        at: target(config),
        boot_id: "2".to_owned(),
        journal,
        held: None,
        is_forced: false,
    })
}

fn machine(events: Vec<Event>) -> Machine {
    let mut machine = Machine::new();
    for event in events {
        machine.step(event).unwrap();
    }
    machine
}

fn idle(config: &str) -> Vec<Event> {
    vec![
        Event::Desired(target(config)),
        observed(config, None),
        Event::Verified,
        Event::InService,
    ]
}

fn to_reboot() -> Vec<Event> {
    let outline = Outline {
        route: Route::Reboot,
        drain: true,
        image: None,
    };
    let mut events = idle("a");
    events.extend([
        Event::Desired(target("b")),
        Event::Planned(outline),
        Event::Prepared,
        Event::Drained,
        Event::Switched {
            boot_id: "1".to_owned(),
        },
    ]);
    events
}

fn node(annotations: &Value) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "1", "annotations": annotations},
    }))
    .unwrap()
}

/// The annotations of `node` once `events` are shown on it.
fn shown(events: Vec<Event>, before: &Value) -> Value {
    let change = Shown::of(&machine(events), at(0)).change(&node(before));
    let mut after = before.clone();
    for (key, value) in change.annotations {
        match value {
            Some(value) => after[key] = json!(value),
            None => drop(after.as_object_mut().unwrap().remove(&key)),
        }
    }
    assert_eq!(change.unschedulable, None, "cordons belong to the drain");
    after
}

#[test]
fn done_shows_what_is_in_force() {
    let after = shown(
        idle("a"),
        &json!({annotation::DESIRED_CONFIG: "a", annotation::DESIRED_IMAGE: ""}),
    );
    assert_eq!(
        after,
        json!({
            annotation::DESIRED_CONFIG: "a",
            annotation::CURRENT_CONFIG: "a",
            annotation::STATE: "Done",
            annotation::REASON: "",
            annotation::PHASE: "Idle",
            annotation::SINCE: "2026-11-18T11:06:40.000Z",
        })
    );
}

#[test]
fn a_failure_that_the_daemon_before_left_is_cleared() {
    let staged = annotation::OSTREE_FINALIZE_STAGED_FAILURE;
    let after = shown(idle("a"), &json!({staged: "error: no space"}));
    assert_eq!(after[staged], "");
    assert_eq!(
        shown(to_reboot(), &json!({staged: "error"}))[staged],
        "error"
    );
}

#[test]
fn nothing_changes_on_a_node_that_shows_it_already() {
    let first = shown(idle("a"), &json!({annotation::DESIRED_CONFIG: "a"}));
    let again = Shown::of(&machine(idle("a")), at(500)).change(&node(&first));
    let mut same = node(&first);
    for (key, value) in again.annotations {
        match value {
            Some(value) => drop(same.annotations.insert(key, value)),
            None => drop(same.annotations.remove(&key)),
        }
    }
    assert_eq!(
        same,
        node(&first),
        "a restarted daemon does not start its clock again"
    );
}

#[test]
fn before_the_boot_the_old_configuration_is_in_force() {
    let before = json!({annotation::CURRENT_CONFIG: "a", annotation::STATE: "Working", annotation::DESIRED_DRAIN: "drain-b"});
    let after = shown(to_reboot(), &before);
    assert_eq!(after[annotation::CURRENT_CONFIG], "a");
    assert_eq!(after[annotation::STATE], "Working");
    assert_eq!(after[annotation::POST_CONFIG_ACTION], "Rebooting");
    assert_eq!(after[annotation::LAST_APPLIED_DRAIN], "drain-b");
}

#[test]
fn a_drain_that_was_not_asked_for_is_not_acknowledged() {
    let after = shown(
        to_reboot(),
        &json!({annotation::DESIRED_DRAIN: "uncordon-a"}),
    );
    assert_eq!(after.get(annotation::LAST_APPLIED_DRAIN), None);
}

#[test]
fn after_the_boot_the_reboot_is_over_and_the_target_not_yet_in_force() {
    let journal = OpenJournal {
        to: target("b"),
        stage: Stage::Booted,
        by_hand: false,
        stays: false,
    };
    let events = vec![Event::Desired(target("b")), observed("b", Some(journal))];
    let before = json!({
        annotation::CURRENT_CONFIG: "a", annotation::STATE: "Working", annotation::POST_CONFIG_ACTION: "Rebooting",
        annotation::PHASE: "Rebooting", annotation::WAITS_FOR: "the host to come back",
    });
    let after = shown(events.clone(), &before);
    assert_eq!(after[annotation::POST_CONFIG_ACTION], "");
    assert_eq!(after[annotation::CURRENT_CONFIG], "a");
    assert_eq!(after[annotation::STATE], "Working");
    assert_eq!(after[annotation::PHASE], "Verifying");
    assert_eq!(after[annotation::WAITS_FOR], "checks");

    let unmet = Event::Unmet("unit kubelet.service is activating".to_owned());
    let after = shown([events, vec![unmet]].concat(), &before);
    assert_eq!(
        after[annotation::REASON],
        "unit kubelet.service is activating"
    );
    assert_eq!(
        after[annotation::WAITS_FOR],
        "checks: unit kubelet.service is activating"
    );
}

#[test]
fn a_restarted_daemon_checks_a_node_at_rest_without_a_word() {
    let before = shown(idle("a"), &json!({annotation::DESIRED_CONFIG: "a"}));
    let checks = vec![Event::Desired(target("a")), observed("a", None)];
    assert_eq!(shown(checks.clone(), &before), before);
    let unmet = Event::Unmet("unit kubelet.service is activating".to_owned());
    assert_eq!(shown([checks, vec![unmet]].concat(), &before), before);
}

#[test]
fn a_node_that_was_registered_anew_asks_for_nothing_but_what_is_in_force() {
    let after = shown(idle("a"), &json!({}));
    assert_eq!(after[annotation::CURRENT_CONFIG], "a");
    assert_eq!(after[annotation::DESIRED_CONFIG], "a");
    let annotations = shown(idle("a"), &json!({annotation::DESIRED_CONFIG: "b"}));
    assert_eq!(annotations[annotation::DESIRED_CONFIG], "b");
}

#[test]
fn a_starting_daemon_touches_nothing() {
    let before =
        json!({annotation::STATE: "Degraded", annotation::POST_CONFIG_ACTION: "Rebooting"});
    assert_eq!(shown(vec![Event::Desired(target("a"))], &before), before);
}

#[test]
fn a_layered_node_shows_its_image() {
    let mut layered = target("a");
    layered.image = Some("registry/os@sha256:1".to_owned());
    let events = vec![
        Event::Desired(layered.clone()),
        Event::Observed(Observation {
            at: layered,
            boot_id: "1".to_owned(),
            journal: None,
            held: None,
            is_forced: false,
        }),
        Event::Verified,
        Event::InService,
    ];
    let after = shown(events, &json!({}));
    assert_eq!(after[annotation::CURRENT_IMAGE], "registry/os@sha256:1");
    let left = shown(idle("a"), &after);
    assert_eq!(left.get(annotation::CURRENT_IMAGE), None);
}

#[test]
fn a_retry_that_was_taken_up_is_asked_for_no_more() {
    let after = shown(idle("a"), &json!({annotation::RETRY: "a"}));
    assert_eq!(after.get(annotation::RETRY), None);
}

struct Set {
    script: Script,
    publisher: Publisher,
    seen: watch::Sender<ObservedNode>,
    _running: shutdown::Trigger,
}

impl Set {
    fn new(before: &Value, calls: Vec<Call>) -> Self {
        let (script, client) = Script::start(calls);
        let (seen, receiver) = watch::channel(Some(Arc::new(node(before))));
        let (trigger, shutdown) = shutdown::pair();
        let access = Arc::new(Access::of_client(client));
        let (writer, writing) = NodeWriter::new(access, "n", receiver.clone(), shutdown.clone());
        let (publisher, publishing) = Publisher::new(writer, receiver, shutdown);
        tokio::spawn(writing);
        tokio::spawn(publishing);
        Self {
            script,
            publisher,
            seen,
            _running: trigger,
        }
    }

    async fn settle(&self) {
        assert!(self.publisher.settle(Duration::from_secs(5)).await);
    }
}

fn patch(annotations: &Value, version: u32, after: &Value) -> Call {
    Call::patch(
        NODE,
        json!({"metadata": {"annotations": annotations}}),
        Reply::ok(json!({
            "metadata": {"name": "n", "uid": "u", "resourceVersion": version.to_string(), "annotations": after},
        })),
    )
}

/// A daemon that starts on a node in order passes four phases and writes once.
#[tokio::test(start_paused = true)]
async fn only_the_newest_state_is_written() {
    let before = json!({
        annotation::CURRENT_CONFIG: "a", annotation::DESIRED_CONFIG: "a", annotation::STATE: "Done", annotation::REASON: ""
    });
    let written = json!({annotation::PHASE: "Idle", annotation::SINCE: "2026-11-18T11:06:40.000Z"});
    let after = shown(idle("a"), &before);
    let set = Set::new(&before, vec![patch(&written, 2, &after)]);
    let work = async {
        let mut machine = Machine::new();
        for event in idle("a") {
            machine.step(event).unwrap();
            set.publisher.show(&machine, at(0));
            tokio::task::yield_now().await;
        }
        set.settle().await;
        set.publisher.show(&machine, at(9));
        set.settle().await;
    };
    set.script.drive(work).await;
}

/// The patch of a node that shows `before`, once `events` are shown on it at second `at`.
fn written(events: Vec<Event>, before: &Value, secs: i64, version: u32) -> (Value, Call) {
    let change = Shown::of(&machine(events), at(secs)).change(&node(before));
    let (mut after, mut sent) = (before.clone(), json!({}));
    for (key, value) in change.annotations {
        let value = value.map_or(Value::Null, Value::from);
        if before.get(&key).unwrap_or(&Value::Null) != &value {
            after[&key] = value.clone();
            sent[&key] = value;
        }
    }
    after
        .as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    let call = patch(&sent, version, &after);
    (after, call)
}

/// A step that passes at once is not written; one that lasts is, a moment after the first that was
/// not.
#[tokio::test(start_paused = true)]
async fn only_steps_that_last_are_written() {
    let rest = shown(idle("a"), &json!({annotation::DESIRED_CONFIG: "a"}));
    let steps = |count: usize| {
        let mut events = to_reboot();
        events.truncate(idle("a").len() + count);
        events
    };
    let (planning, preparing, draining, applying) = (steps(1), steps(2), steps(3), steps(4));
    let (shows_preparing, first) = written(preparing.clone(), &rest, 0, 2);
    let (shows_draining, second) = written(draining.clone(), &shows_preparing, 9, 3);
    let (_, third) = written(to_reboot(), &shows_draining, 30, 4);
    let set = Set::new(&rest, vec![first, second, third]);
    let work = async {
        let show = |events: &[Event], secs| {
            set.publisher.show(&machine(events.to_vec()), at(secs));
        };
        show(&idle("a"), 0);
        set.settle().await;
        let began = tokio::time::Instant::now();
        show(&planning, 0);
        tokio::time::sleep(MOMENT / 2).await;
        show(&preparing, 1);
        set.settle().await;
        let took = began.elapsed();
        assert!(took >= MOMENT && took < MOMENT * 3 / 2, "{took:?}");
        // A drain is written at once.
        let began = tokio::time::Instant::now();
        show(&draining, 9);
        set.settle().await;
        assert!(began.elapsed() < MOMENT / 4);
        // The files are in place sooner than that is worth a request.
        show(&applying, 29);
        tokio::time::sleep(MOMENT / 2).await;
        show(&to_reboot(), 30);
        set.settle().await;
    };
    set.script.drive(work).await;
    assert_eq!(set.script.remaining(), 0);
}

#[test]
fn what_went_wrong_is_no_passing_step() {
    let fetching = |rest: Vec<Event>| [idle("a"), vec![Event::Desired(target("b"))], rest].concat();
    let is_passing = |events| Shown::of(&machine(events), at(0)).is_passing();
    assert!(is_passing(fetching(vec![])));
    let trying = Event::StillTrying("no route to host".to_owned());
    assert!(!is_passing(fetching(vec![trying])));
    assert!(!is_passing(fetching(vec![Event::Failed("x".to_owned())])));
    assert!(!is_passing(to_reboot()) && !is_passing(idle("a")));
}

#[test]
fn a_node_in_service_shows_what_rest_shows() {
    let to_finish = |mut events: Vec<Event>| {
        events.pop();
        Shown::of(&machine(events), at(0)).rest
    };
    let before = json!({
        annotation::CURRENT_CONFIG: "a", annotation::DESIRED_CONFIG: "b", annotation::STATE: "Working",
        annotation::PHASE: "Rebooting", annotation::POST_CONFIG_ACTION: "Rebooting",
        annotation::WAITS_FOR: "the host to come back",
    });
    let change = to_finish(idle("b")).unwrap().change(&node(&before));
    let rest = Shown::of(&machine(idle("b")), at(0)).change(&node(&before));
    assert_eq!(change, rest);
    let current = &change.annotations[annotation::CURRENT_CONFIG];
    assert_eq!(current.as_deref(), Some("b"));
    // On its way to another target it does not rest.
    let mut events = idle("a");
    events.insert(3, Event::Desired(target("b")));
    assert_eq!(to_finish(events), None);
}

/// An update that an administrator forces begins in service, and is not done before it has begun.
#[test]
fn a_node_that_is_forced_does_not_rest() {
    let forced = Event::Observed(Observation {
        at: target("a"),
        boot_id: "1".to_owned(),
        journal: None,
        held: None,
        is_forced: true,
    });
    let events = vec![Event::Desired(target("a")), forced];
    let machine = machine(events);
    assert_eq!(
        Shown::of(&machine, at(0)).rest,
        None,
        "{:?}",
        machine.phase()
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_created_again_is_written_again() {
    let after = shown(idle("a"), &json!({}));
    let set = Set::new(&after, vec![patch(&after, 4, &after)]);
    let work = async {
        set.publisher.show(&machine(idle("a")), at(0));
        set.settle().await;
        let mut made_anew = node(&json!({}));
        made_anew.uid = "other".to_owned();
        made_anew.resource_version = "3".to_owned();
        set.seen.send_replace(Some(Arc::new(made_anew)));
        tokio::time::sleep(Duration::from_mins(1)).await;
    };
    set.script.drive(work).await;
}

#[test]
fn a_failure_that_is_looked_at_again_does_not_flap() {
    let mut events = idle("a");
    events.extend([
        Event::Desired(target("b")),
        Event::Rejected(vec!["no".to_owned()]),
    ]);
    assert!(!is_on_its_way_round(&machine(events.clone())));
    for event in [Event::Retry, observed("a", None)] {
        events.push(event);
        let machine = machine(events.clone());
        let shows = Shown::of(&machine, at(0)).change(&node(&json!({})));
        let is_quiet = is_on_its_way_round(&machine) || shows == Change::default();
        assert!(is_quiet, "{:?}", machine.phase());
    }
}

#[test]
fn a_failure_names_its_phase_and_its_target() {
    let to_drain = || {
        let mut events = to_reboot();
        events.truncate(idle("a").len() + 3);
        events
    };
    let failed = || Event::Failed("it broke".to_owned());
    let fetching = {
        let mut events = to_drain();
        events.truncate(idle("a").len() + 1);
        events
    };
    let journal = OpenJournal {
        to: target("b"),
        stage: Stage::Booted,
        by_hand: false,
        stays: false,
    };
    let booted = vec![Event::Desired(target("b")), observed("b", Some(journal))];
    let held = vec![
        Event::Desired(target("b")),
        Event::Observed(Observation {
            at: target("a"),
            boot_id: "1".to_owned(),
            journal: None,
            held: Some((target("b"), "it broke".to_owned())),
            is_forced: false,
        }),
    ];
    let mut applied = to_reboot();
    applied.pop();
    for (events, expected) in [
        ([fetching, vec![failed()]].concat(), "Fetching b"),
        ([to_drain(), vec![failed()]].concat(), "Draining b"),
        (
            [to_drain(), vec![Event::Overdue("a pod".to_owned())]].concat(),
            "Draining b",
        ),
        ([applied, vec![failed()]].concat(), "Applying b"),
        ([booted, vec![failed()]].concat(), "Verifying b"),
        (held, "Held b"),
    ] {
        let after = shown(events, &json!({}));
        assert_eq!(after[annotation::FAILED_IN], expected);
        assert_eq!(after[annotation::STATE], "Degraded", "{expected}");
        // It ends with the failure.
        let after = shown(idle("b"), &after);
        assert_eq!(after.get(annotation::FAILED_IN), None, "{expected}");
    }
}
