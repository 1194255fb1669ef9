use api::machineconfiguration::node_status::DrainRequest;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{NEW, NOW, OLD, node, pool};
use crate::rollout::{NotAssigned, RolloutDecision, decide};
use crate::view::PoolView;

fn policy(spec: Value) -> RolloutPolicy {
    RolloutPolicy::parse(&serde_json::from_value(spec).unwrap()).unwrap()
}

fn worker(max: i64, spec: Value) -> PoolView {
    PoolView {
        policy: Some(policy(spec)),
        ..pool("worker", json!({ "maxUnavailable": max }))
    }
}

/// Updated so many minutes ago.
fn updated(name: &str, minutes: i64) -> NodeView {
    node(name).done(NEW).reporting(|status| {
        status.phase = Some(Reading::Known(PhaseName::Idle));
        status.since = Some(Reading::Known(NOW - SignedDuration::from_mins(minutes)));
    })
}

fn decided(pool: &PoolView, nodes: &[NodeView]) -> RolloutDecision {
    decide(pool, &nodes.iter().collect::<Vec<_>>(), NOW)
}

fn assigned(decision: &RolloutDecision) -> Vec<&str> {
    let assignments = decision.assignments.iter();
    assignments
        .map(|assignment| assignment.node.as_str())
        .collect()
}

fn why(decision: &RolloutDecision, node: &str) -> String {
    decision.not_assigned[node].to_string()
}

#[test]
fn no_node_goes_before_the_start() {
    let start = NOW + SignedDuration::from_hours(1);
    let pool = worker(2, json!({ "startAfter": start.to_string() }));
    let decision = decided(&pool, &[node("a"), node("b")]);
    assert_eq!(assigned(&decision), [""; 0]);
    assert_eq!(
        why(&decision, "a"),
        format!("the rollout policy starts at {start}")
    );
    assert_eq!(decision.wakes, Some(start));
    let pool = worker(2, json!({ "startAfter": NOW.to_string() }));
    let decision = decided(&pool, &[node("a"), node("b")]);
    assert_eq!(assigned(&decision), ["a", "b"]);
    assert_eq!(decision.wakes, None);
}

#[test]
fn a_node_that_is_out_for_an_older_target_goes_at_once() {
    let start = NOW + SignedDuration::from_hours(1);
    let pool = worker(1, json!({ "startAfter": start.to_string() }));
    let decision = decided(&pool, &[node("a"), node("b").working("rendered-worker-0")]);
    assert_eq!(assigned(&decision), ["b"]);
}

#[test]
fn others_follow_the_canaries_after_their_soak() {
    let pool = worker(3, json!({ "canaries": { "count": 2, "soak": "30m" } }));
    let names = ["a", "b", "c", "d"];
    let decision = decided(&pool, &names.map(node));
    assert_eq!(assigned(&decision), ["a", "b"]);
    assert_eq!(
        why(&decision, "c"),
        "the canaries of the rollout policy come first: a, b"
    );
    // One is back, one is on its way.
    let nodes = [
        updated("a", 90),
        node("b").working(NEW),
        node("c"),
        node("d"),
    ];
    let decision = decided(&pool, &nodes);
    assert_eq!(assigned(&decision), [""; 0]);
    assert_eq!(
        why(&decision, "c"),
        "the canaries of the rollout policy come first: b"
    );
    // The last of them decides how long they work.
    let nodes = [updated("a", 90), updated("b", 10), node("c"), node("d")];
    let decision = decided(&pool, &nodes);
    let until = NOW + SignedDuration::from_mins(20);
    assert_eq!(assigned(&decision), [""; 0]);
    assert_eq!(
        why(&decision, "d"),
        format!("the canaries of the rollout policy work until {until} first")
    );
    assert_eq!(decision.wakes, Some(until));
    let nodes = [updated("a", 90), updated("b", 30), node("c"), node("d")];
    let decision = decided(&pool, &nodes);
    assert_eq!(assigned(&decision), ["c", "d"]);
}

