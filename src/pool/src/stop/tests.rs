use api::machineconfiguration::NodeHold;
use api::machineconfiguration::machine_config_pool::{PoolConditionReason, PoolConditionType};
use serde_json::{Value, json};

use super::*;
use crate::fixture::{
    NEW, NOW, OLD, assigned, decided, node, parse_pool, pin_list, policy, pool_object, updated, why,
};
use crate::node::{NodeView, Unready};
use crate::pins::PinRound;
use crate::rehearsal::rehearser;
use crate::status::{RenderResult, StatusInput, status};
use crate::view::PoolView;
use crate::write::{ClusterFacts, NodeWrite};

const BY_ALICE: &str = r#"{"by":"alice","since":"2026-11-30T07:15:00Z","reason":"kernel bug"}"#;
const SAID: &str = "by alice since 2026-11-30T07:15:00Z: kernel bug";

fn held(node: NodeView, reason: &str) -> NodeView {
    NodeView {
        hold: Some(NodeHold(reason.to_owned())),
        ..node
    }
}

fn object(max: i64, annotations: &Value) -> Value {
    let mut object = pool_object("worker", json!({ "maxUnavailable": max }));
    object["metadata"]["annotations"] = annotations.clone();
    object
}

fn pool(max: i64) -> PoolView {
    parse_pool(object(max, &json!({}))).1
}

fn stopped(max: i64) -> PoolView {
    parse_pool(object(max, &json!({ "slipway.dev/stop": BY_ALICE }))).1
}

/// Status, reason and message of the conditions `Updated`, `Updating` and `Waiting`.
fn conditions(pool: &PoolView, object: Value, nodes: &[NodeView]) -> [String; 3] {
    let (object, _) = parse_pool(object);
    let members: Vec<&NodeView> = nodes.iter().collect();
    let status = status(StatusInput {
        pool: &object,
        view: pool,
        members: &members,
        decision: &decided(pool, nodes),
        conflicts: &[],
        rendering: Some(RenderResult::Rendered),
        render_waits: None,
        unhandled: &[],
        pins: Ok(None),
        certificates: None,
        api_server: None,
        now: NOW,
    });
    [
        PoolConditionType::Updated,
        PoolConditionType::Updating,
        PoolConditionType::Waiting,
    ]
    .map(|r#type| {
        let condition = status.condition(&r#type).unwrap();
        let (status, reason) = (condition.status, &condition.reason);
        format!("{status} {reason} {}", condition.message)
    })
}

/// Whatever a node is, on hold it is assigned nothing new. What it was assigned goes on, and what
/// is out of service counts.
#[test]
fn node_on_hold_keeps_what_it_has() {
    const BEFORE: &str = "rendered-worker-0";
    let on_hold = "on hold: disk";
    let table: [(&str, NodeView, &str, &[&str]); 10] = [
        ("at rest", node("a"), on_hold, &[]),
        ("updated", updated("a"), "is updated", &[]),
        (
            "assigned, not begun",
            node("a").working(NEW).reporting(|it| it.state = None),
            "is being updated",
            &["a"],
        ),
        (
            "under way",
            node("a").working(NEW),
            "is being updated",
            &["a"],
        ),
        ("failed", node("a").failing(NEW), "failed to update", &[]),
        (
            "out for an older target",
            node("a").working(BEFORE),
            on_hold,
            &["a"],
        ),
        (
            "failed on an older target",
            node("a").failing(BEFORE),
            on_hold,
            &[],
        ),
        (
            "cordoned",
            node("a").unready(Unready::Unschedulable),
            on_hold,
            &["a"],
        ),
        (
            "not reported",
            node("a").reporting(|it| it.current_config = None),
            on_hold,
            &["a"],
        ),
        (
            "given up",
            NodeView {
                quarantined: Some(NEW.to_owned()),
                ..node("a").unready(Unready::Unschedulable)
            },
            "could not be drained for MachineConfig rendered-worker-2 in time; it stays cordoned \
             and is passed over until it is uncordoned",
            &[],
        ),
    ];
    for (case, node, expected, out) in table {
        let decision = decided(&pool(3), &[held(node, "disk")]);
        assert_eq!(assigned(&decision), [""; 0], "{case}");
        assert_eq!(why(&decision, "a"), expected, "{case}");
        assert_eq!(decision.out, out, "{case}");
    }
    let decision = decided(&pool(3), &[held(node("a"), "")]);
    assert_eq!(why(&decision, "a"), "on hold, without a reason");
    // A controller that knows no holds may have claimed it: it counts, and is not assigned.
    let mut claimed = pool(3);
    claimed.claim.nodes = [("a".to_owned(), "1".to_owned())].into();
    let decision = decided(&claimed, &[held(node("a"), "disk")]);
    assert_eq!(assigned(&decision), [""; 0]);
    assert_eq!(
        (why(&decision, "a").as_str(), &decision.out[..]),
        (on_hold, &["a".to_owned()][..])
    );
}

