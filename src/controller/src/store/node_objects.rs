//! What is kept of MachineConfigNodes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::machineconfiguration::MachineConfigNode;
use api::machineconfiguration::machine_config_node::NOT_YET_SET;
use cluster::cache::CachedKind;
use operator::Watched;
use pool::node::NodeView;

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
    /// OS image that it was assigned with it.
    pub image: Option<String>,
    /// Uid of the Node that owns it.
    pub owner: Option<String>,
    /// Uid of the object; empty before it is written.
    pub uid: String,
}

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
    pub fn parse(object: MachineConfigNode) -> Self {
        let owners = object.metadata.owner_references.unwrap_or_default();
        let owner = owners.into_iter().find(|owner| owner.kind == "Node");
        Self {
            name: object.metadata.name.unwrap_or_default(),
            resource_version: object.metadata.resource_version.unwrap_or_default(),
            pool: object.spec.pool.name,
            desired: object.spec.config_version.desired,
            image: object.spec.config_image.map(|image| image.desired_image),
            owner: owner.map(|owner| owner.uid),
            uid: object.metadata.uid.unwrap_or_default(),
        }
    }

    /// What the object of a node in this pool says.
    pub(crate) fn of(node: &NodeView, pool: Option<&str>) -> Self {
        let desired = node.status.desired_config.as_deref();
        Self {
            name: node.name.clone(),
            resource_version: String::new(),
            pool: pool.unwrap_or(NOT_YET_SET).to_owned(),
            desired: desired.unwrap_or(NOT_YET_SET).to_owned(),
            image: node.status.desired_image.clone(),
            owner: Some(node.uid.clone()),
            uid: String::new(),
        }
    }

    /// Whether both have what this controller writes.
    pub(crate) fn says_what(&self, other: &Self) -> bool {
        self.image == other.image && self.says_what_but_image(other)
    }

    /// The same, whatever image either names.
    pub(crate) fn says_what_but_image(&self, other: &Self) -> bool {
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

    pub(crate) fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // Nothing panics while it is held; a poisoned lock still holds whole values.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
