use std::fmt::Write as _;
use std::sync::Arc;

use api::machineconfiguration::NodeState;
use api::machineconfiguration::node_status::Reading;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{NEW, NOW, OLD, building, named_target, node, pool, target};
use crate::hold::Hold;
use crate::node::Unready;

fn decide_for(spec: Value, nodes: &[NodeView]) -> RolloutDecision {
    let members: Vec<&NodeView> = nodes.iter().collect();
    decide(&pool("worker", spec), &members, NOW)
}

fn assigned(decision: &RolloutDecision) -> Vec<&str> {
    decision
        .assignments
        .iter()
        .map(|assignment| assignment.node.as_str())
        .collect()
}

fn why(decision: &RolloutDecision, node: &str) -> String {
    decision.not_assigned[node].to_string()
}

#[test]
fn one_node_at_a_time_by_default() {
    let nodes = [node("a"), node("b"), node("c")];
    let decision = decide_for(json!({}), &nodes);
    assert_eq!(assigned(&decision), ["a"]);
    assert_eq!(why(&decision, "b"), "1 may be out at once, out: a");
    assert_eq!(
        decision.not_assigned.len(),
        2,
        "every node that stays has a reason"
    );
}

#[test]
fn assigned_nodes_count_before_their_daemon_reports() {
    let mut first = node("a");
    first.status.desired_config = Some(NEW.to_owned());
    let decision = decide_for(
        json!({ "maxUnavailable": 2 }),
        &[first, node("b"), node("c")],
    );
    assert_eq!(assigned(&decision), ["b"]);
    assert_eq!(decision.not_assigned["a"], NotAssigned::Updating);
}

#[test]
fn claimed_nodes_count_until_their_object_changes() {
    let mut worker = pool("worker", json!({}));
    worker.claim.nodes.insert("b".to_owned(), "1".to_owned());
    let nodes = [node("a"), node("b")];
    let decision = decide(&worker, &[&nodes[0], &nodes[1]], NOW);
    assert_eq!(assigned(&decision), ["b"], "it is paid for already");
    assert_eq!(decision.assignments[0].impact, BudgetImpact::None);
    assert_eq!(decision.out, ["b"]);

    let changed = NodeView {
        resource_version: "2".to_owned(),
        ..node("b")
    };
    let decision = decide(&worker, &[&nodes[0], &changed], NOW);
    assert_eq!(assigned(&decision), ["a"]);
}

#[test]
fn a_round_keeps_what_may_still_happen() {
    let mut worker = pool("worker", json!({ "maxUnavailable": 2 }));
    worker.claim.nodes.insert("a".to_owned(), "1".to_owned());
    worker.claim.nodes.insert("gone".to_owned(), "1".to_owned());
    let moved = NodeView {
        resource_version: "7".to_owned(),
        ..node("b")
    };
    worker.claim.nodes.insert("b".to_owned(), "6".to_owned());
    let first = node("a");
    let members = [&first, &moved];
    let claim = decide(&worker, &members, NOW).claim(&worker, &members);
    assert_eq!(claim.target, NEW);
    let claimed: Vec<_> = claim
        .nodes
        .iter()
        .map(|(node, version)| (node.as_str(), version.as_str()))
        .collect();
    assert_eq!(claimed, [("a", "1"), ("b", "7")]);
}

#[test]
fn nodes_that_cannot_be_updated_stay_and_count() {
    let nodes = [
        node("a").unready(Unready::Unschedulable),
        node("b").unready(Unready::DiskPressure),
        node("c"),
    ];
    let decision = decide_for(json!({ "maxUnavailable": 2 }), &nodes);
    assert_eq!(assigned(&decision), [""; 0]);
    assert_eq!(why(&decision, "a"), "the node is cordoned");
    assert_eq!(why(&decision, "b"), "the node is under disk pressure");
    assert_eq!(why(&decision, "c"), "2 may be out at once, out: a, b");
    let decision = decide_for(json!({ "maxUnavailable": 3 }), &nodes);
    assert_eq!(assigned(&decision), ["c"]);
}

