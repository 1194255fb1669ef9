use api::machineconfiguration::PhaseName;
use api::machineconfiguration::node_status::DrainRequest;
use serde_json::json;

use super::*;
use crate::fixture::{NEW, NOW, assigned, decided, node, target, worker};
use crate::node::Unready;
use crate::rollout::RolloutDecision;
use crate::view::PoolView;

/// Drained for the target, since a day by its own clock, which is wrong.
fn draining(name: &str) -> NodeView {
    let node = node(name).working(NEW).unready(Unready::Unschedulable);
    node.reporting(|status| {
        status.desired_drain = Some(Reading::Known(DrainRequest::Drain(NEW.to_owned())));
        status.drain_since = Some(Reading::Known(NOW - SignedDuration::from_hours(24)));
        status.phase = Some(Reading::Known(PhaseName::Draining));
    })
}

/// A pool that gives up drains of 30 minutes and saw these, each since so many minutes.
fn pool_that_saw(max: i64, spec: serde_json::Value, drains: &[(&NodeView, i64)]) -> PoolView {
    let mut pool = worker(max, spec);
    for (_, minutes) in drains {
        let since = NOW - SignedDuration::from_mins(*minutes);
        let seen_by_then = drains.iter().filter(|(_, other)| other >= minutes);
        let nodes = seen_by_then.map(|(node, _)| *node);
        pool.facts.drains.note(&target(NEW), nodes, since);
    }
    pool
}

fn given_up(decision: &RolloutDecision) -> Vec<&str> {
    let nodes = decision.quarantines.iter();
    nodes.map(|node| node.node.as_str()).collect()
}

fn quarantined(name: &str) -> NodeView {
    let mut node = node(name).unready(Unready::Unschedulable);
    node.quarantined = Some(NEW.to_owned());
    node
}

#[test]
fn a_node_that_cannot_be_drained_is_given_up_and_passed_over() {
    let spec = || json!({ "quarantine": { "drainLimit": "30m" } });
    let nodes = [draining("a"), node("b")];
    let decision = decided(&pool_that_saw(1, spec(), &[(&nodes[0], 29)]), &nodes);
    assert_eq!(given_up(&decision), [""; 0]);
    assert_eq!(decision.wakes, Some(NOW + SignedDuration::from_mins(1)));
    let pool = pool_that_saw(1, spec(), &[(&nodes[0], 30)]);
    let decision = decided(&pool, &nodes);
    assert_eq!(given_up(&decision), ["a"]);
    assert_eq!(
        assigned(&decision),
        [""; 0],
        "it is out until that is written"
    );
    let claim = decision.claim(&pool, &[]);
    assert!(claim.nodes.contains_key("a"), "{claim:?}");
    // It runs what it ran, cordoned.
    let decision = decided(&pool, &[quarantined("a"), node("b")]);
    assert_eq!(assigned(&decision), ["b"]);
    assert_eq!(
        crate::fixture::why(&decision, "a"),
        format!(
            "could not be drained for MachineConfig {NEW} in time; it stays cordoned and is passed \
             over until it is uncordoned"
        )
    );
    // Only one is passed over at once; those beyond that hold the rollout.
    let nodes = [quarantined("a"), draining("b"), node("c")];
    let decision = decided(&pool_that_saw(1, spec(), &[(&nodes[1], 99)]), &nodes);
    assert_eq!(given_up(&decision), [""; 0]);
    assert_eq!(assigned(&decision), [""; 0]);
    let spec = json!({ "quarantine": { "drainLimit": "30m", "maxNodes": "70%" } });
    let nodes = [quarantined("a"), draining("b"), draining("c")];
    let pool = pool_that_saw(3, spec, &[(&nodes[1], 99), (&nodes[2], 98)]);
    assert_eq!(given_up(&decided(&pool, &nodes)), ["b"]);
    // Uncordoned, it has its turn again.
    let mut uncordoned = quarantined("a");
    uncordoned.unready.clear();
    let pool = worker(
        1,
        json!({ "quarantine": { "drainLimit": "30m" }, "canaries": {} }),
    );
    assert_eq!(assigned(&decided(&pool, &[uncordoned, node("b")])), ["a"]);
}

#[test]
fn a_drain_of_a_pool_that_is_paused_is_not_given_up() {
    let nodes = [draining("a")];
    let spec = json!({ "quarantine": { "drainLimit": "30m" } });
    let mut pool = pool_that_saw(1, spec, &[(&nodes[0], 99)]);
    assert_eq!(given_up(&decided(&pool, &nodes)), ["a"]);
    pool.is_paused = true;
    assert_eq!(given_up(&decided(&pool, &nodes)), [""; 0]);
}

#[test]
fn a_drain_began_when_it_was_first_seen() {
    let limit = Quarantine {
        limit: SignedDuration::from_mins(30),
        max: Amount::Nodes(1),
    };
    let later = |minutes: i64| NOW + SignedDuration::from_mins(minutes);
    let node = draining("a");
    let mut seen = SeenDrains::default();
    // The node's own time is a day old.
    assert_eq!(limit.overdue_at(&node, &target(NEW), &seen), None);
    seen.note(&target(NEW), [&node], NOW);
    seen.note(&target(NEW), [&node], later(5));
    assert_eq!(
        limit.overdue_at(&node, &target(NEW), &seen),
        Some(later(30))
    );
    // Another drain of the node, another target, and a clock that was set back.
    let again = node.clone().reporting(|status| {
        status.drain_since = Some(Reading::Unknown(String::new()));
    });
    seen.note(&target(NEW), [&again], later(6));
    assert_eq!(
        limit.overdue_at(&again, &target(NEW), &seen),
        Some(later(36))
    );
    assert_eq!(
        limit.overdue_at(&again, &target("rendered-worker-3"), &seen),
        None
    );
    seen.note(&target(NEW), [&again], NOW);
    assert_eq!(
        limit.overdue_at(&again, &target(NEW), &seen),
        Some(later(30))
    );
    // What is not drained any more is forgotten.
    seen.note(&target(NEW), [&crate::fixture::node("a")], later(1));
    assert_eq!(seen, SeenDrains::default());
}