#[test]
fn hold_takes_none_of_the_budget_and_is_no_failure() {
    let nodes = [held(node("a"), "disk"), node("b"), node("c")];
    let decision = decided(&pool(1), &nodes);
    assert_eq!(assigned(&decision), ["b"]);
    assert!(decision.failed.is_empty() && !decision.is_halted());
    // One that is out anyway takes one.
    let nodes = [
        held(node("a").unready(Unready::NotReady), "disk"),
        node("b"),
    ];
    assert_eq!(assigned(&decided(&pool(1), &nodes)), [""; 0]);
    // So does one that may try again what failed on it.
    let nodes = [held(node("a").failing("rendered-worker-0"), ""), node("b")];
    let decision = decided(&pool(1), &nodes);
    assert_eq!(assigned(&decision), [""; 0]);
    assert_eq!(why(&decision, "b"), "1 may be out at once, failed: a");
    assert_eq!(assigned(&decided(&pool(2), &nodes)), ["b"]);
    // The node that the controller runs on waits for none that is on hold.
    let mut pool = pool(2);
    pool.leader = Some("b".to_owned());
    let nodes = [held(node("a"), ""), node("b")];
    assert_eq!(assigned(&decided(&pool, &nodes)), ["b"]);
}

#[test]
fn released_node_has_its_turn() {
    let nodes = [held(node("a"), "disk"), updated("b")];
    assert_eq!(assigned(&decided(&pool(1), &nodes)), [""; 0]);
    assert_eq!(
        assigned(&decided(&pool(1), &[node("a"), updated("b")])),
        ["a"]
    );
}

/// A return takes nodes out of service too, and so a hold wins over it.
#[test]
fn node_on_hold_does_not_return() {
    let mut pool = pool(4);
    pool.policy = Some(policy(
        json!({ "haltAboveFailures": 1, "returnOnHalt": true }),
    ));
    pool.previous = Some(crate::fixture::target(OLD));
    let nodes = [
        node("a").broken_by(NEW),
        held(node("b").broken_by(NEW), "to be examined"),
        held(updated("c"), "it works"),
        held(node("d"), "later"),
        node("e"),
    ];
    let decision = decided(&pool, &nodes);
    assert_eq!(decision.goal, Some(crate::fixture::target(OLD)));
    assert_eq!(assigned(&decision), ["a"]);
    assert_eq!(why(&decision, "b"), "on hold: to be examined");
    assert_eq!(why(&decision, "c"), "on hold: it works");
    // These never had what is reverted.
    for node in ["d", "e"] {
        assert!(why(&decision, node).starts_with("the rollout was halted after failures"));
    }
}

