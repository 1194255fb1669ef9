use api::machineconfiguration::machine_config_pool::PoolCondition;
use serde_json::json;

use super::*;
use crate::fixture::{NEW, NOW, node, pin_list, pool, updated};
use crate::node::Unready;
use crate::pinned_sets::selected;

const LIST: &str = "edge=2.aa";

/// Counters after these: machines, updated, ready, available, unavailable, and the generation.
fn counted(
    synchronizers: &mut Vec<PoolSynchronizerStatus>,
    list: &str,
    generation: i64,
    nodes: &[NodeView],
) -> Option<([i64; 5], Option<i64>)> {
    let mut view = pool("worker", json!({}));
    view.generation = Some(generation);
    let members: Vec<&NodeView> = nodes.iter().collect();
    count(synchronizers, &pin_list(list), &view, &members);
    let [counts] = &synchronizers[..] else {
        assert!(synchronizers.is_empty(), "{synchronizers:?}");
        return None;
    };
    assert_eq!(counts.pool_synchronizer_type, "PinnedImageSets");
    let numbers = [
        counts.machine_count,
        counts.updated_machine_count,
        counts.ready_machine_count,
        counts.available_machine_count,
        counts.unavailable_machine_count,
    ];
    // The rules of the API server.
    assert!(
        numbers[1..].iter().all(|number| *number <= numbers[0]),
        "{numbers:?}"
    );
    assert!(numbers[2] <= numbers[3], "{numbers:?}");
    Some((numbers, counts.observed_generation))
}

#[test]
fn nodes_are_counted_by_what_lies_on_them_once_there_is_a_set() {
    let done = |name: &str| updated(name).pins(LIST, LIST, "");
    let pulls = |name: &str| updated(name).pins(LIST, "", "");
    let table = [
        (vec![done("a"), pulls("b")], [2, 1, 1, 2, 0]),
        (vec![updated("a")], [1, 0, 0, 1, 0]),
        // It has the images, and is out.
        (vec![done("a").unready(Unready::NotReady)], [1, 1, 0, 0, 1]),
        // An update of its configuration is under way.
        (
            vec![node("a").working(NEW).pins(LIST, LIST, "")],
            [1, 1, 0, 0, 1],
        ),
        // More lies on it than is asked for.
        (
            vec![updated("a").pins(LIST, "edge=2.aa,old=1.bb", "")],
            [1, 1, 1, 1, 0],
        ),
        // An older content.
        (
            vec![updated("a").pins(LIST, "edge=1.aa", "")],
            [1, 0, 0, 1, 0],
        ),
        // A value that cannot be read is none.
        (vec![updated("a").pins(LIST, "edge", "")], [1, 0, 0, 1, 0]),
        (vec![], [0, 0, 0, 0, 0]),
    ];
    for (nodes, expected) in table {
        let counts = counted(&mut Vec::new(), LIST, 3, &nodes);
        assert_eq!(
            counts.map(|(counts, _)| counts),
            Some(expected),
            "{nodes:?}"
        );
    }
    assert_eq!(counted(&mut Vec::new(), "", 3, &[updated("a")]), None);
}

#[test]
fn its_generation_follows_when_all_nodes_are_updated_and_never_falls() {
    let mut kept = Vec::new();
    let done = updated("a").pins(LIST, LIST, "");
    let pulls = updated("b").pins(LIST, "", "");
    let mut step = |list: &str, generation: i64, nodes: &[NodeView]| {
        counted(&mut kept, list, generation, nodes).unwrap().1
    };
    assert_eq!(step(LIST, 3, &[done.clone(), pulls.clone()]), None);
    assert_eq!(step(LIST, 3, std::slice::from_ref(&done)), Some(3));
    assert_eq!(step(LIST, 5, &[done.clone(), pulls]), Some(3));
    assert_eq!(step(LIST, 2, &[done]), Some(3));
    // The last set goes, and the counters stay.
    assert_eq!(step("", 6, &[updated("a")]), Some(6));
}

fn found(unpopulated: Option<&UnpopulatedPins>, nodes: &[NodeView]) -> (String, String, String) {
    let members: Vec<&NodeView> = nodes.iter().collect();
    let PoolCondition {
        r#type,
        status,
        reason,
        message,
        ..
    } = degraded(unpopulated, &members).at(NOW);
    assert_eq!(r#type, PoolConditionType::PinnedImageSetsDegraded);
    (status.to_string(), reason.to_string(), message)
}

#[test]
fn each_node_that_cannot_pin_is_named_and_slow_ones_are_not() {
    let fine = ("False".to_owned(), String::new(), String::new());
    let failing = |name: &str, why: &str| updated(name).pins(LIST, "", why);
    let nodes = [
        updated("a"),
        failing("slow", ""),
        // Left over from before it succeeded.
        updated("done").pins(LIST, LIST, "Failed: old"),
        // Of sets that it is assigned no more.
        updated("free").pins("", "", "NoRoom: old"),
    ];
    assert_eq!(found(None, &nodes), fine);
    let nodes = [
        failing("b", "NoRoom: set edge: 5 bytes lack"),
        failing("c", "Failed: 503"),
        failing("d", "Refused: set edge is gone"),
        // Of another version of the daemon.
        failing("e", "Lost"),
    ];
    let message = "Node b is reporting: \"NoRoom: set edge: 5 bytes lack\", \
        Node c is reporting: \"Failed: 503\", Node d is reporting: \"Refused: set edge is gone\", \
        Node e is reporting: \"Lost\"";
    let expected = ("True", "PrefetchFailed", message);
    assert_eq!(
        found(None, &nodes),
        (
            expected.0.to_owned(),
            expected.1.to_owned(),
            expected.2.to_owned()
        )
    );
}

#[test]
fn what_is_not_determined_comes_first() {
    let selector = json!({ "matchExpressions": [{ "key": "a", "operator": "Is" }] });
    let view = pool("worker", json!({ "machineConfigSelector": selector }));
    let unpopulated = selected(&view, []).unwrap_err();
    let nodes = [updated("b").pins(LIST, "", "Failed: 503")];
    let (status, reason, message) = found(Some(&unpopulated), &nodes);
    assert_eq!((status.as_str(), reason.as_str()), ("True", ""));
    assert_eq!(
        message,
        "Failed to populate pinned image sets for pool worker: spec.machineConfigSelector cannot be \
         read: there is no operator \"Is\" (on key a), Node b is reporting: \"Failed: 503\""
    );
}

#[test]
fn a_long_list_is_cut() {
    let cause = format!("Failed: {}", "x".repeat(490));
    let nodes: Vec<NodeView> = (0..100)
        .map(|number| updated(&format!("n{number}")).pins(LIST, "", &cause))
        .collect();
    let (_, _, message) = found(None, &nodes);
    assert!(message.len() <= super::super::MESSAGE_BYTES + 30);
    assert!(message.ends_with(" more"), "{message}");
}
