//! A round: what was decided is claimed, then assigned node by node.

use chassis::report::Chain;
use cluster::wire;
use pool::node::NodeView;
use pool::rollout::RolloutDecision;
use pool::write::NodeWrite;

use crate::reconcile::Observed;
use crate::requests::Requests;
use crate::store::Store;

/// What came of a round.
#[derive(Debug, Default)]
pub struct Round {
    /// Nodes that were assigned the target.
    pub assigned: Vec<String>,
    /// Whether a node was claimed and not assigned: it changed in between, the API server refused
    /// the write, or the pool was stopped. It stays claimed, counts as out of service, and is
    /// assigned first when the pool goes on.
    pub is_unfinished: bool,
}

/// Claims the decision's assignments, and carries them out.
///
/// The order of the requests is what the budget rests on: `observed` was read from the API server,
/// the pool before its nodes; the claim carries the pool's version, and each node is written only
/// in the version that was read (see `pool::claim`).
///
/// Before each write the pool as the watch has it is looked at: once it is paused, being deleted or
/// gone, no further node is assigned.
///
/// Afterwards `observed` has the objects as they were written, and `decision` why a node was not
/// assigned after all.
///
/// # Errors
/// Of the claim: 409 where the pool changed since it was read, for example because another replica
/// claimed a round.
pub async fn assign(
    requests: &Requests,
    store: &Store,
    observed: &mut Observed,
    decision: &mut RolloutDecision,
    topology: Option<&str>,
) -> Result<Round, wire::Error> {
    let members: Vec<&NodeView> = observed.members.iter().collect();
    let claim = decision.claim(&observed.pool.view, &members);
    let writes = writes(decision, observed, topology);
    tracing::debug!(
        pool = observed.pool.view.name,
        nodes = writes.len(),
        "nodes to assign"
    );
    observed.pool = requests.claim(&observed.pool, &claim).await?;
    store.pools.refresh(observed.pool.clone());
    let mut round = Round::default();
    for write in writes {
        let name = observed.pool.view.name.clone();
        let known = store.pools.get(&name);
        if !known
            .as_ref()
            .is_some_and(|pool| pool.view.allows_assignments())
        {
            tracing::info!(
                node = write.node,
                pool = name,
                "not assigned: the pool was stopped meanwhile"
            );
            if let Some(known) = known {
                observed.pool = known.as_ref().clone();
            }
            decision.record_stopped(&observed.pool.view);
            round.is_unfinished = true;
            break;
        }
        match requests.write_node(&write).await {
            Ok(node) => {
                tracing::info!(
                    node = node.name,
                    pool = name,
                    current = node.status.current_config,
                    desired = node.status.desired_config,
                    "assigned a node"
                );
                store.nodes.refresh(node.clone());
                decision.record_assigned(&write.node);
                round.assigned.push(write.node);
                observed.replace(node);
            }
            Err(error) => {
                round.is_unfinished = true;
                if error.code() == Some(404) {
                    observed.members.retain(|node| node.name != write.node);
                    decision.record_deleted(&write.node);
                }
                if matches!(error.code(), Some(404 | 409)) {
                    tracing::debug!(
                        node = write.node,
                        pool = name,
                        "node changed before it was assigned"
                    );
                } else {
                    tracing::warn!(node = write.node, pool = name, error = %Chain(&error), "cannot assign a node");
                    decision.record_rejected([(write.node, Chain(&error).to_string())]);
                }
            }
        }
    }
    Ok(round)
}

/// The writes of the assignments, in their order.
fn writes(
    decision: &RolloutDecision,
    observed: &Observed,
    topology: Option<&str>,
) -> Vec<NodeWrite> {
    let assignments = decision.assignments.iter();
    let writes = assignments.filter_map(|assignment| {
        let mut members = observed.members.iter();
        let node = members.find(|node| node.name == assignment.node)?;
        NodeWrite::of(node, &observed.pool.view, true, topology)
    });
    writes.collect()
}