#[test]
fn canary_on_hold_holds_the_others_and_a_node_of_a_wave_does_not() {
    let with = |spec: Value| PoolView {
        policy: Some(policy(spec)),
        ..pool(9)
    };
    let nodes = ["a", "b", "c", "d"].map(node);
    let with_held = |held_one: usize| {
        let mut nodes = nodes.clone();
        nodes[held_one] = held(nodes[held_one].clone(), "disk");
        nodes
    };
    let canaries = with(json!({ "canaries": { "count": 1 } }));
    let decision = decided(&canaries, &with_held(0));
    assert_eq!(assigned(&decision), [""; 0]);
    assert_eq!(why(&decision, "a"), "on hold: disk");
    assert_eq!(
        why(&decision, "b"),
        "the canaries of the rollout policy come first: a (on hold)"
    );
    assert_eq!(assigned(&decided(&canaries, &with_held(1))), ["a"]);
    // It proves the configuration that it has.
    let mut nodes = with_held(0);
    nodes[0] = held(updated("a"), "disk");
    assert_eq!(assigned(&decided(&canaries, &nodes)), ["b", "c", "d"]);
    let waves = with(json!({ "waves": [{ "size": 1 }, { "size": 1 }] }));
    assert_eq!(assigned(&decided(&waves, &with_held(0))), ["b"]);
    let mut nodes = with_held(0);
    nodes[1] = updated("b");
    assert_eq!(assigned(&decided(&waves, &nodes)), ["c"]);
}

#[test]
fn node_on_hold_prepares_for_nothing() {
    let pool = pool(1);
    let patch = |node: &NodeView| {
        let write = NodeWrite::of(node, &pool, false, ClusterFacts::default());
        write.map(|write| write.to_patch())
    };
    assert_eq!(patch(&held(node("a"), "disk")), None);
    // What it was assigned before goes.
    let waits = |mut node: NodeView| {
        let write = NodeWrite::of(&node, &pool, false, ClusterFacts::default()).unwrap();
        node.taints = write.taints.unwrap();
        node.reporting(|status| status.next = Some(crate::fixture::named_target(NEW)))
    };
    assert_eq!(
        patch(&held(waits(node("a")), "disk")),
        Some(json!({
            "metadata": { "resourceVersion": "1", "annotations": { "slipway.dev/next-config": null } },
            "spec": { "taints": null }
        }))
    );
}

#[test]
fn node_on_hold_is_assigned_no_pinned_images() {
    let list = pin_list("a=1.0a1b2c3d");
    let fresh = node("a");
    let pulls = node("b").pins("b=1.0a1b2c3d", "", "");
    let has = node("c").pins("b=1.0a1b2c3d", "a=1.0a1b2c3d,b=1.0a1b2c3d", "");
    let assigns = |nodes: &[NodeView], at_once: usize| {
        let members: Vec<&NodeView> = nodes.iter().collect();
        let round = PinRound::new(list.clone(), &members, at_once);
        let next = members.into_iter();
        let next = next.filter(|node| round.assigns(node).is_some());
        next.map(|node| node.name.clone()).collect::<Vec<_>>()
    };
    let nodes = [fresh, pulls, has];
    assert_eq!(assigns(&nodes, 9), ["a", "b", "c"]);
    let all_held = nodes.clone().map(|node| held(node, "disk"));
    assert_eq!(assigns(&all_held, 9), [""; 0]);
    // What it pulls counts.
    let [fresh, pulls, _] = nodes;
    assert_eq!(assigns(&[fresh.clone(), held(pulls, "")], 1), [""; 0]);
    assert_eq!(assigns(&[fresh, held(node("d"), "")], 1), ["a"]);
}

#[test]
fn pool_whose_other_nodes_are_updated_says_so() {
    let all_but =
        format!("False  All other nodes are updated with MachineConfig {NEW}; 1 on hold: a");
    let nodes = [held(node("a"), "disk"), updated("b")];
    let [is_updated, updating, waits] = conditions(&pool(1), object(1, &json!({})), &nodes);
    assert_eq!(is_updated, "False  ");
    assert_eq!(updating, all_but);
    assert_eq!(waits, "True NodesOnHold a: on hold: disk");
    // Nodes that work, and one on hold that is away, are no state of rest.
    for nodes in [
        [held(node("a"), "disk"), node("b").working(NEW)],
        [
            held(node("a").unready(Unready::NotReady), "disk"),
            updated("b"),
        ],
        [
            held(node("a"), "disk"),
            updated("b").unready(Unready::NotReady),
        ],
    ] {
        let [_, updating, _] = conditions(&pool(1), object(1, &json!({})), &nodes);
        assert_eq!(
            updating,
            format!("True  All nodes are updating to MachineConfig {NEW}")
        );
    }
    // A hold on a node that has the configuration keeps no pool from being updated.
    let [is_updated, _, waits] = conditions(
        &pool(1),
        object(1, &json!({})),
        &[held(updated("a"), "disk"), updated("b")],
    );
    assert!(is_updated.starts_with("True"), "{is_updated}");
    assert!(waits.starts_with("False"), "{waits}");
}

