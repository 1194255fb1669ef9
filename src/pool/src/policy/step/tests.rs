use api::machineconfiguration::PhaseName;
use api::machineconfiguration::node_status::Reading;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{NEW, NOW, OLD, assigned, decided, node, target, updated, why, worker};
use crate::node::Unready;
use crate::rollout::{NotAssigned, decide};
use crate::view::PoolView;

/// The pool, whose controller saw a step work so many minutes ago.
fn that_saw(pool: &PoolView, step: usize, minutes: i64) -> PoolView {
    let seen = StepSeen {
        config: NEW.to_owned(),
        step,
        since: NOW - SignedDuration::from_mins(minutes),
    };
    let mut pool = pool.clone();
    pool.claim.seen.insert("worker".to_owned(), seen);
    pool
}

fn canary(name: &str) -> NodeView {
    let mut node = node(name);
    node.labels.insert("canary".to_owned(), String::new());
    node
}

fn quarantined(node: NodeView) -> NodeView {
    let mut node = node.unready(Unready::Unschedulable);
    node.quarantined = Some(NEW.to_owned());
    node
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
    let nodes = [updated("a"), node("b").working(NEW), node("c"), node("d")];
    let decision = decided(&pool, &nodes);
    assert_eq!(assigned(&decision), [""; 0]);
    assert_eq!(
        why(&decision, "c"),
        "the canaries of the rollout policy come first: b"
    );
    assert_eq!(decision.seen, None);
    // When the controller sees the last of them decides, not what they say of it.
    let says = |node: NodeView| {
        node.reporting(|status| {
            status.phase = Some(Reading::Known(PhaseName::Idle));
            status.since = Some(Reading::Known(NOW - SignedDuration::from_hours(24)));
        })
    };
    let nodes = [says(updated("a")), says(updated("b")), node("c"), node("d")];
    let decision = decided(&pool, &nodes);
    assert_eq!(assigned(&decision), [""; 0]);
    let until = NOW + SignedDuration::from_mins(30);
    assert_eq!(
        why(&decision, "d"),
        format!("the canaries of the rollout policy work until {until} first")
    );
    assert_eq!(decision.wakes, Some(until));
    assert!(decision.has_writes(), "that is remembered");
    let claim = decision.claim(&pool, &[]);
    assert_eq!(claim.seen, that_saw(&pool, 0, 0).claim.seen);
    // Another controller reads it, and has nothing to write.
    let decision = decided(&that_saw(&pool, 0, 10), &nodes);
    let until = NOW + SignedDuration::from_mins(20);
    assert_eq!(decision.wakes, Some(until));
    assert!(!decision.has_writes());
    assert_eq!(
        assigned(&decided(&that_saw(&pool, 0, 30), &nodes)),
        ["c", "d"]
    );
}

#[test]
fn what_was_seen_counts_for_its_target_and_time_only() {
    let pool = worker(3, json!({ "canaries": { "soak": "30m" } }));
    let nodes = [updated("a"), node("b")];
    let seen = that_saw(&pool, 0, 60);
    assert_eq!(assigned(&decided(&seen, &nodes)), ["b"]);
    let mut of_another = seen.clone();
    if let Some(seen) = of_another.claim.seen.get_mut("worker") {
        OLD.clone_into(&mut seen.config);
    }
    // One of the future was written by a clock that was wrong.
    for pool in [of_another, that_saw(&pool, 0, -1)] {
        let decision = decided(&pool, &nodes);
        assert_eq!(assigned(&decision), [""; 0]);
        assert!(decision.is_seen_anew);
        let claim = decision.claim(&pool, &[]);
        assert_eq!(claim.seen, that_saw(&pool, 0, 0).claim.seen);
    }
    // The canary is assigned the target once more: it has to work for the whole time again.
    let decision = decided(&seen, &[node("a"), node("b")]);
    assert_eq!(assigned(&decision), ["a"]);
    assert!(decision.claim(&seen, &[]).seen.is_empty());
    // One that is away for a while holds the others for that while.
    let away = updated("a").unready(Unready::NotReady);
    let decision = decided(&seen, &[away, node("b")]);
    assert_eq!(assigned(&decision), [""; 0]);
    assert_eq!(decision.seen, seen.claim.seen.get("worker").cloned());
    assert!(!decision.has_writes());
}

