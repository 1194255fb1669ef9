//! MachineConfigNodes: one for every node, with what the node is assigned.
//!
//! The controller makes, keeps and removes the objects; each node's daemon writes the status of its
//! own. A node without a pool has one, too. A Windows node has none: no daemon runs there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::machineconfiguration::machine_config_node::NOT_YET_SET;
use api::machineconfiguration::{MachineConfigNode, annotation};
use chassis::report::Chain;
use cluster::cache::{CachedKind, Table, WatchEvent};
use futures::StreamExt as _;
use futures::stream;
use operator::{Next, Watched};
use pool::membership::Membership;
use pool::node::NodeView;
use pool::view::PoolView;
use pool::write::NodeWrite;

use crate::reconcile::{Controller, WRITES};
use crate::store::{Nodes, Snapshot};

/// What is kept of a MachineConfigNode: what this controller writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAssignment {
    /// Name of the object and of its node.
    pub name: String,
    /// Version of the object that was read.
    pub resource_version: String,
    /// Pool of the node.
    pub pool: String,
    /// Configuration that the node was assigned.
    pub desired: String,
    /// Uid of the Node that owns it.
    pub owner: Option<String>,
    /// Uid of the object; empty before it is written.
    pub uid: String,
}

/// The kind MachineConfigNode.
#[derive(Debug)]
pub enum MachineConfigNodes {}

impl CachedKind for MachineConfigNodes {
    type Entry = NodeAssignment;

    fn name(entry: &NodeAssignment) -> &str {
        &entry.name
    }

    fn version(entry: &NodeAssignment) -> &str {
        &entry.resource_version
    }

    fn has_same_content(one: &NodeAssignment, other: &NodeAssignment) -> bool {
        one.says_what(other)
    }
}

impl Watched for MachineConfigNodes {
    type Object = MachineConfigNode;

    fn parse(object: MachineConfigNode) -> NodeAssignment {
        NodeAssignment::parse(object)
    }
}

impl NodeAssignment {
    /// Reads a MachineConfigNode.
    pub fn parse(object: MachineConfigNode) -> Self {
        let owners = object.metadata.owner_references.unwrap_or_default();
        let owner = owners.into_iter().find(|owner| owner.kind == "Node");
        Self {
            name: object.metadata.name.unwrap_or_default(),
            resource_version: object.metadata.resource_version.unwrap_or_default(),
            pool: object.spec.pool.name,
            desired: object.spec.config_version.desired,
            owner: owner.map(|owner| owner.uid),
            uid: object.metadata.uid.unwrap_or_default(),
        }
    }

    /// What the object of a node in this pool says.
    fn of(node: &NodeView, pool: Option<&str>) -> Self {
        let desired = node.status.desired_config.as_deref();
        Self {
            name: node.name.clone(),
            resource_version: String::new(),
            pool: pool.unwrap_or(NOT_YET_SET).to_owned(),
            desired: desired.unwrap_or(NOT_YET_SET).to_owned(),
            owner: Some(node.uid.clone()),
            uid: String::new(),
        }
    }

    fn says_what(&self, other: &Self) -> bool {
        self.name == other.name
            && self.pool == other.pool
            && self.desired == other.desired
            && self.owner == other.owner
    }
}

/// Nodes whose objects were deleted: their daemons do not know it. Its clones are one.
///
/// It is lost with the process. A daemon that nothing tells of it writes with the next change of
/// its Node's phase.
#[derive(Debug, Clone, Default)]
pub struct LostObjects(Arc<Mutex<BTreeSet<String>>>);

impl LostObjects {
    /// Remembers an object that was there and is not.
    pub fn note(&self, before: Option<&NodeAssignment>, after: Option<&NodeAssignment>) {
        if let (Some(before), None) = (before, after) {
            self.names().insert(before.name.clone());
        }
    }

    fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // Nothing panics while it is held; a poisoned lock still holds whole values.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectDifference {
    /// It is missing, or says something else.
    Write(NodeAssignment),
    /// It has no node; this is how it is.
    Remove(NodeAssignment),
}

/// What the objects differ in from `nodes`, sorted into their pools.
pub fn differences(
    nodes: &Table<Nodes>,
    sorted: &Membership<'_>,
    known: &Table<MachineConfigNodes>,
) -> Vec<ObjectDifference> {
    let members = sorted.members.iter();
    let pools: BTreeMap<&str, &str> = members
        .flat_map(|(pool, nodes)| nodes.iter().map(|node| (node.name.as_str(), *pool)))
        .collect();
    let mut found = Vec::new();
    for node in nodes.values().filter(|node| !node.is_windows()) {
        let pool = pools.get(node.name.as_str()).copied();
        let says = NodeAssignment::of(node, pool);
        let is_right = known
            .get(&node.name)
            .is_some_and(|known| known.says_what(&says));
        if !is_right {
            found.push(ObjectDifference::Write(says));
        }
    }
    for object in known.values() {
        let node = nodes.get(&object.name);
        if node.is_none_or(|node| node.is_windows()) {
            found.push(ObjectDifference::Remove(object.as_ref().clone()));
        }
    }
    found
}

