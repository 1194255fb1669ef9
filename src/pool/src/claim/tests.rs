//! Two controllers, requests in any order, writes delayed for any time: the budget holds at every
//! moment.

use std::collections::{BTreeMap, BTreeSet};

use api::machineconfiguration::NodeState;
use api::machineconfiguration::node_status::Reading;
use proptest::prelude::*;
use serde_json::json;

use super::RoundClaim;
use crate::fixture::{OLD, node, pool};
use crate::node::NodeView;
use crate::rollout::{BudgetImpact, decide};
use crate::view::PoolView;

const NODES: usize = 5;

/// What the API server holds, and how it answers guarded writes.
struct Server {
    pool: PoolView,
    nodes: Vec<NodeView>,
    version: u64,
    /// What must not have happened.
    faulty: Vec<String>,
}

impl Server {
    fn new(max: usize) -> Self {
        Self {
            pool: pool(
                "worker",
                json!({ "maxUnavailable": max, "configuration": { "name": OLD } }),
            ),
            nodes: (0..NODES)
                .map(|index| node(&format!("node-{index}")))
                .collect(),
            version: 1,
            faulty: Vec::new(),
        }
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn change_pool(&mut self, change: impl FnOnce(&mut PoolView)) {
        change(&mut self.pool);
        self.pool.resource_version = self.next_version();
    }

    fn change_node(&mut self, index: usize, change: impl FnOnce(&mut NodeView)) {
        let version = self.next_version();
        change(&mut self.nodes[index]);
        self.nodes[index].resource_version = version;
    }

    fn claim(&mut self, read: &PoolView, round: RoundClaim) -> bool {
        let is_current = self.pool.resource_version == read.resource_version;
        if is_current {
            if self.pool.is_paused {
                self.faulty.push(format!("claimed while paused: {round:?}"));
            }
            self.change_pool(|pool| pool.claim = round);
        }
        is_current
    }

    fn assign(&mut self, name: &str, version: &str, target: &str) {
        let index = self
            .nodes
            .iter()
            .position(|node| node.name == name)
            .unwrap();
        if self.nodes[index].resource_version == version {
            self.change_node(index, |node| {
                node.status.desired_config = Some(target.to_owned());
            });
        }
    }

    fn out(&self) -> usize {
        self.nodes
            .iter()
            .filter(|node| node.is_out_of_service())
            .count()
    }
}

/// Where a controller is on its way through a round.
#[derive(Default)]
enum Controller {
    #[default]
    Idle,
    HasPool(PoolView),
    HasNodes(PoolView, Vec<NodeView>),
    /// Nodes left to assign, each with the version that was read; the target; and the pool as the
    /// watch last assigned of it.
    Assigns(Vec<(String, String)>, String, PoolView),
}

impl Controller {
    /// Sends one request.
    fn step(&mut self, server: &mut Server) {
        *self = match std::mem::take(self) {
            Self::Idle => Self::HasPool(server.pool.clone()),
            Self::HasPool(pool) => Self::HasNodes(pool, server.nodes.clone()),
            Self::HasNodes(pool, nodes) => {
                let members: Vec<&NodeView> = nodes.iter().collect();
                let decision = decide(&pool, &members);
                let claim = decision.claim(&pool, &members);
                let assignments = decision
                    .assignments
                    .iter()
                    .map(|assignment| {
                        (assignment.node.clone(), assignment.resource_version.clone())
                    })
                    .collect();
                match pool.target.clone() {
                    Some(target)
                        if !decision.assignments.is_empty() && server.claim(&pool, claim) =>
                    {
                        Self::Assigns(assignments, target, server.pool.clone())
                    }
                    _ => Self::Idle,
                }
            }
            Self::Assigns(mut left, target, known) => match left.pop() {
                Some((node, version)) if known.allows_assignments() => {
                    server.assign(&node, &version, &target);
                    Self::Assigns(left, target, known)
                }
                Some(_) | None => Self::Idle,
            },
        };
    }

    /// The watch delivers the pool as it is.
    fn see(&mut self, server: &Server) {
        if let Self::Assigns(_, _, known) = self {
            known.clone_from(&server.pool);
        }
    }
}

/// What may happen next.
#[derive(Debug, Clone)]
enum Event {
    /// A controller sends its next request.
    Step(usize),
    /// A controller's watch catches up.
    Sees(usize),
    /// A controller is killed and restarted.
    Kill(usize),
    /// A daemon sees its assignment.
    Begins(usize),
    /// A node reaches its assignment.
    Finishes(usize),
    /// An update fails on a node and is rolled back.
    Fails(usize),
    /// A kubelet reports: the object changes, nothing else does.
    Reports(usize),
    /// A new configuration is rendered.
    Renders(u8),
    /// The pool is paused, or not any more.
    Pauses(bool),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (0..2_usize).prop_map(Event::Step),
        2 => (0..2_usize).prop_map(Event::Sees),
        1 => (0..2_usize).prop_map(Event::Kill),
        2 => (0..NODES).prop_map(Event::Begins),
        4 => (0..NODES).prop_map(Event::Finishes),
        1 => (0..NODES).prop_map(Event::Fails),
        1 => (0..NODES).prop_map(Event::Reports),
        2 => (0..4_u8).prop_map(Event::Renders),
        1 => any::<bool>().prop_map(Event::Pauses),
    ]
}

