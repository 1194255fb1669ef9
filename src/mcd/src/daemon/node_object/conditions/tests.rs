use std::collections::BTreeMap;

use api::machineconfiguration::annotation;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// One state of a Node: phase, state, reason, current, desired and applied drain, and whether it is
/// cordoned.
#[derive(Debug, Clone)]
struct Scene {
    phase: PhaseName,
    state: NodeState,
    reason: &'static str,
    current: &'static str,
    desired: &'static str,
    drained: Option<String>,
    cordoned: bool,
}

impl Scene {
    fn working(phase: PhaseName, current: &'static str, desired: &'static str) -> Self {
        Self {
            phase,
            state: NodeState::Working,
            reason: "",
            current,
            desired,
            drained: None,
            cordoned: false,
        }
    }

    fn done(config: &'static str) -> Self {
        Self {
            state: NodeState::Done,
            ..Self::working(PhaseName::Idle, config, config)
        }
    }

    fn failed(self, state: NodeState, reason: &'static str) -> Self {
        Self {
            state,
            reason,
            ..self
        }
    }

    fn drained(self) -> Self {
        Self {
            drained: Some(format!("drain-{}", self.desired)),
            cordoned: true,
            ..self
        }
    }

    fn node(&self) -> Node {
        let mut annotations = BTreeMap::from([
            (annotation::PHASE, self.phase.as_str()),
            (annotation::STATE, self.state.as_str()),
            (annotation::REASON, self.reason),
            (annotation::CURRENT_CONFIG, self.current),
            (annotation::DESIRED_CONFIG, self.desired),
        ]);
        if let Some(drained) = &self.drained {
            annotations.insert(annotation::LAST_APPLIED_DRAIN, drained);
        }
        serde_json::from_value(json!({
            "metadata": { "name": "n", "uid": "u", "resourceVersion": "1", "annotations": annotations },
            "spec": { "unschedulable": self.cordoned },
        }))
        .unwrap()
    }
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(1_795_000_000 + secs).unwrap()
}

/// Each status that is written for these scenes, in order.
fn written(scenes: &[Scene]) -> Vec<MachineConfigNodeStatus> {
    let mut all = vec![MachineConfigNodeStatus::default()];
    for (scene, secs) in scenes.iter().zip(0..) {
        let node = scene.node();
        for step in 0.. {
            let before = all.last().unwrap();
            let after = next(&node, Some(2), before, at(secs));
            if after == *before {
                break;
            }
            assert!(step < 2, "it does not settle: {scene:?}");
            all.push(after);
        }
    }
    all.split_off(1)
}

