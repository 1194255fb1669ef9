//! Two controllers, requests in any order, writes delayed for any time: the budget holds at every
//! moment.

mod late;

use std::collections::{BTreeMap, BTreeSet};

use api::machineconfiguration::node_status::{DrainRequest, FailedIn, Reading};
use api::machineconfiguration::{NodeState, PhaseName, Target, label};
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::RoundClaim;
use crate::fixture::{NOW, OLD, node, pool};
use crate::node::{NodeView, Unready};
use crate::policy::RolloutPolicy;
use crate::rollout::decide;
use crate::view::PoolView;

const NODES: usize = 5;

/// What the API server holds, and how it answers guarded writes.
struct Server {
    pool: PoolView,
    nodes: Vec<NodeView>,
    version: u64,
    /// Each state of each node, in the order in which a watch delivers them.
    history: Vec<NodeView>,
    /// What must not have happened.
    faulty: Vec<String>,
}

impl Server {
    /// Serves a pool of so many nodes out at once, with a policy.
    fn with_policy(max: usize, policy: Value) -> Self {
        let policy = serde_json::from_value(policy).unwrap();
        let mut server = Self::new(max);
        server.pool.policy = Some(RolloutPolicy::parse(&policy).unwrap());
        server.pool.previous = Some(crate::fixture::target(OLD));
        server
    }

