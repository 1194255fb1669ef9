//! A claimed round, and the nodes that are told.

use std::collections::BTreeMap;
use std::sync::Arc;

use chassis::report::Chain;
use cluster::wire;
use pool::node::NodeView;
use pool::rollout::{RolloutDecision, decide};
use pool::selector::Selector;
use pool::view::PoolView;
use pool::write::NodeWrite;

use crate::requests::Requests;
use crate::store::{Pool, Snapshot, Store};

/// What came of a round.
#[derive(Debug)]
pub struct Round {
    /// The pool, as it is now.
    pub pool: Pool,
    /// Nodes as they are now: those listed, with what was written to them.
    pub nodes: Vec<NodeView>,
    /// Nodes that were told.
    pub told: Vec<String>,
    /// What they were told.
    pub target: String,
    /// Nodes that were claimed and not told: they changed in between, the API server did not take it, or the pool was paused.
    pub missed: Vec<String>,
    /// Those of them that the API server did not take, with its words.
    pub refused: BTreeMap<String, String>,
}

/// Decides from the cluster as it is *now*, claims the round, and tells the nodes.
///
/// The order of the requests is what the budget rests on: the pool is read before the nodes, the claim carries the pool's version, and
/// each node is written only in the version that was read (see `pool::claim`).
///
/// Before each write the newest that is known of the pool is looked at: once it is paused, being deleted or gone, nobody else is told. Who
/// was claimed and not told stays claimed: it counts as out, and is told first when the pool goes on.
///
/// # Errors
/// Of the API server: 409 where the pool changed since it was read, for example because another replica claimed a round.
pub async fn tell(
    requests: &Requests,
    store: &Store,
    snapshot: &Snapshot,
    name: &str,
    topology: Option<&str>,
) -> Result<Round, wire::Error> {
    let pool = requests.read_pool(name).await?;
    let nodes = match &pool.view.node_selector {
        Ok(Selector::Labels(selector)) => requests.list_nodes(selector.to_string()).await?,
        Ok(Selector::Nothing | Selector::Everything) | Err(_) => Vec::new(),
    };
    let views = snapshot.views_with(&pool.view);
    let sorted = snapshot.sort(&nodes, &views);
    let members = sorted.of(name);
    let decision = decide(&pool.view, members);
    if decision.assignments.is_empty() {
        return Ok(Round {
            pool,
            nodes,
            told: Vec::new(),
            target: String::new(),
            missed: Vec::new(),
            refused: BTreeMap::new(),
        });
    }
    let claim = decision.claim(&pool.view, members);
    tracing::debug!(
        pool = name,
        nodes = decision.assignments.len(),
        "nodes to tell"
    );
    let claimed = requests.claim(&pool, &claim).await?;
    store.refresh_pool(claimed.clone());
    let writes = writes(&decision, &pool.view, members, topology);
    let mut round = Round {
        pool: claimed,
        nodes,
        told: Vec::new(),
        target: claim.target,
        missed: Vec::new(),
        refused: BTreeMap::new(),
    };
    for write in writes {
        let known = store.pool(name);
        if !known
            .as_ref()
            .is_some_and(|pool| pool.view.allows_assignments())
        {
            tracing::info!(
                node = write.node,
                pool = name,
                "not told: the pool was stopped meanwhile"
            );
            round.pool = known.map_or(round.pool, Arc::unwrap_or_clone);
            round.missed.push(write.node);
            continue;
        }
        carry_out(requests, &mut round, write).await;
    }
    Ok(round)
}

/// The writes that tell the assigned nodes, in the order of the assignments.
fn writes(
    decision: &RolloutDecision,
    view: &PoolView,
    members: &[&NodeView],
    topology: Option<&str>,
) -> Vec<NodeWrite> {
    decision
        .assignments
        .iter()
        .filter_map(|assignment| {
            let node = members.iter().find(|node| node.name == assignment.node)?;
            NodeWrite::of(node, view, true, topology)
        })
        .collect()
}

async fn carry_out(requests: &Requests, round: &mut Round, write: NodeWrite) {
    let pool = &round.pool.view;
    match requests.write_node(&write).await {
        Ok(node) => {
            tracing::info!(
                node = node.name,
                pool = pool.name,
                current = node.current_config,
                desired = node.desired_config,
                "told a node"
            );
            round.told.push(write.node);
            for known in &mut round.nodes {
                if known.name == node.name {
                    known.clone_from(&node);
                }
            }
        }
        Err(error) => {
            if error.code() == Some(404) {
                round.nodes.retain(|known| known.name != write.node);
            }
            if matches!(error.code(), Some(404 | 409)) {
                tracing::debug!(
                    node = write.node,
                    pool = pool.name,
                    "node changed before it was told"
                );
            } else {
                tracing::warn!(node = write.node, pool = pool.name, error = %Chain(&error), "cannot tell a node");
                let why = Chain(&error).to_string();
                round.refused.insert(write.node.clone(), why);
            }
            round.missed.push(write.node);
        }
    }
}