/// The conditions that are not False, as `Type` or, while they are unknown, `Type?`.
fn held(status: &MachineConfigNodeStatus) -> String {
    let held = TYPES.iter().filter_map(|r#type| {
        let condition = condition::find(&status.conditions, r#type).unwrap();
        match condition.status {
            True => Some(r#type.to_string()),
            Unknown => Some(format!("{type}?")),
            False => None,
        }
    });
    held.collect::<Vec<_>>().join(" ")
}

fn message(status: &MachineConfigNodeStatus, r#type: &Type) -> String {
    let condition = condition::find(&status.conditions, r#type).unwrap();
    format!("{}: {}", condition.reason, condition.message)
}

fn shown(scenes: &[Scene]) -> Vec<String> {
    written(scenes).iter().map(held).collect()
}

fn versions(status: &MachineConfigNodeStatus) -> (Option<&str>, &str) {
    let version = status.config_version.as_ref().unwrap();
    (version.current.as_deref(), &version.desired)
}

use PhaseName as P;

fn reboot() -> Vec<Scene> {
    let scene = |phase| Scene::working(phase, "a", "b");
    vec![
        Scene::done("a"),
        scene(P::Fetching),
        scene(P::Draining),
        Scene {
            cordoned: true,
            ..scene(P::Draining)
        },
        scene(P::Applying).drained(),
        scene(P::Rebooting).drained(),
        scene(P::Verifying).drained(),
        Scene {
            current: "b",
            ..scene(P::Finishing).drained()
        },
        Scene {
            current: "b",
            drained: Some("uncordon-b".to_owned()),
            ..scene(P::Finishing)
        },
        Scene::done("b"),
    ]
}

#[test]
fn update_with_a_reboot_shows_its_phases_in_order() {
    let written = written(&reboot());
    let shown: Vec<String> = written.iter().map(held).collect();
    let executed = "UpdatePrepared UpdateExecuted Cordoned Drained AppliedFilesAndOS";
    let booted = format!("{executed} UpdatePostActionComplete RebootedNode");
    assert_eq!(
        shown,
        [
            "Updated".to_owned(),
            "UpdatePrepared?".to_owned(),
            "UpdatePrepared UpdateExecuted? Cordoned? Drained?".to_owned(),
            "UpdatePrepared UpdateExecuted? Cordoned Drained?".to_owned(),
            "UpdatePrepared UpdateExecuted? Cordoned Drained AppliedFilesAndOS?".to_owned(),
            format!("{executed} UpdatePostActionComplete? RebootedNode?"),
            format!("{booted} UpdateComplete?"),
            format!("{booted} UpdateComplete? Uncordoned?"),
            format!("{booted} UpdateComplete Uncordoned Resumed"),
            "Updated".to_owned(),
        ]
    );
    let versions: Vec<_> = written.iter().map(versions).collect();
    assert_eq!(versions[..2], [(Some("a"), "a"); 2], "b is not judged yet");
    assert_eq!(versions[2..8], [(Some("a"), "b"); 6]);
    assert_eq!(versions[8..], [(Some("b"), "b"); 2]);
    let last = written.last().unwrap();
    assert_eq!(
        message(last, &Type::Drained),
        "UpdateExecutedDrained: Action during update to b: The node was drained for b"
    );
    assert_eq!(
        message(last, &Type::PinnedImageSetsDegraded),
        "NotYetOccurred: This node has not yet entered the PinnedImageSetsDegraded phase"
    );
}

#[test]
fn live_update_claims_neither_a_drain_nor_a_reboot() {
    let scene = |phase| Scene::working(phase, "a", "b");
    let shown = shown(&[
        Scene::done("a"),
        scene(P::Fetching),
        scene(P::Applying),
        scene(P::Verifying),
        Scene::done("b"),
    ]);
    let executed = "UpdatePrepared UpdateExecuted AppliedFilesAndOS UpdatePostActionComplete";
    assert_eq!(
        shown[2..],
        [
            "UpdatePrepared UpdateExecuted? AppliedFilesAndOS?".to_owned(),
            format!("{executed} UpdateComplete?"),
            format!("{executed} UpdateComplete Resumed"),
            "Updated".to_owned(),
        ]
    );
}

#[test]
fn a_phase_that_was_missed_is_implied_by_the_next() {
    for missed in 1..reboot().len() - 1 {
        let mut scenes = reboot();
        scenes.drain(1..=missed);
        let written = written(&scenes);
        let last_two: Vec<String> = written.iter().rev().take(2).map(held).collect();
        assert_eq!(last_two[0], "Updated", "without the first {missed}");
        assert!(
            last_two[1].ends_with("UpdateComplete Uncordoned Resumed")
                || last_two[1].ends_with("UpdateComplete Resumed"),
            "without the first {missed}: {}",
            last_two[1]
        );
    }
}

#[test]
fn update_that_was_called_off_completes_nothing() {
    let prepared = Scene::working(P::Draining, "a", "b").drained();
    let back = [
        Scene::working(P::Verifying, "a", "a"),
        Scene::working(P::Finishing, "a", "a"),
        Scene::done("a"),
    ];
    for begun in [Scene::working(P::Fetching, "a", "b"), prepared] {
        let mut scenes = vec![Scene::done("a"), begun];
        scenes.extend(back.clone());
        let shown = shown(&scenes);
        let text = shown.join("\n");
        assert!(!text.contains("UpdateComplete"), "{text}");
        assert!(!text.contains("AppliedFilesAndOS"), "{text}");
        assert_eq!(shown.last().unwrap(), "Updated");
    }
}

#[test]
fn an_older_target_that_is_reverted_is_not_taken_for_the_new_one() {
    let mut scenes = reboot();
    scenes.truncate(5);
    scenes.push(Scene {
        desired: "c",
        ..Scene::working(P::Applying, "a", "b").drained()
    });
    let before = written(&scenes[..5]);
    assert_eq!(written(&scenes), before);
    scenes.push(Scene::working(P::Fetching, "a", "c"));
    assert_eq!(shown(&scenes).last().unwrap(), "UpdatePrepared?");
}

#[test]
fn failure_is_shown_until_the_node_is_done_or_gets_another_target() {
    let scene = |phase| Scene::working(phase, "a", "b");
    let held_back = scene(P::Held).failed(NodeState::Degraded, "b failed on this node");
    let rejected = scene(P::Unreconcilable).failed(NodeState::Unreconcilable, "no room");
    let table = [
        (
            held_back,
            Type::NodeDegraded,
            "NodeDegraded: Node n upgrade failure. b failed on this node",
        ),
        (
            rejected,
            Type::UpdatePrepared,
            "UpdatePrepared: b is rejected: no room",
        ),
    ];
    for (failed, r#type, expected) in table {
        let mut scenes = vec![Scene::done("a"), scene(P::Fetching), failed];
        let seen = written(&scenes);
        let last = seen.last().unwrap();
        assert_eq!(message(last, &r#type), expected);
        assert!(held(last).contains("NodeDegraded"), "{}", held(last));
        assert!(!held(last).contains("Updated"), "{}", held(last));
        scenes.push(Scene::working(P::Fetching, "a", "c"));
        assert_eq!(shown(&scenes).last().unwrap(), "UpdatePrepared?");
    }
    let rolling = Scene {
        reason: "the kubelet did not start",
        ..scene(P::RollingBack)
    };
    let mut scenes = reboot();
    scenes.truncate(7);
    scenes.push(rolling);
    let seen = written(&scenes);
    assert_eq!(
        message(seen.last().unwrap(), &Type::UpdateComplete),
        "UpdateComplete: The node rolls back: the kubelet did not start"
    );
}

#[test]
fn node_that_was_not_met_yet_shows_that_nothing_has_occurred() {
    let mut node = Scene::done("a").node();
    node.annotations.clear();
    let status = next(&node, Some(1), &MachineConfigNodeStatus::default(), at(0));
    assert_eq!(held(&status), "");
    assert_eq!(status.conditions.len(), TYPES.len());
    assert_eq!(versions(&status), (None, NOT_YET_SET));
    assert_eq!(next(&node, Some(2), &status, at(1)), status);
}

#[test]
fn conditions_of_other_writers_and_times_of_what_stays_are_kept() {
    let mut before = written(&[Scene::done("a")]).pop().unwrap();
    let mut foreign = before.conditions[0].clone();
    foreign.r#type = Type::Other("InternalReleaseImageDegraded".to_owned());
    before.conditions.push(foreign.clone());
    let node = Scene::working(P::Fetching, "a", "b").node();
    let after = next(&node, Some(3), &before, at(60));
    assert_eq!(
        condition::find(&after.conditions, &foreign.r#type),
        Some(&foreign)
    );
    let time = |r#type| {
        condition::find(&after.conditions, &r#type)
            .unwrap()
            .last_transition_time
            .0
    };
    assert_eq!(time(Type::UpdatePrepared), at(60));
    assert_eq!(time(Type::Drained), at(0));
    assert_eq!(after.observed_generation, Some(3));
}

fn any_scene() -> impl Strategy<Value = Scene> {
    let configs = || prop::sample::select(vec!["a", "b", "c"]);
    let states = prop::sample::select(vec![
        NodeState::Done,
        NodeState::Working,
        NodeState::Degraded,
        NodeState::Unreconcilable,
    ]);
    let phases = prop::sample::select(P::ALL.to_vec());
    let drained = prop::option::of(configs().prop_map(|config| format!("drain-{config}")));
    (phases, states, configs(), configs(), drained, any::<bool>()).prop_map(
        |(phase, state, current, desired, drained, cordoned)| Scene {
            phase,
            state,
            reason: "why",
            current,
            desired,
            drained,
            cordoned,
        },
    )
}

proptest! {
    /// Whatever a Node says one after another: each is shown in at most two writes, and a node at
    /// rest shows `Updated` alone.
    #[test]
    fn any_history_settles(scenes in prop::collection::vec(any_scene(), 1..8)) {
        let mut scenes = scenes;
        scenes.push(Scene::done("a"));
        let written = written(&scenes);
        let last = written.last().unwrap();
        prop_assert_eq!(held(last), "Updated");
        prop_assert_eq!(versions(last), (Some("a"), "a"));
        for status in &written {
            prop_assert_eq!(status.conditions.len(), TYPES.len());
            let is_updated = held(status).contains("Updated");
            prop_assert!(!is_updated || held(status) == "Updated");
        }
    }
}