#[test]
fn node_whose_daemon_never_reported_is_not_assigned() {
    let silent = node("a").reporting(|status| {
        status.current_config = None;
        status.desired_config = None;
    });
    let decision = decide_for(json!({ "maxUnavailable": 3 }), &[silent]);
    assert_eq!(assigned(&decision), [""; 0]);
    assert_eq!(
        why(&decision, "a"),
        "its daemon has not reported a configuration (no currentConfig)"
    );
}

#[test]
fn paused_deleted_and_broken_pools_assign_no_node() {
    let nodes = [
        node("a"),
        node("b").working("rendered-worker-older"),
        node("c").working(NEW),
    ];
    for (spec, reason) in [
        (json!({ "paused": true }), "the pool is paused"),
        (
            json!({ "maxUnavailable": -1 }),
            "spec.maxUnavailable of the pool is invalid",
        ),
        (
            json!({ "maxUnavailable": "abc" }),
            "spec.maxUnavailable of the pool is invalid",
        ),
        (
            json!({ "configuration": {} }),
            "the pool has no configuration yet",
        ),
    ] {
        let decision = decide_for(spec, &nodes);
        assert_eq!(assigned(&decision), [""; 0]);
        assert_eq!(why(&decision, "a"), reason);
        assert_eq!(why(&decision, "b"), reason);
    }
    let mut deleted = pool("worker", json!({}));
    deleted.is_deleted = true;
    assert_eq!(assigned(&decide(&deleted, &[&nodes[0]], NOW)), [""; 0]);
}

#[test]
fn superseded_nodes_are_assigned_without_budget() {
    let nodes = [
        node("a")
            .working("rendered-worker-bad")
            .unready(Unready::NotReady),
        node("b").failing(OLD),
        node("c"),
    ];
    let decision = decide_for(json!({}), &nodes);
    assert_eq!(assigned(&decision), ["a", "b"]);
    assert_eq!(why(&decision, "c"), "1 may be out at once, out: a, b");
}

#[test]
fn node_that_failed_on_an_older_target_goes_first_and_needs_budget() {
    let nodes = [
        node("a"),
        node("b").failing("rendered-worker-bad"),
        node("c").working(NEW),
    ];
    let decision = decide_for(json!({}), &nodes);
    assert_eq!(
        assigned(&decision),
        [""; 0],
        "it is in service on what it ran before"
    );
    assert_eq!(
        why(&decision, "a"),
        "1 may be out at once, out: c, failed: b"
    );
    let decision = decide_for(json!({}), &nodes[..2]);
    assert_eq!(assigned(&decision), ["b"]);
    assert_eq!(decision.assignments[0].impact, BudgetImpact::UsesReserved);
    let decision = decide_for(json!({ "maxUnavailable": 2 }), &nodes[..2]);
    assert_eq!(assigned(&decision), ["b", "a"]);
}

#[test]
fn failures_on_the_target_halt_the_rollout() {
    let nodes = [node("a").failing(NEW), node("b"), node("c")];
    let decision = decide_for(json!({}), &nodes);
    assert_eq!(assigned(&decision), [""; 0]);
    assert!(decision.is_halted());
    assert_eq!(
        why(&decision, "b"),
        "the rollout is halted after failures on a"
    );
    assert_eq!(decision.not_assigned["a"], NotAssigned::Failed);

    let decision = decide_for(json!({ "maxUnavailable": 2 }), &nodes);
    assert_eq!(assigned(&decision), ["b"], "one of two is left");
}

#[test]
fn one_failure_of_two_is_no_halt() {
    let nodes = [
        node("a").failing(NEW),
        node("b").working(NEW),
        node("c"),
        node("d").failing("rendered-worker-bad"),
    ];
    let decision = decide_for(json!({ "maxUnavailable": 2 }), &nodes);
    assert_eq!(
        assigned(&decision),
        [""; 0],
        "a and d may try again at any time"
    );
    assert!(!decision.is_halted(), "it goes on once b is done");
    assert_eq!(
        why(&decision, "c"),
        "2 may be out at once, out: b, failed: a, d"
    );
    let mut nodes = nodes;
    nodes[1] = node("b").done(NEW);
    let decision = decide_for(json!({ "maxUnavailable": 2 }), &nodes);
    assert_eq!(assigned(&decision), ["d"], "the one that is kept for it");
}

