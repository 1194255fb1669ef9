use proptest::prelude::*;

use super::*;
use crate::fixture::{node, pin_list};

const OLD: &str = "edge=1.aa";
const NEW: &str = "edge=2.aa";

/// The nodes that are assigned `list` now.
fn begun(list: &str, at_once: usize, nodes: &[NodeView]) -> Vec<String> {
    let members: Vec<&NodeView> = nodes.iter().collect();
    let round = PinRound::new(pin_list(list), &members, at_once);
    let assigned = members.iter().filter(|node| round.assigns(node).is_some());
    assigned.map(|node| node.name.clone()).collect()
}

#[test]
fn the_first_nodes_by_name_pull_and_the_next_follow_one_that_is_done() {
    let has = |name: &str, list: &str| node(name).pins(list, list, "");
    let pulls = |name: &str| node(name).pins(NEW, OLD, "");
    let waits = |name: &str| has(name, OLD);
    let reports = |name: &str, why: &str| node(name).pins(NEW, OLD, why);
    let all = ["c", "a", "b"].map(waits);
    assert_eq!(begun(NEW, usize::MAX, &all), ["c", "a", "b"]);
    assert_eq!(begun(NEW, 2, &all), ["a", "b"]);
    assert_eq!(begun(NEW, 0, &all), [""; 0]);
    for (first, expected) in [
        (pulls("a"), vec![]),
        (has("a", NEW), vec!["b"]),
        // No room is no turn; nor is it begun again.
        (reports("a", "NoRoom: x"), vec!["b"]),
        (reports("a", "Refused: x"), vec!["b"]),
        // It tries again.
        (reports("a", "Failed: x"), vec![]),
        (reports("a", "Else"), vec![]),
        // It may stay away.
        (pulls("a").unready(Unready::NotReady), vec!["b"]),
        (waits("a").unready(Unready::NotReady), vec!["b"]),
        // It takes no pods, and pulls.
        (pulls("a").unready(Unready::Unschedulable), vec![]),
        // What it has cannot be read, and it is assigned the list.
        (node("a").pins(NEW, "?", ""), vec![]),
        // What it was assigned cannot be read: it waits like others.
        (node("a").pins("?", "", ""), vec!["a"]),
    ] {
        let nodes = [first, waits("b"), waits("c")];
        assert_eq!(begun(NEW, 1, &nodes), expected, "{:?}", nodes[0].status);
    }
}

#[test]
fn a_node_that_pulls_keeps_its_turn_when_the_sets_change() {
    let waits = node("a");
    let pulls = node("b").pins(OLD, "", "");
    assert_eq!(begun(NEW, 1, &[waits.clone(), pulls.clone()]), ["b"]);
    // And above the limit: it pulls already.
    let both = [pulls, node("c").pins(OLD, "", "Failed: x"), waits];
    assert_eq!(begun(NEW, 1, &both), ["b", "c"]);
    // One without room tries the new sets, in its turn.
    let full = node("a").pins(OLD, "", "NoRoom: x");
    assert_eq!(begun(NEW, 1, &[full, node("b")]), ["a"]);
}

#[test]
fn sets_that_are_only_dropped_need_no_turn() {
    let both = "edge=2.aa,other=1.bb";
    let has_both = |name: &str| node(name).pins(both, both, "");
    let pulls = node("p").pins(both, "", "");
    assert_eq!(begun(NEW, 1, &[has_both("a"), has_both("b")]), ["a", "b"]);
    assert_eq!(begun("", 0, &[has_both("a"), pulls]), ["a", "p"]);
    // Another content of a set is no subset.
    assert_eq!(begun("edge=3.aa", 0, &[has_both("a")]), [""; 0]);
    // Nor is a set that is made again under its name.
    assert_eq!(begun("edge=2.cc", 0, &[has_both("a")]), [""; 0]);
    // Nothing differs, nothing is assigned.
    assert_eq!(begun(both, 9, &[has_both("a")]), [""; 0]);
    assert_eq!(begun("", 9, &[node("a")]), [""; 0]);
}

#[test]
fn nodes_without_a_daemon_and_leaving_ones_are_assigned_nothing() {
    let silent = node("a").reporting(|status| status.current_config = None);
    let leaving = NodeView {
        is_deleted: true,
        ..node("b")
    };
    // Nor do they take a turn.
    let held = leaving.clone().pins(NEW, "", "");
    assert_eq!(begun(NEW, 1, &[silent, leaving, node("c")]), ["c"]);
    assert_eq!(begun(NEW, 1, &[held, node("c")]), ["c"]);
}