#[test]
fn canaries_that_fail_or_are_away_hold_the_others() {
    let spec = json!({ "canaries": { "nodeSelector": { "matchLabels": { "canary": "" } } } });
    let canary = |name: &str| {
        let mut node = node(name);
        node.labels.insert("canary".to_owned(), String::new());
        node
    };
    let pool = worker(3, spec);
    let decision = decided(&pool, &[node("a"), canary("b")]);
    assert_eq!(assigned(&decision), ["b"]);
    let decision = decided(&pool, &[node("a"), canary("b").failing(NEW)]);
    assert_eq!(assigned(&decision), [""; 0]);
    assert_eq!(
        why(&decision, "a"),
        "the canaries of the rollout policy come first: b"
    );
    // Without soak, a canary that another daemon runs suffices. With one, it must say since when.
    let done = canary("b").done(NEW);
    assert_eq!(assigned(&decided(&pool, &[node("a"), done.clone()])), ["a"]);
    let pool = worker(3, json!({ "canaries": { "soak": "1m" } }));
    let decision = decided(&pool, &[done, node("z")]);
    assert_eq!(
        why(&decision, "z"),
        "the canaries of the rollout policy do not say since when they are updated: b"
    );
    // A number above that of the nodes is all of them.
    let decision = decided(
        &worker(1, json!({ "canaries": { "count": 9 } })),
        &[node("a")],
    );
    assert_eq!(assigned(&decision), ["a"]);
}

#[test]
fn waves_follow_each_other() {
    let spec = json!({
        "canaries": {},
        "waves": [{ "size": "20%", "soak": "1h" }, { "size": 1 }],
    });
    let pool = worker(9, spec);
    let names = ["a", "b", "c", "d", "e", "f"];
    let steps: Vec<Vec<&str>> = {
        let nodes = names.map(node);
        let members: Vec<&NodeView> = nodes.iter().collect();
        let policy = pool.policy.as_ref().unwrap();
        let steps = policy.steps(NEW, &members, &pool.facts);
        let of = |step: &Step<'_>| {
            let nodes = step.nodes.iter();
            nodes
                .map(|node| names[usize::from(node.name.as_bytes()[0] - b'a')])
                .collect()
        };
        steps.iter().map(of).collect()
    };
    // A fifth of six is rounded up.
    assert_eq!(steps, [&["a"][..], &["b", "c"], &["d"], &["e", "f"]]);
    let mut nodes = names.map(node);
    nodes[0] = updated("a", 0);
    assert_eq!(assigned(&decided(&pool, &nodes)), ["b", "c"]);
    nodes[1] = updated("b", 60);
    nodes[2] = updated("c", 59);
    let decision = decided(&pool, &nodes);
    assert_eq!(assigned(&decision), [""; 0]);
    let until = NOW + SignedDuration::from_mins(1);
    assert_eq!(
        why(&decision, "f"),
        format!("the nodes of wave 1 of the rollout policy work until {until} first")
    );
    nodes[2] = updated("c", 60);
    assert_eq!(assigned(&decided(&pool, &nodes)), ["d"]);
    nodes[3] = updated("d", 0);
    assert_eq!(assigned(&decided(&pool, &nodes)), ["e", "f"]);
}

#[test]
fn a_rollout_is_halted_above_so_many_failures() {
    let nodes = |failed: usize| -> Vec<NodeView> {
        let all = ["a", "b", "c", "d"].iter().enumerate();
        all.map(|(place, name)| {
            if place < failed {
                node(name).failing(NEW)
            } else {
                node(name)
            }
        })
        .collect()
    };
    for (above, failed, halts) in [
        (json!(0), 0, false),
        (json!(0), 1, true),
        (json!(1), 1, false),
        (json!(1), 2, true),
        (json!("25%"), 1, false),
        (json!("25%"), 2, true),
        (json!("24%"), 1, true),
        (json!("100%"), 3, false),
    ] {
        let pool = worker(4, json!({ "haltAboveFailures": above }));
        let decision = decided(&pool, &nodes(failed));
        assert_eq!(decision.is_halted(), halts, "{above} {failed}");
    }
}