#[test]
fn stopped_pool_begins_nothing_and_finishes_what_is_out() {
    let nodes = [
        node("a"),
        node("b").working(NEW),
        node("c").working("rendered-worker-0"),
        updated("d"),
        held(node("e"), "disk"),
    ];
    let decision = decided(&stopped(9), &nodes);
    assert_eq!(assigned(&decision), [""; 0]);
    let said = format!("the pool is stopped {SAID}");
    let expected = [said.as_str(), "is being updated", &said, "is updated"];
    for (node, expected) in ["a", "b", "c", "d"].into_iter().zip(expected) {
        assert_eq!(why(&decision, node), expected, "{node}");
    }
    assert_eq!(why(&decision, "e"), "on hold: disk");
    // Nor does a halted rollout return.
    let mut pool = stopped(3);
    pool.policy = Some(policy(
        json!({ "haltAboveFailures": 0, "returnOnHalt": true }),
    ));
    pool.previous = Some(crate::fixture::target(OLD));
    let failed = ["a", "b"].map(|name| node(name).broken_by(NEW));
    let decision = decided(&pool, &failed);
    assert_eq!(assigned(&decision), [""; 0]);
    pool.stops = PoolStops::default();
    assert_eq!(assigned(&decided(&pool, &failed)), ["a", "b"]);
}

#[test]
fn a_switch_names_itself_and_one_does_not_end_the_other() {
    let cluster = Some(StopSwitch::parse("soon"));
    let own = Some(StopSwitch::parse(BY_ALICE));
    let unread = "the cluster is stopped by annotation slipway.dev/stop, which cannot be read: \
                  expected value at line 1 column 1: \"soon\"";
    let table = [
        (None, None, String::new()),
        (None, own.clone(), format!("the pool is stopped {SAID}")),
        (cluster.clone(), None, unread.to_owned()),
        (
            cluster,
            own,
            format!("{unread}, and the pool is stopped {SAID}"),
        ),
    ];
    for (cluster, own, said) in table {
        let stops = PoolStops { cluster, pool: own };
        assert_eq!(stops.to_string(), said);
        assert_eq!(stops.are_set(), !said.is_empty());
        let mut pool = pool(1);
        pool.stops = stops;
        assert_eq!(
            assigned(&decided(&pool, &[node("a")])).is_empty(),
            !said.is_empty()
        );
        assert_eq!(pool.is_rolling(), said.is_empty());
        assert_eq!(pool.allows_assignments(), said.is_empty());
    }
}

/// A switch is shown whether or not a node waits for it, and before all else.
#[test]
fn stopped_pool_says_so_first() {
    let annotations = json!({ "slipway.dev/stop": BY_ALICE });
    let of = |nodes: &[NodeView]| conditions(&stopped(1), object(1, &annotations), nodes);
    let waits = format!(
        "True {} the pool is stopped {SAID}",
        PoolConditionReason::Stopped
    );
    let [is_updated, _, waiting] = of(&[updated("a")]);
    assert!(is_updated.starts_with("True"), "{is_updated}");
    assert_eq!(waiting, waits);
    let nodes = [node("a").unready(Unready::NotReady), node("b"), node("c")];
    let [_, updating, waiting] = of(&nodes);
    assert_eq!(
        updating,
        format!("False  Pool update stopped: the pool is stopped {SAID}")
    );
    assert_eq!(
        waiting,
        format!("True Stopped b, c: the pool is stopped {SAID}; a: the node is not ready")
    );
}

/// A rehearsal changes nothing, and a person asked for it: a stop lets it be.
#[test]
fn stopped_pool_rehearses() {
    let annotations = json!({ "slipway.dev/stop": BY_ALICE, "slipway.dev/rehearse": "c" });
    let pool = parse_pool(object(1, &annotations)).1;
    assert_eq!(rehearser(&pool, &[&updated("a")]), Some("a"));
}