#[test]
fn states_and_failures_of_a_node() {
    use PinState::{Failed, NoRoom, Pinned, Pulling, Refused, Waiting};
    for (node, state, failure_of) in [
        (node("a"), Waiting, None),
        (node("a").pins(OLD, OLD, ""), Waiting, None),
        (node("a").pins(NEW, OLD, ""), Pulling, None),
        (node("a").pins(NEW, NEW, "Failed: left over"), Pinned, None),
        (
            node("a").pins(NEW, "", "NoRoom: x"),
            NoRoom,
            Some("NoRoom: x"),
        ),
        (
            node("a").pins(NEW, "", "Failed: x"),
            Failed,
            Some("Failed: x"),
        ),
        (
            node("a").pins(NEW, "", "Refused: x"),
            Refused,
            Some("Refused: x"),
        ),
        (node("a").pins(NEW, "", "Else"), Failed, Some("Else")),
        // It is about what the node was assigned before.
        (
            node("a").pins(OLD, "", "NoRoom: x"),
            Waiting,
            Some("NoRoom: x"),
        ),
    ] {
        assert_eq!(
            PinState::of(&node, &pin_list(NEW)),
            state,
            "{:?}",
            node.status
        );
        assert_eq!(failure(&node).as_deref(), failure_of, "{:?}", node.status);
    }
    let none = pin_list("");
    assert_eq!(PinState::of(&node("a"), &none), Pinned);
}

prop_compose! {
    fn any_node(name: usize)(
        desired in prop::sample::select(vec!["", OLD, NEW, "edge=2.aa,b=1.bb", "?"]),
        current in prop::sample::select(vec!["", OLD, NEW, "edge=2.aa,b=1.bb", "?"]),
        why in prop::sample::select(vec!["", "NoRoom: x", "Failed: x", "Refused: x", "?"]),
        is_up in any::<bool>(),
    ) -> NodeView {
        let node = node(&format!("n{name}")).pins(desired, current, why);
        if is_up { node } else { node.unready(Unready::NotReady) }
    }
}

fn any_nodes() -> impl Strategy<Value = Vec<NodeView>> {
    (0..8_usize).prop_flat_map(|count| (0..count).map(any_node).collect::<Vec<_>>())
}

/// The nodes as the API server has them after a round.
fn after(nodes: &[NodeView], list: &str, at_once: usize) -> Vec<NodeView> {
    let begun = begun(list, at_once, nodes);
    let nodes = nodes.iter().cloned();
    nodes
        .map(|node| {
            if begun.contains(&node.name) {
                let mut node = node;
                node.status.desired_pins = Some(Reading::Known(pin_list(list)));
                node.status.desired_pins.take_if(|_| list.is_empty());
                node.status.not_pinned = None;
                node
            } else {
                node
            }
        })
        .collect()
}

proptest! {
    #[test]
    fn no_more_nodes_pull_than_may_or_did_before(
        nodes in any_nodes(),
        list in prop::sample::select(vec!["", OLD, NEW, "edge=2.aa,b=1.bb"]),
        at_once in 0..4_usize,
    ) {
        let pulling = |nodes: &[NodeView]| nodes.iter().filter(|node| is_pulling(node)).count();
        let before = pulling(&nodes);
        let first = after(&nodes, list, at_once);
        prop_assert!(pulling(&first) <= at_once.max(before));
        // A second round of the same nodes assigns nothing.
        prop_assert_eq!(begun(list, at_once, &first), Vec::<String>::new());
    }

    #[test]
    fn all_nodes_have_the_sets_in_the_end(
        nodes in any_nodes(),
        list in prop::sample::select(vec!["", OLD, NEW, "edge=2.aa,b=1.bb"]),
        at_once in 1..4_usize,
    ) {
        let mut nodes: Vec<NodeView> = nodes
            .into_iter()
            .map(|node| NodeView { unready: Vec::new(), ..node })
            .collect();
        for _ in 0..=nodes.len() {
            nodes = after(&nodes, list, at_once);
            for node in &mut nodes {
                // What was assigned is pulled, whatever was reported.
                node.status.current_pins = node.status.desired_pins.clone();
                node.status.not_pinned = None;
            }
        }
        let list = pin_list(list);
        for node in &nodes {
            prop_assert!(is_assigned(node, &list) && has(node, &list), "{:?}", node.status);
        }
    }
}