/// The lists of names in the reasons of a decision, each counted once.
fn lists(decision: &RolloutDecision) -> usize {
    let mut lists = std::collections::BTreeSet::new();
    for reason in decision.not_assigned.values() {
        if let NotAssigned::Halted { failed, .. } | NotAssigned::Budget { failed, .. } = reason {
            lists.insert(Arc::as_ptr(failed));
        }
        if let NotAssigned::Budget { out, .. } = reason {
            lists.insert(Arc::as_ptr(out));
        }
    }
    lists.len()
}

#[test]
fn nodes_that_wait_share_lists_of_ten_names() {
    // Thirty are out, sixty failed on an older target, the others wait.
    let nodes: Vec<NodeView> = (0..400)
        .map(|number| {
            let node = node(&format!("n{number:03}"));
            match number {
                0..30 => node.working(NEW),
                30..90 => node.failing("rendered-worker-bad"),
                _ => node,
            }
        })
        .collect();
    let decision = decide_for(json!({ "maxUnavailable": 30 }), &nodes);
    assert_eq!(decision.waiting().count(), 370);
    assert_eq!(
        lists(&decision),
        13,
        "out; failed; one less; ten, each without its node"
    );
    let out = "30 may be out at once, out: n000, n001, n002, n003, n004, n005, n006, n007, n008, n009 and 20 more";
    let table = [
        (
            "n100",
            "n030, n031, n032, n033, n034, n035, n036, n037, n038, n039 and 50 more",
        ),
        (
            "n031",
            "n030, n032, n033, n034, n035, n036, n037, n038, n039, n040 and 49 more",
        ),
        (
            "n080",
            "n030, n031, n032, n033, n034, n035, n036, n037, n038, n039 and 49 more",
        ),
    ];
    for (name, failed) in table {
        assert_eq!(why(&decision, name), format!("{out}, failed: {failed}"));
    }
    let halted: Vec<NodeView> = (0..400)
        .map(|number| match number {
            0..30 => node(&format!("n{number:03}")).failing(NEW),
            _ => node(&format!("n{number:03}")),
        })
        .collect();
    let decision = decide_for(json!({ "maxUnavailable": 30 }), &halted);
    assert_eq!((decision.waiting().count(), lists(&decision)), (370, 1));
}

#[test]
fn a_failed_node_that_is_out_takes_one_of_the_budget() {
    let down = NodeView {
        unready: vec![Unready::NotReady],
        ..node("a").failing(NEW)
    };
    let nodes = [down, node("b")];
    let decision = decide_for(json!({ "maxUnavailable": 2 }), &nodes);
    assert_eq!(assigned(&decision), ["b"]);
}

#[test]
fn masters_and_an_arbiter_share_one_budget() {
    let master = |spec: Value| pool("master", spec);
    let arbiter = pool("arbiter", json!({}));
    let voters = [node("m0"), node("m1"), node("a0")];
    let all: Vec<&NodeView> = voters.iter().collect();
    let (masters, arbiters) = all.split_at(2);
    let first = decide_beside(&arbiter, arbiters, masters, NOW);
    assert_eq!(assigned(&first), ["a0"]);

    // From its assignment on no master goes; nor from its claim, which the master pool holds.
    let out = [node("a0").working(NEW)];
    let decision = decide_beside(
        &master(json!({ "maxUnavailable": "100%" })),
        masters,
        &[&out[0]],
        NOW,
    );
    assert_eq!(assigned(&decision), [""; 0]);
    assert_eq!(why(&decision, "m0"), "1 may be out at once, out: a0");
    let mut claimed = master(json!({}));
    claimed.claim = first.claim(&claimed, &all);
    let decision = decide_beside(&claimed, masters, arbiters, NOW);
    assert_eq!(assigned(&decision), [""; 0]);
    assert!(decision.claim(&claimed, &all).nodes.contains_key("a0"));

    // A master that is out, and one that may try again by itself, hold the arbiter.
    for other in [
        node("m0").unready(Unready::NotReady),
        node("m0").failing("rendered-master-2"),
    ] {
        let decision = decide_beside(&arbiter, arbiters, &[&other, &voters[1]], NOW);
        assert_eq!(assigned(&decision), [""; 0], "{:?}", decision.not_assigned);
    }

    // Of five voters etcd could lose two, and then no other.
    let more = [node("m2"), node("m3")];
    let masters = [masters, &[&more[0], &more[1]]].concat();
    let decision = decide_beside(
        &master(json!({ "maxUnavailable": 2 })),
        &masters,
        arbiters,
        NOW,
    );
    assert_eq!(assigned(&decision).len(), 1);
}

