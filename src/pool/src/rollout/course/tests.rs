use api::machineconfiguration::PhaseName;
use api::machineconfiguration::node_status::{FailedIn, Reading};
use serde_json::json;

use crate::fixture::{NEW, OLD, assigned, decided, node, policy, target, updated, why, worker};
use crate::node::{NodeView, Unready};
use crate::view::PoolView;

#[test]
fn a_halted_rollout_is_reverted_where_that_is_asked_for() {
    let spec = json!({ "returnOnHalt": true, "haltAboveFailures": 0 });
    let mut pool = worker(2, spec);
    let nodes = [
        node("a").done(NEW),
        node("b").broken_by(NEW),
        node("c").working(NEW),
        node("d"),
        node("e").broken_by(NEW),
    ];
    // No configuration is recorded that all had before: it is halted.
    let decision = decided(&pool, &nodes);
    assert_eq!(assigned(&decision), [""; 0]);
    assert!(decision.is_halted());
    pool.previous = Some(target(OLD));
    let decision = decided(&pool, &nodes);
    // One that is on its way turns back at once. The one that failed takes the rest of the budget.
    assert_eq!(assigned(&decision), ["c", "b"]);
    assert_eq!(decision.goal, Some(target(OLD)));
    assert!(decision.is_halted());
    assert_eq!(
        why(&decision, "d"),
        format!("the rollout was halted after failures, and nodes return to MachineConfig {OLD}")
    );
    pool.claim = decision.claim(&pool, &nodes.iter().collect::<Vec<_>>());
    assert_eq!(pool.claim.target, OLD);
    // The failures are gone, the mark stays: the others return, and none gets the target again.
    let nodes = ["a", "b", "c", "d", "e"].map(|name| NodeView {
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
        target: Some(target("rendered-worker-3")),
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
    pool.previous = Some(target(OLD));
    let nodes = [
        node("a").done(NEW).unready(Unready::NotReady),
        node("b").done(NEW).unready(Unready::Unschedulable),
        node("c").broken_by(NEW),
        node("d").broken_by(NEW),
    ];
    assert_eq!(assigned(&decided(&pool, &nodes)), ["a"]);
}

/// A pool that returns to [`OLD`].
fn returning(max: i64, halt_above: usize) -> PoolView {
    let spec = json!({ "returnOnHalt": true, "haltAboveFailures": halt_above });
    PoolView {
        previous: Some(target(OLD)),
        ..worker(max, spec)
    }
}

/// A node on which the target failed in a phase.
fn failed_in(name: &str, config: &str, phase: PhaseName) -> NodeView {
    node(name).failing(NEW).reporting(|status| {
        status.failed_in = Some(Reading::Known(FailedIn {
            phase,
            target: target(config),
        }));
    })
}

#[test]
fn only_failures_after_the_apply_revert_what_was_updated() {
    for (name, third, returns) in [
        // The registry is away for the third node.
        ("fetch", failed_in("c", NEW, PhaseName::Fetching), false),
        ("drain", failed_in("c", NEW, PhaseName::Draining), false),
        ("apply", failed_in("c", NEW, PhaseName::Applying), false),
        ("check", failed_in("c", NEW, PhaseName::Verifying), true),
        ("held", failed_in("c", NEW, PhaseName::Held), true),
        // Of another configuration, and by a daemon that does not say.
        ("older", failed_in("c", OLD, PhaseName::Held), false),
        ("silent", node("c").failing(NEW), false),
    ] {
        let nodes = [updated("a"), node("b").broken_by(NEW), third, node("d")];
        let decision = decided(&returning(1, 0), &nodes);
        let goal = if returns { OLD } else { NEW };
        assert_eq!(decision.goal, Some(target(goal)), "{name}");
        assert!(decision.is_halted(), "{name}");
        if !returns {
            assert_eq!(assigned(&decision), [""; 0], "{name}");
            let expected = "the rollout is halted after failures on b, c; nodes return once 2 \
                            failed after it was applied, and 1 did";
            assert_eq!(why(&decision, "d"), expected, "{name}");
        }
    }
}

#[test]
fn one_node_does_not_revert_a_pool_of_three() {
    let broken = || node("c").broken_by(NEW);
    for (others, halt_above, broken, returns) in [
        (1, 0, vec![broken()], true),
        (2, 0, vec![broken()], false),
        (2, 0, vec![broken(), node("d").broken_by(NEW)], true),
        (2, 2, vec![broken(), node("d").broken_by(NEW)], false),
    ] {
        let names = ["a", "b"];
        let others = names.iter().take(others).map(|name| updated(name));
        let nodes: Vec<NodeView> = others.chain(broken).collect();
        let decision = decided(&returning(3, halt_above), &nodes);
        let is_back = decision.goal == Some(target(OLD));
        assert_eq!(is_back, returns, "{} nodes", nodes.len());
    }
}