    fn new(max: usize) -> Self {
        let nodes: Vec<NodeView> = (0..NODES)
            .map(|index| node(&format!("node-{index}")))
            .collect();
        Self {
            pool: pool(
                "worker",
                json!({ "maxUnavailable": max, "configuration": { "name": OLD } }),
            ),
            history: nodes.clone(),
            nodes,
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
        self.history.push(self.nodes[index].clone());
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

    /// The node as it was written; nothing where it has changed.
    fn assign(&mut self, name: &str, version: &str, target: &Target) -> Option<NodeView> {
        let is_current = |node: &NodeView| node.name == name && node.resource_version == version;
        let index = self.nodes.iter().position(is_current)?;
        self.change_node(index, |node| {
            node.status.desired_config = Some(target.config.clone());
            node.status.desired_image.clone_from(&target.image);
        });
        Some(self.nodes[index].clone())
    }

    /// The same of a node that is given up.
    fn give_up(&mut self, name: &str, version: &str, target: &Target) -> Option<NodeView> {
        let is_current = |node: &NodeView| node.name == name && node.resource_version == version;
        let index = self.nodes.iter().position(is_current)?;
        self.change_node(index, |node| {
            node.status
                .desired_config
                .clone_from(&node.status.current_config);
            node.status
                .desired_image
                .clone_from(&node.status.current_image);
            node.status.cordoned_by = None;
            node.quarantined = Some(target.to_string());
        });
        Some(self.nodes[index].clone())
    }

    /// A node that is given up runs its pods, and its daemon is asked for nothing.
    fn out(&self) -> usize {
        self.nodes
            .iter()
            .filter(|node| node.is_out_of_service() && !node.is_quarantined())
            .count()
    }
}

/// Where a controller is on its way through a round.
#[derive(Default)]
enum Round {
    #[default]
    Idle,
    HasPool(PoolView),
    /// Nodes left to assign, each with the version that was read, and whether it is given up; the
    /// target; and the pool as the watch last delivered it.
    Assigns(Vec<(String, String, bool)>, Target, PoolView),
}

/// A controller, whose watch of the nodes may be late for any time.
#[derive(Default)]
struct Controller {
    round: Round,
    /// The nodes as it knows them.
    nodes: Vec<NodeView>,
    /// How much of [`Server::history`] its watch has delivered.
    seen: usize,
}

/// What the pool is rolled to by a number: of two that follow each other, the second has the
/// configuration of the first, and an image of its own.
fn target(number: u8) -> Target {
    let image = (number % 2 == 1).then(|| format!("os@{number}"));
    Target {
        config: format!("rendered-worker-{}", number / 2),
        image,
    }
}

impl Controller {
    /// Sends one request.
    fn step(&mut self, server: &mut Server) {
        self.round = match std::mem::take(&mut self.round) {
            Round::Idle => Round::HasPool(server.pool.clone()),
            Round::HasPool(mut pool) => {
                let members: Vec<&NodeView> = self.nodes.iter().collect();
                let target = pool.target.clone().unwrap();
                let hour_ago = NOW - SignedDuration::from_hours(1);
                let drains = &mut pool.facts.drains;
                drains.note(&target, members.iter().copied(), hour_ago);
                let decision = decide(&pool, &members, NOW);
                let claim = decision.claim(&pool, &members);
                let assignments = decision.assignments.iter().map(|assignment| {
                    let version = assignment.resource_version.clone();
                    (assignment.node.clone(), version, false)
                });
                let given_up = decision.quarantines.iter();
                let given_up =
                    given_up.map(|node| (node.node.clone(), node.resource_version.clone(), true));
                let writes = assignments.chain(given_up).collect();
                match decision.goal.clone() {
                    Some(goal) if decision.has_writes() && server.claim(&pool, claim) => {
                        Round::Assigns(writes, goal, server.pool.clone())
                    }
                    _ => Round::Idle,
                }
            }
            Round::Assigns(mut left, target, cached) => match left.pop() {
                Some((node, version, gives_up)) if cached.allows_assignments() => {
                    let written = if gives_up {
                        server.give_up(&node, &version, &target)
                    } else {
                        server.assign(&node, &version, &target)
                    };
                    if let Some(written) = written {
                        self.learn(&written);
                    }
                    Round::Assigns(left, target, cached)
                }
                Some(_) | None => Round::Idle,
            },
        };
    }

    /// The watch delivers the pool as it is.
    fn see(&mut self, server: &Server) {
        if let Round::Assigns(_, _, cached) = &mut self.round {
            cached.clone_from(&server.pool);
        }
    }

    /// The watch delivers the next changes of nodes.
    fn see_nodes(&mut self, server: &Server, count: usize) {
        let history = server.history.iter();
        let next: Vec<&NodeView> = history.skip(self.seen).take(count).collect();
        self.seen += next.len();
        for node in next {
            self.learn(node);
        }
    }

    fn learn(&mut self, node: &NodeView) {
        let version = |node: &NodeView| node.resource_version.parse::<u64>().unwrap();
        match self
            .nodes
            .iter_mut()
            .find(|cached| cached.name == node.name)
        {
            Some(cached) if version(cached) > version(node) => {}
            Some(cached) => cached.clone_from(node),
            None => self.nodes.push(node.clone()),
        }
    }
}

#[derive(Debug, Clone)]
enum Event {
    /// A controller sends its next request.
    Step(usize),
    /// A controller's watch of the pool catches up.
    Sees(usize),
    /// A controller's watch delivers so many changes of nodes.
    SeesNodes(usize, usize),
    /// A controller is killed and restarted. Its first list of nodes may be as old as its last
    /// state: an API server answers it from its own cache.
    Kill(usize),
    /// A daemon sees its assignment.
    Begins(usize),
    /// A node reaches its assignment.
    Finishes(usize),
    /// An update fails on a node and is rolled back, or before it was applied.
    Fails(usize, bool),
    /// A node is cordoned, and its drain has taken an hour.
    Stalls(usize),
    /// An administrator uncordons a node.
    Uncordons(usize),
    /// A kubelet reports: the object changes, nothing else does.
    Reports(usize),
    /// A node is moved to another zone: the order of updates changes.
    Moves(usize, u8),
    /// A new configuration is rendered.
    Renders(u8),
    /// The pool is paused, or not any more.
    Pauses(bool),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (0..2_usize).prop_map(Event::Step),
        2 => (0..2_usize).prop_map(Event::Sees),
        6 => (0..2_usize, 1..8_usize).prop_map(|(which, count)| Event::SeesNodes(which, count)),
        1 => (0..2_usize).prop_map(Event::Kill),
        2 => (0..NODES).prop_map(Event::Begins),
        4 => (0..NODES).prop_map(Event::Finishes),
        1 => (0..NODES, any::<bool>()).prop_map(|(index, is_applied)| Event::Fails(index, is_applied)),
        3 => (0..NODES).prop_map(Event::Stalls),
        1 => (0..NODES).prop_map(Event::Uncordons),
        1 => (0..NODES).prop_map(Event::Reports),
        2 => (0..NODES, 0..3_u8).prop_map(|(index, zone)| Event::Moves(index, zone)),
        2 => (0..4_u8).prop_map(Event::Renders),
        1 => any::<bool>().prop_map(Event::Pauses),
    ]
}

fn happen(event: &Event, server: &mut Server, controllers: &mut [Controller; 2]) {
    match *event {
        Event::Step(which) => controllers[which].step(server),
        Event::Sees(which) => controllers[which].see(server),
        Event::SeesNodes(which, count) => controllers[which].see_nodes(server, count),
        Event::Kill(which) => controllers[which].round = Round::Idle,
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
                node.status
                    .current_image
                    .clone_from(&node.status.desired_image);
                node.status.state = Some(Reading::Known(NodeState::Done));
                return_to_service(node);
            });
        }
        Event::Fails(index, is_applied) if server.nodes[index].status.has_pending_target() => {
            server.change_node(index, |node| {
                let target = Target {
                    config: node.status.desired_config.clone().unwrap(),
                    image: node.status.desired_image.clone(),
                };
                let phase = if is_applied {
                    PhaseName::Held
                } else {
                    PhaseName::Fetching
                };
                node.status.failed_in = Some(Reading::Known(FailedIn { phase, target }));
                node.status.state = Some(Reading::Known(NodeState::Degraded));
                return_to_service(node);
            });
        }
        Event::Stalls(index) if server.nodes[index].status.has_pending_target() => {
            server.change_node(index, |node| {
                let config = node.status.desired_config.clone().unwrap_or_default();
                node.status.state = Some(Reading::Known(NodeState::Working));
                node.status.cordoned_by = Some("1".to_owned());
                node.status.desired_drain = Some(Reading::Known(DrainRequest::Drain(config)));
                node.status.drain_since = Some(Reading::Known(NOW - SignedDuration::from_hours(1)));
                node.unready = vec![Unready::Unschedulable];
            });
        }
        Event::Uncordons(index) if server.nodes[index].status.is_done() => {
            server.change_node(index, |node| node.unready.clear());
        }
        Event::Reports(index) => server.change_node(index, |_| {}),
        Event::Moves(index, zone) => server.change_node(index, |node| {
            node.labels.insert(label::ZONE.to_owned(), zone.to_string());
        }),
        Event::Renders(number) => {
            server.change_pool(|pool| pool.target = Some(target(number)));
        }
        Event::Pauses(paused) => server.change_pool(|pool| pool.is_paused = paused),
        Event::Begins(_)
        | Event::Finishes(_)
        | Event::Fails(..)
        | Event::Stalls(_)
        | Event::Uncordons(_) => {}
    }
}

