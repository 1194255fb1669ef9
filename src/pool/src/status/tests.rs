use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{self, NEW, OLD, node, parse_pool, pool_object};
use crate::hold::Hold;
use crate::image::PoolImageState;
use crate::node::Unready;
use crate::rollout::decide;

const NOW: i64 = 1_000;

struct Case {
    pool: Value,
    nodes: Vec<NodeView>,
    conflicts: Vec<Conflict>,
    rendering: Option<RenderResult>,
    render_waits: Option<&'static str>,
    hold: Option<Hold>,
    image: Option<PoolImage>,
    unhandled: Vec<String>,
}

impl Case {
    fn new(spec: Value, nodes: Vec<NodeView>) -> Self {
        Self {
            pool: pool_object("worker", spec),
            nodes,
            conflicts: Vec::new(),
            rendering: Some(RenderResult::Rendered),
            render_waits: None,
            hold: None,
            image: None,
            unhandled: Vec::new(),
        }
    }

    fn status(&self) -> MachineConfigPoolStatus {
        let (pool, mut view) = parse_pool(self.pool.clone());
        view.hold.clone_from(&self.hold);
        if let Some(image) = self.image.clone() {
            view.follow_image(image);
        }
        let members: Vec<&NodeView> = self.nodes.iter().collect();
        status(StatusInput {
            pool: &pool,
            view: &view,
            members: &members,
            decision: &decide(&view, &members, fixture::NOW),
            conflicts: &self.conflicts.iter().collect::<Vec<_>>(),
            rendering: self.rendering.clone(),
            render_waits: self.render_waits,
            unhandled: &self.unhandled,
            pins: Ok(None),
            certificates: None,
            api_server: None,
            now: Timestamp::from_second(NOW).unwrap(),
        })
    }
}

