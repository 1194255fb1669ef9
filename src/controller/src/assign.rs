//! A round: what was decided is claimed, then assigned node by node.

use std::collections::BTreeSet;
use std::sync::Arc;

use chassis::report::Chain;
use cluster::wire;
use futures::StreamExt as _;
use futures::stream;
use pool::node::NodeView;
use pool::rollout::RolloutDecision;
use pool::view::PoolView;
use pool::write::{ClusterFacts, NodeWrite};
use tokio::sync::Semaphore;

use crate::context::WRITES;
use crate::observed::Observed;
use crate::requests::Requests;
use crate::store::{Store, cluster_stop};

/// What came of a round.
#[derive(Debug, Default)]
pub struct Round {
    /// Nodes that were assigned the target.
    pub assigned: Vec<String>,
    /// Nodes that were given up, because their drain takes too long.
    pub quarantined: Vec<String>,
    /// Whether a node was claimed and not assigned: it changed in between, the API server refused
    /// the write, or the pool was stopped. It stays claimed, counts as out of service, and is
    /// assigned first when the pool goes on.
    pub is_unfinished: bool,
}

/// Carries out assignments.
#[derive(Debug)]
pub struct Assigner<'a> {
    pub requests: &'a Requests,
    /// What the watches have brought.
    pub store: &'a Store,
    /// Room for the assignments that are under way at once, of all pools.
    pub turns: &'a Semaphore,
}

impl Assigner<'_> {
    /// Claims the decision's assignments, and carries them out, some at once.
    ///
    /// The budget rests on the guards: the claim carries the version of the pool that holds it, as
    /// the decision read it, and each node is written only in the version that it read (see
    /// `pool::claim`). The nodes may be older than the pool.
    ///
    /// Before each write the pool as the watch has it is looked at, and the switch of the cluster:
    /// once it is stopped, paused, being deleted or gone, no further node is assigned.
    /// Those whose writes are under way are.
    ///
    /// Afterwards `observed` has the objects as they were written, and `decision` why a node was
    /// not assigned after all.
    ///
    /// # Errors
    /// Of the claim: 409 where the pool changed since it was read, for example because another
    /// replica claimed a round.
    pub async fn assign(
        &self,
        observed: &mut Observed,
        decision: &mut RolloutDecision,
        facts: ClusterFacts<'_>,
    ) -> Result<Round, wire::Error> {
        let nodes = observed.members.values().chain(&observed.peers);
        let nodes: Vec<&NodeView> = nodes.map(Arc::as_ref).collect();
        let claim = decision.claim(&observed.pool.view, &nodes);
        let writes = writes(decision, observed, facts);
        let name = observed.pool.view.name.clone();
        tracing::debug!(pool = name, nodes = writes.len(), "nodes to assign");
        let holder = observed.holder.as_ref().unwrap_or(&observed.pool);
        let claimed = self.requests.claim(holder, &claim).await?;
        self.store.pools.refresh(claimed.clone());
        if observed.holder.is_some() {
            observed.pool.view.claim = claimed.view.claim;
        } else {
            let before = std::mem::replace(&mut observed.pool, claimed).view;
            observed.pool.view.take_surroundings(before);
        }
        let allows = || {
            let stored = self.store.pools.get(&name);
            let is_open = cluster_stop::switch(&self.store.stops.table()).is_none();
            is_open && stored.is_some_and(|pool| pool.view.allows_assignments())
        };
        let sent = writes.into_iter().map(|write| async {
            // It is never closed. The pool is looked at when it is the write's turn.
            let _turn = self.turns.acquire().await;
            let result = if allows() {
                Some(self.requests.write_node(&write).await)
            } else {
                None
            };
            (write.node, result)
        });
        let given_up: BTreeSet<String> = decision
            .quarantines
            .iter()
            .map(|up| up.node.clone())
            .collect();
        let is_to_stay = |node: &str| given_up.contains(node);
        let mut results = stream::iter(sent).buffered(WRITES);
        let mut round = Round::default();
        let mut is_stopped = false;
        while let Some((node, result)) = results.next().await {
            match result {
                None => {
                    tracing::info!(
                        node,
                        pool = name,
                        "not assigned: the pool was stopped meanwhile"
                    );
                    is_stopped = true;
                }
                Some(Ok(written)) => {
                    self.store.nodes.refresh(written.clone());
                    if let Some(config) = written.quarantined.clone().filter(|_| is_to_stay(&node))
                    {
                        tracing::warn!(node, pool = name, config, "gave up a node");
                        decision.record_quarantined(&node, &config);
                        round.quarantined.push(node);
                        observed.replace(written);
                        continue;
                    }
                    tracing::info!(
                        node,
                        pool = name,
                        current = written.status.current_config,
                        desired = written.status.desired_config,
                        image = written.status.desired_image,
                        "assigned a node"
                    );
                    decision.record_assigned(&node);
                    round.assigned.push(node);
                    observed.replace(written);
                }
                Some(Err(error)) => {
                    round.is_unfinished = true;
                    if error.is_not_found() {
                        observed.members.remove(&node);
                        decision.record_deleted(&node);
                    }
                    if error.is_not_found() || error.is_conflict() {
                        tracing::debug!(node, pool = name, "node changed before it was assigned");
                    } else {
                        tracing::warn!(node, pool = name, error = %Chain(&error), "cannot assign a node");
                        decision.record_rejected([(node, Chain(&error).to_string())]);
                    }
                }
            }
        }
        if is_stopped {
            if let Some(stored) = self.store.pools.get(&name) {
                let stored = stored.as_ref().clone();
                let before = std::mem::replace(&mut observed.pool, stored).view;
                observed.pool.view.take_surroundings(before);
            }
            let cluster = cluster_stop::switch(&self.store.stops.table());
            observed.pool.view.stops.cluster = cluster;
            decision.record_stopped(&observed.pool.view);
            round.is_unfinished = true;
        }
        Ok(round)
    }
}

/// The writes of the assignments, in their order, and of the nodes that are given up.
fn writes(
    decision: &RolloutDecision,
    observed: &Observed,
    facts: ClusterFacts<'_>,
) -> Vec<NodeWrite> {
    let view = &observed.pool.view;
    let goal = PoolView {
        target: decision.goal.clone(),
        ..view.clone()
    };
    let assignments = decision.assignments.iter();
    let assignments = assignments.filter_map(|assignment| {
        let node = observed.members.get(&assignment.node)?;
        NodeWrite::of(node, &goal, true, facts)
    });
    let given_up = decision.quarantines.iter().filter_map(|given_up| {
        let node = observed.members.get(&given_up.node)?;
        Some(NodeWrite::quarantine(node, view.target.as_ref()?))
    });
    assignments.chain(given_up).collect()
}