#[test]
fn nodes_go_in_the_order_of_the_policy() {
    let with = |name: &str, zone: &str, created: i64, rack: Option<&str>| {
        let mut node = node(name).zone_and_age(Some(zone), created);
        let rack = rack.map(|rack| ("example.com/rack".to_owned(), rack.to_owned()));
        node.labels.extend(rack);
        node
    };
    let nodes = [
        with("a", "z2", 3, Some("r1")),
        with("b", "z1", 1, None),
        with("c", "z1", 2, Some("r2")),
        node("d"),
    ];
    for (order, expected) in [
        (json!([]), ["b", "c", "a", "d"]),
        (json!(["newest"]), ["a", "c", "b", "d"]),
        (json!(["oldest"]), ["b", "c", "a", "d"]),
        (json!(["zone", "newest"]), ["c", "b", "a", "d"]),
        (json!(["label:example.com/rack"]), ["a", "c", "b", "d"]),
    ] {
        let pool = worker(9, json!({ "order": order }));
        assert_eq!(assigned(&decided(&pool, &nodes)), expected, "{order}");
    }
}

#[test]
fn nodes_with_fewer_blocked_pods_go_first_and_canaries_stay() {
    let spec = json!({ "order": ["fewestBlockedPods"], "canaries": {} });
    let mut pool = worker(9, spec);
    let blocked = |counts: &[(&str, usize)]| {
        let counts = counts.iter();
        counts
            .map(|(node, count)| ((*node).to_owned(), *count))
            .collect()
    };
    pool.facts.blocked_pods = blocked(&[("a", 2), ("b", 1), ("c", 1)]);
    let nodes = ["a", "b", "c", "d"].map(node);
    assert_eq!(assigned(&decided(&pool, &nodes)), ["d"]);
    // The canary has pods of others by now. It is the canary nevertheless.
    pool.facts.blocked_pods = blocked(&[("a", 2), ("b", 1), ("d", 7)]);
    let mut nodes = nodes;
    nodes[3] = node("d").working(NEW);
    let decision = decided(&pool, &nodes);
    assert_eq!(assigned(&decision), [""; 0]);
    nodes[3] = updated("d", 0);
    assert_eq!(assigned(&decided(&pool, &nodes)), ["c", "b", "a"]);
}

#[test]
fn nodes_go_in_windows_only() {
    // The time of decisions is a Tuesday, 22:13:20 in UTC.
    let window = |days: &[&str], start: &str, zone: &str| {
        json!({ "windows": [{
            "name": "night", "days": days, "start": start, "minutes": 60, "timeZone": zone
        }] })
    };
    for (days, start, zone, opens) in [
        (&["Tue"][..], "22:00", "UTC", None),
        (&[], "22:13", "UTC", None),
        (&["Tue"], "22:14", "UTC", Some("2023-11-14T22:14:00Z")),
        (&["Tue"], "21:00", "UTC", Some("2023-11-21T21:00:00Z")),
        (
            &["Wed"],
            "23:00",
            "Europe/Berlin",
            Some("2023-11-15T22:00:00Z"),
        ),
        (&["Tue"], "23:00", "Europe/Berlin", None),
    ] {
        let pool = worker(2, window(days, start, zone));
        let out = node("b").working("rendered-worker-0");
        let decision = decided(&pool, &[node("a"), out]);
        match opens {
            None => assert_eq!(assigned(&decision), ["b", "a"], "{days:?} {start} {zone}"),
            Some(opens) => {
                // What is out of service already goes on.
                assert_eq!(assigned(&decision), ["b"], "{days:?} {start} {zone}");
                let expected =
                    format!("no window of the rollout policy is open: night opens at {opens}");
                assert_eq!(why(&decision, "a"), expected);
                assert_eq!(decision.wakes, Some(opens.parse().unwrap()));
            }
        }
    }
}