fn happen(event: &Event, server: &mut Server, controllers: &mut [Controller; 2]) {
    match *event {
        Event::Step(which) => controllers[which].step(server),
        Event::Sees(which) => controllers[which].see(server),
        Event::Kill(which) => controllers[which] = Controller::Idle,
        Event::Begins(index) if server.nodes[index].status.has_pending_target() => {
            server.change_node(index, |node| {
                node.status.state = Some(Reading::Known(NodeState::Working));
            });
        }
        Event::Finishes(index) if !server.nodes[index].status.is_done() => {
            server.change_node(index, |node| {
                node.status
                    .current_config
                    .clone_from(&node.status.desired_config);
                node.status.state = Some(Reading::Known(NodeState::Done));
            });
        }
        Event::Fails(index) if server.nodes[index].status.has_pending_target() => {
            server.change_node(index, |node| {
                node.status.state = Some(Reading::Known(NodeState::Degraded));
            });
        }
        Event::Reports(index) => server.change_node(index, |_| {}),
        Event::Renders(number) => {
            server.change_pool(|pool| pool.target = Some(format!("rendered-worker-{number}")));
        }
        Event::Pauses(paused) => server.change_pool(|pool| pool.is_paused = paused),
        Event::Begins(_) | Event::Finishes(_) | Event::Fails(_) => {}
    }
}

/// The assignment of each node.
fn desired(server: &Server) -> BTreeMap<String, Option<String>> {
    let assigned = |node: &NodeView| (node.name.clone(), node.status.desired_config.clone());
    server.nodes.iter().map(assigned).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn two_controllers_never_exceed_the_budget(
        max in 1..4_usize,
        events in prop::collection::vec(any_event(), 0..200),
    ) {
        let mut server = Server::new(max);
        let mut controllers = [Controller::Idle, Controller::Idle];
        for (position, event) in events.iter().enumerate() {
            happen(event, &mut server, &mut controllers);
            prop_assert!(server.out() <= max, "{} out after {:?}", server.out(), &events[..=position]);
        }
        prop_assert!(server.faulty.is_empty(), "{:?}", server.faulty);
    }

    #[test]
    fn a_paused_pool_gives_no_node_a_new_target(
        max in 1..=NODES,
        before in prop::collection::vec(any_event(), 0..60),
        unseen in prop::collection::vec(any_event(), 0..10),
        after in prop::collection::vec(any_event(), 0..60),
    ) {
        let mut server = Server::new(max);
        let mut controllers = [Controller::Idle, Controller::Idle];
        for event in &before {
            happen(event, &mut server, &mut controllers);
        }
        happen(&Event::Pauses(true), &mut server, &mut controllers);
        let claimed: BTreeSet<String> = server.pool.claim.nodes.keys().cloned().collect();
        let assigned = desired(&server);
        // Until the watch delivers the pause, only nodes claimed before it may be assigned.
        let not_assigned = |event: &&Event| !matches!(event, Event::Pauses(_));
        for event in unseen.iter().filter(not_assigned) {
            happen(event, &mut server, &mut controllers);
        }
        for (node, target) in desired(&server) {
            prop_assert!(assigned.get(&node) == Some(&target) || claimed.contains(&node), "{node}: {target:?}");
        }
        // After that, no node is assigned.
        for which in 0..2 {
            happen(&Event::Sees(which), &mut server, &mut controllers);
        }
        let assigned = desired(&server);
        for event in after.iter().filter(not_assigned) {
            happen(event, &mut server, &mut controllers);
        }
        prop_assert_eq!(desired(&server), assigned);
        prop_assert!(server.pool.claim.nodes.keys().all(|node| claimed.contains(node)));
        prop_assert!(server.faulty.is_empty(), "{:?}", server.faulty);
    }

    #[test]
    fn a_rollout_ends_when_nothing_fails(max in 1..4_usize, order in prop::collection::vec(0..NODES, 0..20)) {
        let mut server = Server::new(max);
        let mut controllers = [Controller::Idle, Controller::Idle];
        happen(&Event::Renders(9), &mut server, &mut controllers);
        // One is killed in the middle of a round; the other goes on.
        for _ in 0..3 {
            controllers[0].step(&mut server);
        }
        controllers[0] = Controller::Idle;
        for round in 0..20 * NODES {
            controllers[1].step(&mut server);
            let index = order.get(round % order.len().max(1)).copied().unwrap_or(round % NODES);
            happen(&Event::Finishes(index), &mut server, &mut controllers);
            happen(&Event::Finishes(round % NODES), &mut server, &mut controllers);
        }
        let done: BTreeMap<_, _> = server.nodes.iter().map(|node| (&node.name, node.status.is_updated("rendered-worker-9"))).collect();
        prop_assert!(done.values().all(|done| *done), "{done:?}");
    }
}

#[test]
fn a_delayed_write_fails_once_its_node_has_changed() {
    let mut server = Server::new(1);
    server.change_pool(|pool| pool.target = Some("rendered-worker-9".to_owned()));
    let mut late = Controller::Idle;
    for _ in 0..3 {
        late.step(&mut server);
    }
    assert!(matches!(&late, Controller::Assigns(left, ..) if left.len() == 1));
    // The claimed node changes before its assignment: another node may be assigned, and the delayed
    // write must fail.
    server.change_node(0, |_| {});
    let mut other = Controller::Idle;
    for _ in 0..4 {
        other.step(&mut server);
    }
    late.step(&mut server);
    assert_eq!(server.out(), 1);
    assert_eq!(
        server.nodes[0].status.desired_config.as_deref(),
        Some("rendered-worker-9")
    );
    assert_eq!(
        decide(&server.pool, &server.nodes.iter().collect::<Vec<_>>())
            .assignments
            .iter()
            .filter(|assignment| assignment.impact == BudgetImpact::UsesFree)
            .count(),
        0
    );
}