#[test]
fn a_pool_that_is_updated_remembers_nothing() {
    let pool = worker(
        3,
        json!({ "canaries": { "soak": "30m" }, "waves": [{ "size": 1 }] }),
    );
    let nodes = [
        updated("a"),
        updated("b"),
        updated("c"),
        quarantined(node("d")),
    ];
    let decision = decided(&pool, &nodes);
    assert!(!decision.has_writes());
    assert_eq!((decision.seen, decision.wakes), (None, None));
}

#[test]
fn canaries_that_fail_or_are_away_hold_the_others() {
    let spec = json!({ "canaries": { "nodeSelector": { "matchLabels": { "canary": "" } } } });
    let pool = worker(3, spec);
    let decision = decided(&pool, &[node("a"), canary("b")]);
    assert_eq!(assigned(&decision), ["b"]);
    for canary in [
        canary("b").failing(NEW),
        canary("b").done(NEW).unready(Unready::NotReady),
    ] {
        let decision = decided(&pool, &[node("a"), canary]);
        assert_eq!(assigned(&decision), [""; 0]);
        assert_eq!(
            why(&decision, "a"),
            "the canaries of the rollout policy come first: b"
        );
    }
    assert_eq!(
        assigned(&decided(&pool, &[node("a"), canary("b").done(NEW)])),
        ["a"]
    );
    // A number above that of the nodes is all of them.
    let decision = decided(
        &worker(1, json!({ "canaries": { "count": 9 } })),
        &[node("a")],
    );
    assert_eq!(assigned(&decision), ["a"]);
}

#[test]
fn canaries_that_select_no_node_hold_all() {
    let selector = json!({ "matchLabels": { "cannary": "" } });
    let spec = json!({
        "canaries": { "nodeSelector": selector, "soak": "24h" },
        "waves": [{ "size": 1, "soak": "1h" }],
        "analysis": [{ "name": "errors", "query": "a" }],
    });
    let decision = decided(&worker(3, spec), &[canary("a"), node("b")]);
    assert_eq!(assigned(&decision), [""; 0]);
    assert_eq!(
        why(&decision, "a"),
        "spec.canaries.nodeSelector of the rollout policy selects no node of the pool"
    );
    assert!(!decision.has_writes());
}

#[test]
fn the_next_node_takes_the_place_of_a_canary_that_is_given_up() {
    let by_count = json!({ "canaries": { "count": 1, "soak": "24h" } });
    let selector = json!({ "matchLabels": { "canary": "" } });
    let by_label = json!({ "canaries": { "nodeSelector": selector, "soak": "24h" } });
    for spec in [by_count, by_label] {
        let pool = worker(3, spec);
        let canary = quarantined(canary("a"));
        let decision = decided(&pool, &[canary.clone(), node("b"), node("c"), node("d")]);
        assert_eq!(assigned(&decision), ["b"]);
        let nodes = [canary.clone(), updated("b"), node("c"), node("d")];
        let decision = decided(&pool, &nodes);
        assert_eq!(assigned(&decision), [""; 0], "it works for a day first");
        let pool = that_saw(&pool, 0, 24 * 60);
        assert_eq!(assigned(&decided(&pool, &nodes)), ["c", "d"]);
    }
}