#[test]
fn others_follow_while_the_analysis_passes() {
    let spec = json!({
        "canaries": {},
        "analysis": [{ "name": "errors", "query": "a" }, { "name": "latency", "query": "b" }],
    });
    let mut pool = worker(9, spec);
    let answer = |seconds: i64, answer: Result<bool, &str>| {
        let at = NOW - SignedDuration::from_secs(seconds);
        (at, answer.map_err(ToOwned::to_owned))
    };
    // The canaries need no analysis.
    assert_eq!(assigned(&decided(&pool, &["a", "b"].map(node))), ["a"]);
    let nodes = [updated("a", 0), node("b")];
    for (one, other, fault) in [
        (None, None, Some("errors: it was not asked yet")),
        (
            Some(answer(0, Ok(false))),
            Some(answer(0, Ok(true))),
            Some("errors: it answers 0"),
        ),
        (
            Some(answer(60, Ok(true))),
            Some(answer(0, Err("no route"))),
            Some("latency: it has no answer: no route"),
        ),
        (
            Some(answer(61, Ok(true))),
            Some(answer(0, Ok(true))),
            Some("errors: it was not asked yet"),
        ),
        (Some(answer(60, Ok(true))), Some(answer(0, Ok(true))), None),
    ] {
        let answers = [("a", one), ("b", other)].into_iter();
        let answers = answers.filter_map(|(query, answer)| Some((query.to_owned(), answer?)));
        pool.facts.answers = answers.collect();
        let decision = decided(&pool, &nodes);
        let Some(fault) = fault else {
            assert_eq!(assigned(&decision), ["b"]);
            continue;
        };
        assert_eq!(assigned(&decision), [""; 0], "{fault}");
        let expected = format!("the rollout policy analyses the canaries by the query {fault}");
        assert_eq!(why(&decision, "b"), expected);
        assert_eq!(decision.wakes, Some(NOW + SignedDuration::from_secs(30)));
    }
    // Once all are updated nothing is asked any more.
    pool.facts.answers.clear();
    let decision = decided(&pool, &[updated("a", 0), updated("b", 0)]);
    assert_eq!(decision.wakes, None);
}

/// Drained for the target since so many minutes.
fn draining(name: &str, minutes: i64) -> NodeView {
    let since = NOW - SignedDuration::from_mins(minutes);
    let node = node(name)
        .working(NEW)
        .unready(crate::node::Unready::Unschedulable);
    node.reporting(|status| {
        status.desired_drain = Some(Reading::Known(DrainRequest::Drain(NEW.to_owned())));
        status.drain_since = Some(Reading::Known(since));
        status.phase = Some(Reading::Known(PhaseName::Draining));
    })
}

fn given_up(decision: &RolloutDecision) -> Vec<&str> {
    let nodes = decision.quarantines.iter();
    nodes.map(|node| node.node.as_str()).collect()
}