/// Whether a change of a Node may change what its object says.
pub fn concerns(before: Option<&NodeView>, after: Option<&NodeView>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => {
            before.uid != after.uid
                || before.labels != after.labels
                || before.initial_config != after.initial_config
                || before.status.desired_config != after.status.desired_config
        }
        _ => true,
    }
}

impl Controller {
    /// Makes the MachineConfigNodes what they have to be.
    pub(crate) async fn reconcile_node_objects(&self, snapshot: &Snapshot) -> Next {
        let pools = snapshot.pools.values().map(|pool| pool.view.clone());
        let pools: Vec<PoolView> = pools.collect();
        let nodes = snapshot.nodes.values().map(AsRef::as_ref);
        let sorted = snapshot.sort(nodes, &pools);
        let found = differences(&snapshot.nodes, &sorted, &snapshot.node_objects);
        let writes = found.into_iter().map(async |difference| {
            let _turn = self.other_writes.acquire().await;
            match difference {
                ObjectDifference::Write(says) => {
                    let written = self.requests.write_node_object(&says).await?;
                    self.store.node_objects.apply(WatchEvent::Applied(written));
                    Ok(())
                }
                ObjectDifference::Remove(object) => self.requests.remove_node_object(&object).await,
            }
        });
        let mut written = stream::iter(writes).buffered(WRITES);
        let mut next = Next::Settled;
        while let Some(result) = written.next().await {
            let result: Result<(), cluster::wire::Error> = result;
            match result {
                Ok(()) => {}
                // Its daemon writes the status meanwhile.
                Err(error) if error.code() == Some(409) => next = Next::Retry,
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "cannot write a MachineConfigNode");
                    next = Next::Retry;
                }
            }
        }
        let is_cleared = self.clear_left(snapshot, &sorted).await;
        if self.name_renewed(snapshot).await && is_cleared {
            next
        } else {
            Next::Retry
        }
    }

    /// Takes the marks of waiting nodes from those that left all pools. False where one could not
    /// be written yet.
    async fn clear_left(&self, snapshot: &Snapshot, sorted: &Membership<'_>) -> bool {
        let members = sorted.members.values().flatten();
        let members: BTreeSet<&str> = members.map(|node| node.name.as_str()).collect();
        let left = snapshot.nodes.values();
        let left = left.filter(|node| !members.contains(node.name.as_str()));
        let writes: Vec<NodeWrite> = left.filter_map(|node| NodeWrite::of_left(node)).collect();
        let mut is_finished = true;
        for write in writes {
            match self.requests.write_node(&write).await {
                Ok(written) => self.store.nodes.refresh(written),
                Err(error) if error.code() == Some(404) => {}
                Err(error) => {
                    tracing::debug!(node = write.node, error = %Chain(&error), "cannot clear a node that left its pool yet");
                    is_finished = false;
                }
            }
        }
        is_finished
    }

    /// Names objects that were made anew on their Nodes, whose daemons then write their status.
    /// False where one could not be named yet.
    async fn name_renewed(&self, snapshot: &Snapshot) -> bool {
        let lost: Vec<String> = self.store.lost_objects.names().iter().cloned().collect();
        let mut is_finished = true;
        for name in lost {
            let object = self.store.node_objects.get(&name);
            let node = snapshot.nodes.get(&name);
            let managed = node.filter(|node| node.status.current_config.is_some());
            let result = match (managed, object) {
                // A node without a daemon that reads it.
                (None, _) => Ok(()),
                (Some(_), None) => {
                    is_finished = false;
                    continue;
                }
                (Some(node), Some(object)) => {
                    let uid = Some(object.uid.clone());
                    let write = NodeWrite {
                        node: name.clone(),
                        resource_version: node.resource_version.clone(),
                        labels: BTreeMap::new(),
                        annotations: [(annotation::NODE_OBJECT, uid)].into(),
                        taints: None,
                    };
                    let written = self.requests.write_node(&write).await;
                    written.map(|written| self.store.nodes.refresh(written))
                }
            };
            match result {
                Ok(()) => {
                    self.store.lost_objects.names().remove(&name);
                }
                Err(error) => {
                    tracing::debug!(node = name, error = %Chain(&error), "cannot name a MachineConfigNode yet");
                    is_finished = false;
                }
            }
        }
        is_finished
    }
}

#[cfg(test)]
mod tests;