/// The daemon undoes its own cordon.
fn return_to_service(node: &mut NodeView) {
    node.status.desired_drain = None;
    node.status.drain_since = None;
    if node.status.cordoned_by.take().is_some() {
        node.unready.clear();
    }
}

fn new_controllers(server: &Server) -> [Controller; 2] {
    std::array::from_fn(|_| {
        let mut controller = Controller::default();
        controller.see_nodes(server, NODES);
        controller
    })
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
        let mut controllers = new_controllers(&server);
        for (position, event) in events.iter().enumerate() {
            happen(event, &mut server, &mut controllers);
            prop_assert!(server.out() <= max, "{} out after {:?}", server.out(), &events[..=position]);
        }
        prop_assert!(server.faulty.is_empty(), "{:?}", server.faulty);
    }

    #[test]
    fn two_controllers_never_exceed_the_budget_of_a_pool_that_returns_and_gives_up(
        max in 1..4_usize,
        given_up in 1..3_usize,
        halt_above in 0..2_usize,
        events in prop::collection::vec(any_event(), 0..200),
    ) {
        let mut server = Server::with_policy(max, json!({
            "returnOnHalt": true,
            "haltAboveFailures": halt_above,
            "quarantine": { "drainLimit": "30m", "maxNodes": given_up },
        }));
        let mut controllers = new_controllers(&server);
        for (position, event) in events.iter().enumerate() {
            happen(event, &mut server, &mut controllers);
            let events = &events[..=position];
            prop_assert!(server.out() <= max, "{} out after {:?}", server.out(), events);
            let passed_over = server.nodes.iter().filter(|node| node.is_quarantined()).count();
            prop_assert!(passed_over <= given_up, "{passed_over} given up after {events:?}");
        }
    }

    #[test]
    fn a_paused_pool_gives_no_node_a_new_target(
        max in 1..=NODES,
        before in prop::collection::vec(any_event(), 0..60),
        unseen in prop::collection::vec(any_event(), 0..10),
        after in prop::collection::vec(any_event(), 0..60),
    ) {
        let mut server = Server::new(max);
        let mut controllers = new_controllers(&server);
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
        let mut controllers = new_controllers(&server);
        happen(&Event::Renders(9), &mut server, &mut controllers);
        // One is killed in the middle of a round; the other goes on.
        for _ in 0..3 {
            controllers[0].step(&mut server);
        }
        controllers[0].round = Round::Idle;
        for round in 0..20 * NODES {
            controllers[1].see_nodes(&server, usize::MAX);
            controllers[1].step(&mut server);
            let index = order.get(round % order.len().max(1)).copied().unwrap_or(round % NODES);
            happen(&Event::Finishes(index), &mut server, &mut controllers);
            happen(&Event::Finishes(round % NODES), &mut server, &mut controllers);
        }
        let done: BTreeMap<_, _> = server.nodes.iter().map(|node| (&node.name, node.status.is_updated(&target(9)))).collect();
        prop_assert!(done.values().all(|done| *done), "{done:?}");
    }
}