#[test]
fn a_node_that_cannot_be_drained_is_given_up_and_passed_over() {
    let pool = worker(
        1,
        json!({ "quarantine": { "drainLimit": "30m" }, "canaries": {} }),
    );
    let decision = decided(&pool, &[draining("a", 29), node("b")]);
    assert_eq!(given_up(&decision), [""; 0]);
    assert_eq!(decision.wakes, Some(NOW + SignedDuration::from_mins(1)));
    let decision = decided(&pool, &[draining("a", 30), node("b")]);
    assert_eq!(given_up(&decision), ["a"]);
    assert_eq!(
        assigned(&decision),
        [""; 0],
        "it is out until that is written"
    );
    let claim = decision.claim(&pool, &[]);
    assert!(claim.nodes.contains_key("a"), "{claim:?}");
    // It runs what it ran, cordoned: even as a canary it holds nothing up.
    let mut quarantined = node("a").unready(crate::node::Unready::Unschedulable);
    quarantined.quarantined = Some(NEW.to_owned());
    let decision = decided(&pool, &[quarantined.clone(), node("b")]);
    assert_eq!(assigned(&decision), ["b"]);
    assert_eq!(
        why(&decision, "a"),
        format!(
            "could not be drained for MachineConfig {NEW} in time; it stays cordoned and is passed \
             over until it is uncordoned"
        )
    );
    // Only one is passed over at once; those beyond that hold the rollout.
    let decision = decided(&pool, &[quarantined.clone(), draining("b", 99), node("c")]);
    assert_eq!(given_up(&decision), [""; 0]);
    assert_eq!(assigned(&decision), [""; 0]);
    let spec = json!({ "quarantine": { "drainLimit": "30m", "maxNodes": "70%" } });
    let nodes = [quarantined.clone(), draining("b", 99), draining("c", 98)];
    assert_eq!(given_up(&decided(&worker(3, spec), &nodes)), ["b"]);
    // Uncordoned, it has its turn again.
    let mut uncordoned = quarantined;
    uncordoned.unready.clear();
    assert_eq!(assigned(&decided(&pool, &[uncordoned, node("b")])), ["a"]);
}

#[test]
fn a_drain_of_a_pool_that_is_paused_is_not_given_up() {
    let mut pool = worker(1, json!({ "quarantine": { "drainLimit": "30m" } }));
    let nodes = [draining("a", 99)];
    assert_eq!(given_up(&decided(&pool, &nodes)), ["a"]);
    pool.is_paused = true;
    assert_eq!(given_up(&decided(&pool, &nodes)), [""; 0]);
}

#[test]
fn a_halted_rollout_is_reverted_where_that_is_asked_for() {
    let spec = json!({ "returnOnHalt": true, "haltAboveFailures": 0 });
    let mut pool = worker(2, spec);
    let nodes = [
        node("a").done(NEW),
        node("b").failing(NEW),
        node("c").working(NEW),
        node("d"),
    ];
    // What all had before is not known: it is halted.
    let decision = decided(&pool, &nodes);
    assert_eq!(assigned(&decision), [""; 0]);
    assert!(decision.is_halted());
    pool.previous = Some(OLD.to_owned());
    let decision = decided(&pool, &nodes);
    // One that is on its way turns back at once. The one that failed takes the rest of the budget.
    assert_eq!(assigned(&decision), ["c", "b"]);
    assert_eq!(decision.goal.as_deref(), Some(OLD));
    assert!(decision.is_halted());
    assert_eq!(
        why(&decision, "d"),
        format!("the rollout was halted after failures, and nodes return to MachineConfig {OLD}")
    );
    pool.claim = decision.claim(&pool, &nodes.iter().collect::<Vec<_>>());
    assert_eq!(pool.claim.target, OLD);
    // The failures are gone, the mark stays: the others return, and none gets the target again.
    let nodes = ["a", "b", "c", "d"].map(|name| NodeView {
        resource_version: "2".to_owned(),
        ..node(name)
    });
    let mut nodes = nodes;
    nodes[0] = nodes[0].clone().done(NEW);
    assert_eq!(assigned(&decided(&pool, &nodes)), ["a"]);
    nodes[0] = nodes[0].clone().done(OLD);
    let decision = decided(&pool, &nodes);
    assert_eq!(assigned(&decision), [""; 0]);
    assert!(decision.is_halted());
    assert!(!pool.is_rolling());
    // A new target ends it, and so does a policy that does not ask for it any more.
    let next = PoolView {
        target: Some("rendered-worker-3".to_owned()),
        ..pool.clone()
    };
    let decision = decided(&next, &nodes);
    assert_eq!(assigned(&decision), ["a", "b"]);
    let claim = decision.claim(&next, &[]);
    assert!(claim.rejected.is_empty(), "{claim:?}");
    pool.policy = Some(policy(json!({})));
    assert_eq!(assigned(&decided(&pool, &nodes)), ["a", "b"]);
}