/// Status, reason and message of a condition.
fn condition(status: &MachineConfigPoolStatus, r#type: &str) -> (String, String, String) {
    let condition = status
        .condition(&PoolConditionType::from(r#type.to_owned()))
        .unwrap_or_else(|| panic!("no {type}"));
    (
        condition.status.to_string(),
        condition.reason.to_string(),
        condition.message.clone(),
    )
}

fn is(status: &MachineConfigPoolStatus, r#type: &str, expected: (&str, &str, &str)) {
    let (holds, reason, message) = condition(status, r#type);
    assert_eq!(
        (holds.as_str(), reason.as_str(), message.as_str()),
        expected,
        "{type}"
    );
}

fn counts(status: &MachineConfigPoolStatus) -> [i32; 5] {
    [
        status.machine_count,
        status.updated_machine_count,
        status.ready_machine_count,
        status.unavailable_machine_count,
        status.degraded_machine_count,
    ]
}

#[test]
fn counters_by_the_state_of_nodes() {
    let table = [
        (vec![], [0, 0, 0, 0, 0]),
        (vec![node("a")], [1, 0, 0, 0, 0]),
        (vec![node("a").done(NEW)], [1, 1, 1, 0, 0]),
        (
            vec![node("a").done(NEW).unready(Unready::NotReady)],
            [1, 1, 0, 1, 0],
        ),
        (vec![node("a").working(NEW)], [1, 0, 0, 1, 0]),
        (vec![node("a").failing(NEW)], [1, 0, 0, 0, 1]),
        (
            vec![node("a").failing(NEW).unready(Unready::Unschedulable)],
            [1, 0, 0, 1, 1],
        ),
        (vec![node("a").done(NEW).failing(NEW)], [1, 0, 0, 1, 1]),
    ];
    for (nodes, expected) in table {
        let status = Case::new(json!({}), nodes.clone()).status();
        assert_eq!(counts(&status), expected, "{nodes:?}");
        assert_eq!(status.observed_generation, Some(3));
    }
}

#[test]
fn updated_and_updating_as_upstream_words_them() {
    let done = format!("All nodes are updated with MachineConfig {NEW}");
    let updating = format!("All nodes are updating to MachineConfig {NEW}");
    let paused = format!("Pool is paused; will not update to MachineConfig {NEW}");
    let table = [
        (false, vec![], ("True", done.as_str()), ("False", "")),
        (
            false,
            vec![node("a").done(NEW)],
            ("True", &done),
            ("False", ""),
        ),
        (
            true,
            vec![node("a").done(NEW)],
            ("True", &done),
            ("False", ""),
        ),
        (false, vec![node("a")], ("False", ""), ("True", &updating)),
        (true, vec![node("a")], ("False", ""), ("False", &paused)),
        (
            false,
            vec![node("a").done(NEW).unready(Unready::NotReady)],
            ("False", ""),
            ("True", &updating),
        ),
        (
            false,
            vec![node("a").done(NEW), node("b").failing(NEW)],
            ("False", ""),
            ("True", &updating),
        ),
    ];
    for (is_paused, nodes, updated, updating) in table {
        let status = Case::new(json!({ "paused": is_paused }), nodes).status();
        is(&status, "Updated", (updated.0, "", updated.1));
        is(&status, "Updating", (updating.0, "", updating.1));
    }
}

#[test]
fn pool_without_configuration_is_neither() {
    let status = Case::new(json!({ "configuration": {} }), vec![node("a")]).status();
    is(&status, "Updated", ("False", "", ""));
    is(
        &status,
        "Updating",
        ("False", "", "Pool has no rendered MachineConfig yet"),
    );
    assert!(status.configuration.is_empty());
}

#[test]
fn configuration_follows_only_when_all_are_updated() {
    let configuration = json!({ "name": NEW, "source": [{ "name": "00-worker" }] });
    let before = json!({ "name": OLD, "source": [{ "name": "00-old" }] });
    let mut case = Case::new(
        json!({ "configuration": configuration }),
        vec![node("a").done(NEW), node("b")],
    );
    case.pool["status"] = json!({ "configuration": before });
    assert_eq!(
        serde_json::to_value(case.status().configuration).unwrap(),
        before
    );
    case.nodes[1] = node("b").done(NEW);
    assert_eq!(
        serde_json::to_value(case.status().configuration).unwrap(),
        configuration
    );
}

#[test]
fn failed_nodes_are_quoted() {
    let mut stuck = node("b").failing(NEW);
    stuck.status.reason = "no \"room\"".to_owned();
    let status = Case::new(json!({}), vec![node("a").failing(NEW), stuck, node("c")]).status();
    let message = "Node a is reporting: \"it broke\", Node b is reporting: \"no \\\"room\\\"\"";
    is(
        &status,
        "NodeDegraded",
        (
            "True",
            "2 nodes are reporting degraded status on sync",
            message,
        ),
    );
    is(&status, "Degraded", ("True", "", message));
    is(
        &status,
        "RolloutDegraded",
        (
            "True",
            "RolloutHalted",
            "rollout of MachineConfig rendered-worker-2 is halted after failures on a, b",
        ),
    );
    is(
        &status,
        "Waiting",
        (
            "True",
            "RolloutHalted",
            "c: the rollout is halted after failures on a, b",
        ),
    );
}

#[test]
fn many_long_reports_are_cut() {
    let nodes = (0..200).map(|index| {
        let mut node = node(&format!("node-{index}")).failing(NEW);
        node.status.reason = "x".repeat(2000);
        node
    });
    let (_, _, message) = condition(
        &Case::new(json!({}), nodes.collect()).status(),
        "NodeDegraded",
    );
    assert!(message.len() < MESSAGE_BYTES + 100, "{}", message.len());
    assert!(
        message.ends_with(", and 192 more"),
        "{}",
        &message[message.len() - 40..]
    );
}

#[test]
fn messages_are_bounded_however_many_causes_there_are() {
    let mut case = Case::new(json!({}), vec![node("a")]);
    case.conflicts = (0..5_000)
        .map(|number| Conflict {
            node: format!("node-{number}"),
            pools: vec!["gpu".to_owned(), "worker".to_owned()],
        })
        .collect();
    let mut one = node("b").failing(NEW);
    one.status.reason = "é".repeat(100_000);
    case.nodes.push(one);
    let (pool, view) = parse_pool(case.pool.clone());
    let members: Vec<&NodeView> = case.nodes.iter().collect();
    let mut decision = decide(&view, &members, fixture::NOW);
    decision.record_rejected((0..5_000).map(|number| {
        let node = format!("node-{number}");
        let why = format!("PATCH /api/v1/nodes/{node}: 403 Forbidden");
        (node, why)
    }));
    let status = status(StatusInput {
        pool: &pool,
        view: &view,
        members: &members,
        decision: &decision,
        conflicts: &case.conflicts.iter().collect::<Vec<_>>(),
        rendering: Some(RenderResult::Failed("x".repeat(100_000))),
        render_waits: None,
        unhandled: &vec!["KubeletConfig x".to_owned(); 5_000],
        pins: Ok(None),
        certificates: None,
        api_server: None,
        now: Timestamp::from_second(NOW).unwrap(),
    });
    for condition in &status.conditions {
        let length = condition.message.len();
        assert!(
            length <= MESSAGE_BYTES + 30,
            "{}: {length}",
            condition.r#type
        );
    }
    let (_, _, waiting) = condition(&status, "Waiting");
    assert!(waiting.ends_with(" more"), "{waiting}");
}

#[test]
fn held_pool_says_why_and_its_finished_nodes_stay_updated() {
    let why = Hold::MissingBase.to_string();
    let why = why.as_str();
    let mut case = Case::new(
        json!({ "paused": true }),
        vec![node("a").done(NEW), node("b")],
    );
    case.hold = Some(Hold::MissingBase);
    let held = case.status();
    is(&held, "Updated", ("False", "", ""));
    let stopped = format!("Pool update stopped: {why}");
    is(&held, "Updating", ("False", "", &stopped));
    is(&held, "RolloutDegraded", ("True", "MissingBase", why));
    is(&held, "Degraded", ("True", "", why));
    is(
        &held,
        "Waiting",
        ("True", "MissingBase", &format!("b: {why}")),
    );
    case.nodes.pop();
    let updated = format!("All nodes are updated with MachineConfig {NEW}");
    is(&case.status(), "Updated", ("True", "", &updated));
    is(
        &case.status(),
        "RolloutDegraded",
        ("True", "MissingBase", why),
    );
}

#[test]
fn what_has_no_effect_is_named_and_degrades_nothing() {
    let mut case = Case::new(json!({}), vec![node("a").done(NEW)]);
    let named = case.status();
    assert_eq!(named.condition(&PoolConditionType::Unsupported), None);
    case.unhandled = ["spec.osImageStream rhel-10", "KubeletConfig pods"]
        .map(ToOwned::to_owned)
        .into();
    let named = case.status();
    let why = "without effect, because nothing handles it: spec.osImageStream rhel-10, KubeletConfig pods";
    is(&named, "Unsupported", ("True", "NotImplemented", why));
    is(&named, "Degraded", ("False", "", ""));
    case.pool["status"] = serde_json::to_value(&named).unwrap();
    case.unhandled.clear();
    is(&case.status(), "Unsupported", ("False", "", ""));
}

#[test]
fn render_failure_is_copied_to_degraded_and_cleared() {
    let why = "Failed to render configuration for pool worker: MachineConfig 99-bad: storage.files[0].path: not absolute";
    let mut case = Case::new(json!({}), vec![node("a").done(NEW)]);
    case.rendering = Some(RenderResult::Failed(why.to_owned()));
    let failed = case.status();
    is(&failed, "RenderDegraded", ("True", "", why));
    is(&failed, "Degraded", ("True", "", why));
    is(
        &failed,
        "Updated",
        (
            "True",
            "",
            &format!("All nodes are updated with MachineConfig {NEW}"),
        ),
    );

    case.pool["status"] = serde_json::to_value(&failed).unwrap();
    case.rendering = None;
    assert_eq!(
        case.status(),
        failed,
        "an unknown rendering changes nothing"
    );
    case.rendering = Some(RenderResult::Rendered);
    is(&case.status(), "RenderDegraded", ("False", "", ""));
    is(&case.status(), "Degraded", ("False", "", ""));
}

#[test]
fn bad_budget_names_pool_field_and_value() {
    for (max, value) in [
        (json!(-1), "-1 is not a number of nodes"),
        (
            json!("abc"),
            "\"abc\" is neither a number nor a percentage such as \"10%\"",
        ),
    ] {
        let status = Case::new(json!({ "maxUnavailable": max }), vec![node("a")]).status();
        let message = format!("pool worker: spec.maxUnavailable: {value}");
        is(
            &status,
            "RolloutDegraded",
            ("True", "InvalidMaxUnavailable", &message),
        );
        is(&status, "Degraded", ("True", "", &message));
        assert_eq!(counts(&status), [1, 0, 0, 0, 0]);
    }
}

#[test]
fn selectors_and_conflicts_are_reported_together() {
    let mut case = Case::new(
        json!({ "nodeSelector": {}, "machineConfigSelector": { "matchExpressions": [{ "key": "a", "operator": "Near" }] } }),
        vec![],
    );
    case.conflicts = vec![Conflict {
        node: "a".to_owned(),
        pools: vec!["gpu".to_owned(), "infra".to_owned()],
    }];
    let (holds, reason, message) = condition(&case.status(), "RolloutDegraded");
    assert_eq!(
        (holds.as_str(), reason.as_str()),
        ("True", "InvalidSelector")
    );
    for part in [
        "spec.machineConfigSelector cannot be read",
        "spec.nodeSelector selects all nodes",
        "node a",
        "gpu, infra",
    ] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
}

#[test]
fn waiting_nodes_are_named_with_what_they_wait_for() {
    let nodes = vec![
        node("a"),
        node("b"),
        node("c"),
        node("d").unready(Unready::Unschedulable),
    ];
    let status = Case::new(json!({ "maxUnavailable": 2 }), nodes).status();
    is(
        &status,
        "Waiting",
        (
            "True",
            "Budget",
            "b, c: 2 may be out at once, out: a, d; d: the node is cordoned",
        ),
    );
    let status = Case::new(json!({ "paused": true }), vec![node("a"), node("b")]).status();
    is(
        &status,
        "Waiting",
        ("True", "Paused", "a, b: the pool is paused"),
    );
    let status = Case::new(json!({}), vec![node("a").working(NEW)]).status();
    is(&status, "Waiting", ("False", "", ""));
}

#[test]
fn status_of_an_unchanged_pool_does_not_change() {
    let mut case = Case::new(json!({}), vec![node("a").done(NEW), node("b").failing(NEW)]);
    let first = case.status();
    case.pool["status"] = serde_json::to_value(&first).unwrap();
    let second = case.status();
    assert_eq!(first, second);
}

fn image(state: PoolImageState) -> PoolImage {
    PoolImage {
        config: "worker".to_owned(),
        state,
    }
}

#[test]
fn a_pool_waits_for_its_image_and_a_failed_build_degrades_it() {
    let layered = format!("{NEW} os@1");
    let mut case = Case::new(json!({}), vec![node("a").done(NEW), node("b")]);
    case.image = Some(fixture::building("worker-1"));
    let status = case.status();
    is(&status, "Updated", ("False", "", ""));
    let waits = "Pool is waiting for OS image build to complete (mosb: worker-1)";
    is(&status, "Updating", ("True", "", waits));
    is(
        &status,
        "Waiting",
        (
            "True",
            "ImageMode",
            "a, b: the pool's OS image is not built: MachineOSBuild worker-1 is under way",
        ),
    );
    // Nothing is wrong with it.
    for r#type in ["RolloutDegraded", "ImageBuildDegraded", "Degraded"] {
        assert_eq!(condition(&status, r#type).0, "False", "{type}");
    }
    case.image = Some(image(PoolImageState::Failed {
        build: "worker-1".to_owned(),
        why: "RUN false: exit status 1".to_owned(),
    }));
    let failed = case.status();
    let why = "MachineOSBuild worker-1 failed: RUN false: exit status 1";
    is(&failed, "ImageBuildDegraded", ("True", "BuildFailed", why));
    is(&failed, "Degraded", ("True", "", why));
    let stopped = "Pool update stopped due to OS image build failure (mosb: worker-1)";
    is(&failed, "Updating", ("False", "", stopped));
    // A later build clears it, also of a pool that reported it.
    case.pool["status"] = serde_json::to_value(&failed).unwrap();
    case.image = Some(image(PoolImageState::Built {
        build: "worker-2".to_owned(),
        image: "os@1".to_owned(),
    }));
    let built = case.status();
    let cleared = ("False", "BuildSuccess", "Build completed successfully");
    is(&built, "ImageBuildDegraded", cleared);
    is(&built, "Degraded", ("False", "", ""));
    let applies = "Pool is waiting for nodes to apply OS image (mosb: worker-2)";
    is(&built, "Updating", ("True", "", applies));
    // A node with the configuration and another image is not updated.
    assert_eq!(counts(&built)[1], 0);
    case.nodes = vec![node("a").done(&layered)];
    let updated = format!("All nodes are updated with MachineConfig {NEW} / Image os@1");
    is(&case.status(), "Updated", ("True", "", &updated));
    is(&case.status(), "Updating", ("False", "", ""));
    case.rendering = Some(RenderResult::Failed("no".to_owned()));
    case.nodes = vec![node("a")];
    let paused = "Pool update paused due to degraded condition";
    is(&case.status(), "Updating", ("False", "", paused));
}

#[test]
fn failed_build_of_an_image_that_nothing_asks_for_is_cleared() {
    let mut case = Case::new(json!({}), vec![node("a").done(NEW)]);
    let build = json!({ "type": "ImageBuildDegraded", "status": "True", "lastTransitionTime": null, "reason": "BuildFailed", "message": "" });
    case.pool["status"] = json!({ "conditions": [build] });
    let cleared = case.status();
    let why = "No layered pool objects found, clearing stale build degraded condition";
    is(
        &cleared,
        "ImageBuildDegraded",
        ("False", "NoLayeredObjects", why),
    );
    is(&cleared, "Degraded", ("False", "", ""));
    case.pool["status"] = serde_json::to_value(&cleared).unwrap();
    assert_eq!(case.status(), cleared);
}

#[test]
fn completion_is_reported_once() {
    let done = Case::new(json!({}), vec![node("a").done(NEW)]).status();
    let rolling = Case::new(json!({}), vec![node("a")]).status();
    assert!(has_completed(Some(&rolling), &done));
    assert!(!has_completed(Some(&done), &done));
    assert!(!has_completed(Some(&done), &rolling));
    assert!(
        !has_completed(None, &done),
        "a new pool has completed nothing"
    );
}

#[test]
fn a_rendering_that_waits_is_named_before_the_nodes() {
    let why = "KubeletConfig pods has not completed: Error: no";
    let mut case = Case::new(json!({}), vec![node("a").done(NEW)]);
    case.rendering = None;
    case.render_waits = Some(why);
    let waits = format!("not rendered yet: {why}");
    is(&case.status(), "Waiting", ("True", "NotRendered", &waits));
    is(&case.status(), "Degraded", ("False", "", ""));
    case.pool["spec"]["paused"] = json!(true);
    case.nodes.push(node("b").done(OLD));
    let both = format!("{waits}; b: the pool is paused");
    is(&case.status(), "Waiting", ("True", "NotRendered", &both));
    case.render_waits = None;
    is(
        &case.status(),
        "Waiting",
        ("True", "Paused", "b: the pool is paused"),
    );
}

#[test]
fn a_failed_node_without_a_reason_is_named_and_quotes_nothing() {
    let mut silent = node("a").failing(NEW);
    silent.status.reason = String::new();
    let status = Case::new(json!({}), vec![silent, node("b").failing(NEW)]).status();
    let reason = "2 nodes are reporting degraded status on sync";
    let message = "Node a is reporting no reason, Node b is reporting: \"it broke\"";
    is(&status, "NodeDegraded", ("True", reason, message));
}
