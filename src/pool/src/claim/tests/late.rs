//! Requests and watches that are late.

use super::*;
use crate::rollout::BudgetImpact;

#[test]
fn a_delayed_write_fails_once_its_node_has_changed() {
    let mut server = Server::new(1);
    server.change_pool(|pool| pool.target = Some(target(9)));
    let [mut late, mut other] = new_controllers(&server);
    for _ in 0..2 {
        late.step(&mut server);
    }
    assert!(matches!(&late.round, Round::Assigns(left, ..) if left.len() == 1));
    // The claimed node changes before its assignment: another node may be assigned, and the delayed
    // write must fail.
    server.change_node(0, |_| {});
    other.see_nodes(&server, usize::MAX);
    for _ in 0..3 {
        other.step(&mut server);
    }
    late.step(&mut server);
    assert_eq!(server.out(), 1);
    assert_eq!(
        server.nodes[0].status.desired_config.as_deref(),
        Some("rendered-worker-4")
    );
    assert_eq!(
        decide(&server.pool, &server.nodes.iter().collect::<Vec<_>>(), NOW)
            .assignments
            .iter()
            .filter(|assignment| assignment.impact == BudgetImpact::UsesFree)
            .count(),
        0
    );
}

#[test]
fn a_controller_that_knows_old_nodes_counts_them_by_the_claim() {
    let zone = |server: &mut Server, index: usize, zone: &str| {
        server.change_node(index, |node| {
            node.labels.insert(label::ZONE.to_owned(), zone.to_owned());
        });
    };
    let mut server = Server::new(2);
    for (index, name) in ["c", "a", "b", "b", "b"].into_iter().enumerate() {
        zone(&mut server, index, name);
    }
    server.change_pool(|pool| pool.target = Some(target(9)));
    let [mut prompt, mut late] = new_controllers(&server);
    late.see_nodes(&server, usize::MAX);
    // While the watch of the late one stands still, node-0 becomes the first and is assigned; then
    // another is.
    zone(&mut server, 0, "0");
    server.change_node(4, |node| node.unready = vec![Unready::Unschedulable]);
    for _ in 0..2 {
        prompt.see_nodes(&server, usize::MAX);
        for _ in 0..4 {
            prompt.step(&mut server);
        }
        server.change_node(4, |node| node.unready.clear());
    }
    assert_eq!(server.out(), 2);
    for _ in 0..6 {
        late.step(&mut server);
    }
    assert_eq!(server.out(), 2);
    let claimed: Vec<_> = server.pool.claim.nodes.keys().collect();
    assert_eq!(claimed, ["node-0", "node-1"]);
}