#[test]
fn node_that_the_controller_runs_on_goes_last() {
    let others_wait = "the controller runs on it, and other nodes of the pool wait";
    let with_host = |host: &str, nodes: &[NodeView]| {
        let mut pool = pool("master", json!({}));
        pool.leader = Some(host.to_owned());
        decide(&pool, &nodes.iter().collect::<Vec<_>>(), NOW)
    };
    let masters = [node("a"), node("b"), node("c")];
    let decision = with_host("a", &masters);
    assert_eq!(assigned(&decision), ["b"]);
    assert_eq!(why(&decision, "a"), others_wait);
    let decision = with_host("a", &[node("a"), node("b").working(NEW), node("c")]);
    assert_eq!(assigned(&decision), [""; 0]);
    assert_eq!(why(&decision, "a"), others_wait);
    // The last one, or the only one that waits.
    let last = [node("a"), node("b").done(NEW), node("c").done(NEW)];
    assert_eq!(assigned(&with_host("a", &last)), ["a"]);
    assert_eq!(assigned(&with_host("a", &last[..1])), ["a"]);
    // A node that cannot be assigned does not hold it up.
    let broken = [
        node("a"),
        node("b").done(NEW),
        node("c").unready(Unready::NotReady),
    ];
    let mut wide = pool("infra", json!({ "maxUnavailable": 3 }));
    wide.leader = Some("a".to_owned());
    let members: Vec<&NodeView> = broken.iter().collect();
    assert_eq!(assigned(&decide(&wide, &members, NOW)), ["a"]);
    // Where more may go at once, it still goes alone, and is not held while it is out.
    let all: Vec<&NodeView> = masters.iter().collect();
    assert_eq!(assigned(&decide(&wide, &all, NOW)), ["b", "c"]);
    let superseded = [node("a").working("rendered-worker-0"), node("b"), node("c")];
    let members: Vec<&NodeView> = superseded.iter().collect();
    assert_eq!(assigned(&decide(&wide, &members, NOW)), ["a", "b", "c"]);
}

#[test]
fn leftover_image_is_removed() {
    let layered = node("a").done(NEW).reporting(|status| {
        status.current_image = Some("image".to_owned());
        status.desired_image = Some("image".to_owned());
    });
    assert_eq!(assigned(&decide_for(json!({}), &[layered])), ["a"]);
}

#[test]
fn held_pool_assigns_no_node_and_keeps_its_claims() {
    let layered = node("a").done(NEW).reporting(|status| {
        status.current_image = Some("image".to_owned());
        status.desired_image = Some("image".to_owned());
    });
    // Out of service for an older target, failed, claimed: each would be assigned at once.
    let nodes = [
        layered,
        node("b").working("rendered-worker-0"),
        node("c").failing("rendered-worker-0"),
        node("d"),
    ];
    let members: Vec<&NodeView> = nodes.iter().collect();
    let mut worker = pool("worker", json!({ "maxUnavailable": "100%" }));
    worker.claim.nodes.insert("d".to_owned(), "1".to_owned());
    assert_eq!(decide(&worker, &members, NOW).assignments.len(), 4);
    worker.hold = Some(Hold::Image(building("worker-1")));
    let decision = decide(&worker, &members, NOW);
    assert_eq!(assigned(&decision), [""; 0]);
    for node in ["a", "b", "c", "d"] {
        let why = why(&decision, node);
        assert!(
            why.ends_with("MachineOSBuild worker-1 is under way"),
            "{why}"
        );
    }
    let claim = decision.claim(&worker, &members);
    assert!(claim.nodes.contains_key("d"));
}