#[test]
fn waves_follow_each_other() {
    let spec = json!({
        "canaries": {},
        "waves": [{ "size": "20%", "soak": "1h" }, { "size": 1 }],
    });
    let pool = worker(9, spec);
    let names = ["a", "b", "c", "d", "e", "f"];
    let nodes = names.map(node);
    let members: Vec<&NodeView> = nodes.iter().collect();
    let policy = pool.policy.as_ref().unwrap();
    let steps = policy.steps(&target(NEW), &members, &pool.facts);
    let of = |step: &Step<'_>| step.nodes.iter().map(|node| node.name.clone()).collect();
    let steps: Vec<Vec<String>> = steps.iter().map(of).collect();
    // A fifth of six is rounded up.
    assert_eq!(steps, [&["a"][..], &["b", "c"], &["d"], &["e", "f"]]);
    let mut nodes = names.map(node);
    nodes[0] = updated("a");
    assert_eq!(assigned(&decided(&pool, &nodes)), ["b", "c"]);
    nodes[1] = updated("b");
    nodes[2] = updated("c");
    let pool = that_saw(&pool, 1, 59);
    let decision = decided(&pool, &nodes);
    assert_eq!(assigned(&decision), [""; 0]);
    let until = NOW + SignedDuration::from_mins(1);
    assert_eq!(
        why(&decision, "f"),
        format!("the nodes of wave 1 of the rollout policy work until {until} first")
    );
    let pool = that_saw(&pool, 1, 60);
    assert_eq!(assigned(&decided(&pool, &nodes)), ["d"]);
    nodes[3] = updated("d");
    assert_eq!(assigned(&decided(&pool, &nodes)), ["e", "f"]);
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

/// A node that waits, is on its way, failed, was given up, or is updated.
fn any_state(name: String) -> impl Strategy<Value = NodeView> {
    (0..5_u8).prop_map(move |state| match state {
        0 => node(&name),
        1 => node(&name).working(NEW),
        2 => node(&name).failing(NEW),
        3 => quarantined(node(&name)),
        _ => updated(&name),
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
    fn no_node_goes_before_the_steps_ahead_of_it_are_over(
        spec in any_policy(),
        nodes in any_nodes(),
        max in 1..9_i64,
        seen in prop::option::of((0..4_usize, 0..60_i64)),
    ) {
        let mut pool = worker(max, spec);
        if let Some((step, minutes)) = seen {
            pool = that_saw(&pool, step, minutes);
        }
        let members: Vec<&NodeView> = nodes.iter().collect();
        let decision = decide(&pool, &members, NOW);
        let policy = pool.policy.as_ref().unwrap();
        let steps = policy.steps(&target(NEW), &members, &pool.facts);
        let count: usize = steps.iter().map(|step| step.nodes.len()).sum();
        prop_assert_eq!(count, nodes.len(), "each node has one step");
        let has_soaked = |number: usize, step: &Step<'_>| {
            let minutes = seen.filter(|(seen, _)| *seen == number).map(|(_, minutes)| minutes);
            step.soak.is_zero()
                || seen.is_some_and(|(seen, _)| seen > number)
                || minutes.is_some_and(|it| SignedDuration::from_mins(it) >= step.soak)
        };
        for (place, step) in steps.iter().enumerate() {
            let mut earlier = steps[..place].iter().enumerate();
            let may_go = earlier.all(|(number, it)| it.wait(&target(NEW)).is_none() && has_soaked(number, it));
            for node in &step.nodes {
                let goes = assigned(&decision).contains(&node.name.as_str());
                prop_assert!(may_go || !goes, "{} goes", node.name);
                let is_held = matches!(decision.not_assigned.get(&node.name), Some(NotAssigned::Policy(_)));
                prop_assert!(!(may_go && is_held), "{} is held", node.name);
                prop_assert!(!goes || place == 0 || steps[..place].iter().any(|it| !it.nodes.is_empty()));
            }
        }
    }

    #[test]
    fn a_rollout_ends_if_its_nodes_do_not_fail(spec in any_policy(), count in 0..9_usize, max in 1..4_i64) {
        let mut pool = worker(max, spec);
        let mut nodes: Vec<NodeView> = (0..count).map(|number| node(&format!("node-{number}"))).collect();
        let mut now = NOW;
        for _ in 0..=count + 4 {
            let members: Vec<&NodeView> = nodes.iter().collect();
            let decision = decide(&pool, &members, now);
            pool.claim.seen = decision.claim(&pool, &members).seen;
            now += SignedDuration::from_mins(30);
            for node in &mut nodes {
                if assigned(&decision).contains(&node.name.as_str()) {
                    *node = updated(&node.name);
                }
            }
        }
        prop_assert!(nodes.iter().all(|node| node.status.is_updated(&target(NEW))));
        prop_assert!(nodes.iter().all(|node| !node.status.is_updated(&target(OLD))));
    }
}
