//! A pool and its nodes at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use pool::claim::ClaimState;
use pool::node::NodeView;
use pool::rollout::{RolloutDecision, decide_beside};

use crate::store::Pool;

/// A pool and its nodes at one moment.
#[derive(Debug)]
pub struct Observed {
    pub pool: Pool,
    pub members: BTreeMap<String, Arc<NodeView>>,
    /// Nodes of another pool that share its budget.
    pub peers: Vec<Arc<NodeView>>,
    /// The pool that holds its claims, where that is another one.
    pub holder: Option<Pool>,
}

impl Observed {
    /// Decides which of the nodes are assigned the pool's configuration.
    pub(crate) fn decide(&self, now: Timestamp) -> RolloutDecision {
        let peers: Vec<&NodeView> = self.peers.iter().map(Arc::as_ref).collect();
        decide_beside(&self.pool.view, &self.members(), &peers, now)
    }

    pub(crate) fn members(&self) -> Vec<&NodeView> {
        self.members.values().map(Arc::as_ref).collect()
    }

    /// Whether a node was claimed in a version that has not been read yet.
    pub(crate) fn is_behind_the_claim(&self) -> bool {
        let claim = &self.pool.view.claim;
        let mut members = self.members.values();
        members.any(|node| claim.state_of(node) == ClaimState::Ahead)
    }

    /// Puts a node as it was written in the place of the one that was read.
    pub fn replace(&mut self, node: NodeView) {
        if let Some(member) = self.members.get_mut(&node.name) {
            *member = Arc::new(node);
        }
    }
}