#[test]
fn a_node_that_the_rejected_configuration_broke_returns_and_a_cordon_is_left() {
    let mut pool = worker(1, json!({ "returnOnHalt": true, "haltAboveFailures": 0 }));
    pool.previous = Some(OLD.to_owned());
    let nodes = [
        node("a").done(NEW).unready(crate::node::Unready::NotReady),
        node("b")
            .done(NEW)
            .unready(crate::node::Unready::Unschedulable),
        node("c").failing(NEW),
    ];
    assert_eq!(assigned(&decided(&pool, &nodes)), ["a"]);
}

fn any_policy() -> impl Strategy<Value = Value> {
    let size = prop_oneof![
        (1..4_i64).prop_map(|nodes| json!(nodes)),
        (1..101_u32).prop_map(|percent| json!(format!("{percent}%"))),
    ];
    let soak = prop::sample::select(vec!["0s", "30m"]);
    let wave = (size, soak.clone()).prop_map(|(size, soak)| json!({ "size": size, "soak": soak }));
    let canaries = prop::option::of((1..3_i64, soak));
    (canaries, prop::collection::vec(wave, 0..3)).prop_map(|(canaries, waves)| {
        let mut policy = json!({ "waves": waves, "haltAboveFailures": "100%" });
        if let Some((count, soak)) = canaries {
            policy["canaries"] = json!({ "count": count, "soak": soak });
        }
        policy
    })
}

/// A node that waits, is on its way, failed, or was updated so many minutes ago.
fn any_state(name: String) -> impl Strategy<Value = NodeView> {
    (0..4_u8, 0..60_i64).prop_map(move |(state, minutes)| match state {
        0 => node(&name),
        1 => node(&name).working(NEW),
        2 => node(&name).failing(NEW),
        _ => updated(&name, minutes),
    })
}

fn any_nodes() -> impl Strategy<Value = Vec<NodeView>> {
    (0..9_usize).prop_flat_map(|count| {
        let nodes = (0..count).map(|number| any_state(format!("node-{number}")));
        nodes.collect::<Vec<_>>()
    })
}

proptest! {
    #[test]
    fn no_node_goes_before_the_steps_ahead_of_it_are_over(spec in any_policy(), nodes in any_nodes(), max in 1..9_i64) {
        let pool = worker(max, spec);
        let members: Vec<&NodeView> = nodes.iter().collect();
        let decision = decide(&pool, &members, NOW);
        let policy = pool.policy.as_ref().unwrap();
        let steps = policy.steps(NEW, &members, &pool.facts);
        let count: usize = steps.iter().map(|step| step.nodes.len()).sum();
        prop_assert_eq!(count, nodes.len(), "each node has one step");
        for (place, step) in steps.iter().enumerate() {
            let may_go = steps[..place].iter().all(|earlier| earlier.wait(NEW, NOW).is_none());
            for node in &step.nodes {
                let goes = assigned(&decision).contains(&node.name.as_str());
                prop_assert!(may_go || !goes, "{} goes", node.name);
                let is_held = matches!(decision.not_assigned.get(&node.name), Some(NotAssigned::Policy(_)));
                prop_assert!(!(may_go && is_held), "{} is held", node.name);
            }
        }
    }

    #[test]
    fn a_rollout_ends_if_its_nodes_do_not_fail(spec in any_policy(), count in 0..9_usize, max in 1..4_i64) {
        let pool = worker(max, spec);
        let mut nodes: Vec<NodeView> = (0..count).map(|number| node(&format!("node-{number}"))).collect();
        for _ in 0..=count {
            let decision = decided(&pool, &nodes);
            for node in &mut nodes {
                if assigned(&decision).contains(&node.name.as_str()) {
                    *node = updated(&node.name, 60);
                }
            }
        }
        prop_assert!(nodes.iter().all(|node| node.status.is_updated(NEW)));
        prop_assert!(nodes.iter().all(|node| !node.status.is_updated(OLD)));
    }
}