#[test]
fn nodes_that_have_fetched_the_target_go_first() {
    let fetched = |name: &str, config: &str| {
        node(name).reporting(|status| status.fetched = Some(named_target(config)))
    };
    let nodes = [
        node("a").zone_and_age(Some("a"), 1),
        fetched("b", OLD),
        fetched("c", NEW).zone_and_age(Some("b"), 2),
        fetched("d", NEW).zone_and_age(Some("a"), 9),
    ];
    let decision = decide_for(json!({ "maxUnavailable": 2 }), &nodes);
    assert_eq!(assigned(&decision), ["d", "c"]);
}

#[test]
fn assignments_go_by_zone_then_age_then_name() {
    let nodes = [
        node("old-without-zone").zone_and_age(None, 1),
        node("b-young").zone_and_age(Some("b"), 9),
        node("b-old").zone_and_age(Some("b"), 2),
        node("a-young").zone_and_age(Some("a"), 8),
        node("a-twin-2").zone_and_age(Some("a"), 3),
        node("a-twin-1").zone_and_age(Some("a"), 3),
        node("young-without-zone").zone_and_age(None, 7),
    ];
    let decision = decide_for(json!({ "maxUnavailable": "100%" }), &nodes);
    assert_eq!(
        assigned(&decision),
        [
            "a-twin-1",
            "a-twin-2",
            "a-young",
            "b-old",
            "b-young",
            "old-without-zone",
            "young-without-zone"
        ]
    );
}

#[test]
fn example_of_the_documentation_is_what_is_decided() {
    type Change = fn(NodeView) -> NodeView;

    let spec = json!({ "maxUnavailable": 3 });
    let (zone_a, zone_b) = (Some("a"), Some("b"));
    let mut nodes = [
        node("w1").zone_and_age(zone_a, 1),
        node("w2").zone_and_age(zone_a, 2),
        node("w3").zone_and_age(zone_b, 4),
        node("w4").zone_and_age(zone_b, 3),
        node("w5").zone_and_age(None, 0),
    ];
    let mut text = String::new();
    let updated: Change = |node| node.done(NEW);
    let failed: Change = |node| node.failing(NEW);
    let nothing: Change = |node| node;
    for (line, changed, change) in [
        ("", &[][..], nothing),
        ("w1 is updated\n", &[0], updated),
        ("w2 fails\n", &[1], failed),
        ("w3 is updated\n", &[2], updated),
        ("w4, w5 are updated\n", &[3, 4], updated),
        ("w2 is updated\n", &[1], updated),
    ] {
        text.push_str(line);
        for index in changed {
            nodes[*index] = change(nodes[*index].clone());
        }
        let decision = decide_for(spec.clone(), &nodes);
        let assigned = assigned(&decision);
        if !assigned.is_empty() {
            writeln!(text, "assigned: {}", assigned.join(", ")).unwrap();
        }
        let mut waiting: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (node, reason) in decision.waiting() {
            waiting.entry(reason.to_string()).or_default().push(node);
        }
        for (reason, nodes) in waiting {
            writeln!(text, "  {}: {reason}", nodes.join(", ")).unwrap();
        }
        for assignment in &decision.assignments {
            let of = |node: &&mut NodeView| node.name == assignment.node;
            let found = nodes.iter_mut().find(of).unwrap();
            *found = found.clone().working(NEW);
        }
    }
    let page = include_str!("../../../../docs/reference/rollout-policy.md");
    assert!(page.contains(&format!("```\n{text}```\n")), "{text}");
}

#[test]
fn relabelled_node_counts_in_its_new_pool() {
    // Its former pool assigned it, and it is being updated.
    let nodes = [node("a").working("rendered-infra-1"), node("b")];
    let decision = decide_for(json!({}), &nodes);
    assert_eq!(assigned(&decision), ["a"]);
}

fn any_node(name: String) -> impl Strategy<Value = NodeView> {
    let configs = prop::sample::select(vec![OLD, NEW, "rendered-worker-bad"]);
    let desired = configs.clone();
    let state = prop::sample::select(vec!["Done", "Working", "Degraded", "Unreconcilable"]);
    let unready = prop::option::weighted(
        0.2,
        prop::sample::select(vec![
            Unready::NotReady,
            Unready::Unschedulable,
            Unready::DiskPressure,
        ]),
    );
    let zone = prop::option::of(prop::sample::select(vec!["a", "b"]));
    (
        configs,
        desired,
        state,
        unready,
        zone,
        0..4_i64,
        prop::bool::weighted(0.05),
    )
        .prop_map(
            move |(current, desired, state, unready, zone, created, layered)| {
                let mut view = node(&name).zone_and_age(zone, created);
                view.status.current_config = Some(current.to_owned());
                view.status.desired_config = Some(desired.to_owned());
                view.status.state = NodeState::parse(state).map(Reading::Known);
                view.unready = unready.into_iter().collect();
                view.status.desired_image = layered.then(|| "image".to_owned());
                view
            },
        )
}

fn any_nodes() -> impl Strategy<Value = Vec<NodeView>> {
    (0..8_usize).prop_flat_map(|count| {
        (0..count)
            .map(|index| any_node(format!("node-{index}")))
            .collect::<Vec<_>>()
    })
}

fn any_max() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-1..6_i64).prop_map(|number| json!(number)),
        (0..120_u8).prop_map(|percent| json!(format!("{percent}%"))),
        Just(json!("abc")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_budget_holds(nodes in any_nodes(), max in any_max(), claimed in prop::collection::vec(0..8_usize, 0..3)) {
        let mut worker = pool("worker", json!({ "maxUnavailable": max }));
        for index in claimed {
            worker.claim.nodes.insert(format!("node-{index}"), "1".to_owned());
        }
        let members: Vec<&NodeView> = nodes.iter().collect();
        let decision = decide(&worker, &members, NOW);
        let limit = decision.budget.clone().unwrap_or(0);
        // Counted again, in the order of the assignments, from what was read.
        let mut out: Vec<&str> = members
            .iter()
            .filter(|node| {
                node.is_out_of_service() || worker.claim.state_of(node) != ClaimState::Settled
            })
            .map(|node| node.name.as_str())
            .collect();
        for assignment in &decision.assignments {
            if !out.contains(&assignment.node.as_str()) {
                prop_assert!(out.len() < limit, "{} goes while {out:?} are out of {limit}", assignment.node);
                out.push(&assignment.node);
            }
        }
    }

    #[test]
    fn every_node_is_assigned_or_has_a_reason(nodes in any_nodes(), max in any_max(), paused in any::<bool>()) {
        let members: Vec<&NodeView> = nodes.iter().collect();
        let decision = decide(&pool("worker", json!({ "maxUnavailable": max, "paused": paused })), &members, NOW);
        for node in &members {
            let is_assigned = decision.assignments.iter().any(|assignment| assignment.node == node.name);
            prop_assert_ne!(is_assigned, decision.not_assigned.contains_key(&node.name), "{}", node.name);
            prop_assert!(!(is_assigned && node.status.is_assigned_to(&target(NEW))), "{} was assigned before", node.name);
        }
        prop_assert!(!paused || decision.assignments.is_empty());
    }

    #[test]
    fn the_order_of_reading_does_not_matter(nodes in any_nodes(), max in any_max()) {
        let worker = pool("worker", json!({ "maxUnavailable": max }));
        let members: Vec<&NodeView> = nodes.iter().collect();
        let reversed: Vec<&NodeView> = nodes.iter().rev().collect();
        prop_assert_eq!(decide(&worker, &members, NOW), decide(&worker, &reversed, NOW));
    }
}
