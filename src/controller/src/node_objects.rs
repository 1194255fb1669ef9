//! MachineConfigNodes: one for every node, with what the node is assigned.
//!
//! The controller makes, keeps and removes the objects; each node's daemon writes the status of its
//! own. A node without a pool has one, too. A Windows node has none: no daemon runs there.
//!
//! What daemons read by themselves is announced on their Nodes here: an object that was recreated,
//! and other certificates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use api::machineconfiguration::{annotation, controller_config};
use chassis::report::Chain;
use cluster::cache::{Table, WatchEvent};
use futures::StreamExt as _;
use futures::stream;
use operator::Next;
use pool::membership::Membership;
use pool::node::NodeView;
use pool::view::PoolView;
use pool::write::NodeWrite;

use crate::certificates;
use crate::context::{Context, WRITES, lock};
use crate::store::node_objects::{MachineConfigNodes, NodeAssignment};
use crate::store::{Nodes, Snapshot};

/// What an API server says of an applied image where its definition of the objects has none, as
/// OpenShift's by default.
const UNKNOWN_IMAGE: &str = ".spec.configImage: field not declared in schema";

/// What is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectDifference {
    /// It is missing, or says something else.
    Write(NodeAssignment),
    /// It has no node; this is how it is.
    Remove(NodeAssignment),
}

/// What the objects differ in from `nodes`, sorted into their pools. Images count where the
/// cluster's definition of the objects has them.
pub fn differences(
    nodes: &Table<Nodes>,
    sorted: &Membership<'_>,
    objects: &Table<MachineConfigNodes>,
    has_images: bool,
) -> Vec<ObjectDifference> {
    let members = sorted.members.iter();
    let pools: BTreeMap<&str, &str> = members
        .flat_map(|(pool, nodes)| nodes.iter().map(|node| (node.name.as_str(), *pool)))
        .collect();
    let mut found = Vec::new();
    for node in nodes.values().filter(|node| !node.is_windows()) {
        let pool = pools.get(node.name.as_str()).copied();
        let says = NodeAssignment::of(node, pool);
        let is_right = objects.get(&node.name).is_some_and(|object| {
            object.says_what(&says) || (!has_images && object.says_what_but_image(&says))
        });
        if !is_right {
            found.push(ObjectDifference::Write(says));
        }
    }
    for object in objects.values() {
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
                || before.status.desired_image != after.status.desired_image
                || before.certificates != after.certificates
        }
        _ => true,
    }
}

/// Makes the MachineConfigNodes what they have to be.
///
/// Shape: `announced` are the certificates that were announced last.
pub(crate) async fn reconcile(
    context: &Context,
    announced: &Mutex<Option<AnnouncedCertificates>>,
    snapshot: &Snapshot,
) -> Next {
    let pools = snapshot.pools.values().map(|pool| pool.view.clone());
    let pools: Vec<PoolView> = pools.collect();
    let nodes = snapshot.nodes.values().map(AsRef::as_ref);
    let sorted = snapshot.sort(nodes, &pools);
    let lacks_images = &context.store.lacks_node_images;
    let has_images = !lacks_images.load(Ordering::Relaxed);
    let found = differences(&snapshot.nodes, &sorted, &snapshot.node_objects, has_images);
    let writes = found.into_iter().map(async |difference| {
        let _turn = context.other_writes.acquire().await;
        match difference {
            ObjectDifference::Write(says) => {
                let mut written = context.requests.write_node_object(&says).await;
                if let Err(error) = &written
                    && says.image.is_some()
                    && error.to_string().contains(UNKNOWN_IMAGE)
                {
                    tracing::info!("the definition of MachineConfigNodes has no configImage");
                    lacks_images.store(true, Ordering::Relaxed);
                    let without = NodeAssignment {
                        image: None,
                        ..says
                    };
                    written = context.requests.write_node_object(&without).await;
                }
                let written = written?;
                context
                    .store
                    .node_objects
                    .apply(WatchEvent::Applied(written));
                Ok(())
            }
            ObjectDifference::Remove(object) => context.requests.remove_node_object(&object).await,
        }
    });
    let mut written = stream::iter(writes).buffered(WRITES);
    let mut next = Next::Settled;
    while let Some(result) = written.next().await {
        let result: Result<(), cluster::wire::Error> = result;
        match result {
            Ok(()) => {}
            // Its daemon writes the status meanwhile.
            Err(error) if error.is_conflict() => next = Next::Retry,
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "cannot write a MachineConfigNode");
                next = Next::Retry;
            }
        }
    }
    let is_cleared = clear_left(context, snapshot, &sorted).await;
    let is_announced = announce_certificates(context, announced, snapshot).await;
    if name_renewed(context, snapshot).await && is_cleared && is_announced {
        next
    } else {
        Next::Retry
    }
}

/// Takes the marks of waiting nodes and pinned image sets from those that left all pools. False
/// where one could not be written yet.
async fn clear_left(context: &Context, snapshot: &Snapshot, sorted: &Membership<'_>) -> bool {
    let members = sorted.members.values().flatten();
    let members: BTreeSet<&str> = members.map(|node| node.name.as_str()).collect();
    let left = snapshot.nodes.values();
    let left = left.filter(|node| !members.contains(node.name.as_str()));
    let conflicts = sorted.conflicts.iter();
    let contested: BTreeSet<&str> = conflicts.map(|conflict| conflict.node.as_str()).collect();
    let is_contested = |node: &NodeView| contested.contains(node.name.as_str());
    let writes: Vec<NodeWrite> = left
        .filter_map(|node| NodeWrite::of_left(node, is_contested(node)))
        .collect();
    let mut is_finished = true;
    for write in writes {
        match context.requests.write_node(&write).await {
            Ok(written) => context.store.nodes.refresh(written),
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                tracing::debug!(node = write.node, error = %Chain(&error), "cannot clear a node that left its pool yet");
                is_finished = false;
            }
        }
    }
    is_finished
}

/// The digest of the certificates of one version of the ControllerConfig.
#[derive(Debug, Clone)]
pub struct AnnouncedCertificates {
    version: Option<String>,
    digest: String,
}

/// What is announced of certificates; the digest is made once for each version.
fn certificates(context: &Context, announced: &Mutex<Option<AnnouncedCertificates>>) -> String {
    let config = context
        .store
        .controller_configs
        .get(controller_config::NAME);
    let Some(config) = config else {
        return certificates::NONE.to_owned();
    };
    let mut announced = lock(announced);
    match &*announced {
        Some(announced) if announced.version == config.metadata.resource_version => {
            announced.digest.clone()
        }
        _ => {
            let digest = certificates::digest(&config);
            *announced = Some(AnnouncedCertificates {
                version: config.metadata.resource_version.clone(),
                digest: digest.clone(),
            });
            digest
        }
    }
}

/// Announces other certificates on managed Nodes. Without a ControllerConfig, that there is none
/// where nothing was announced: one that is missing for a while takes none away. False where a Node
/// could not be written yet.
async fn announce_certificates(
    context: &Context,
    announced: &Mutex<Option<AnnouncedCertificates>>,
    snapshot: &Snapshot,
) -> bool {
    let announced = certificates(context, announced);
    let is_behind = |node: &&Arc<NodeView>| {
        let knows = match &node.certificates {
            Some(written) => *written == announced || announced == certificates::NONE,
            None => false,
        };
        !knows && node.status.current_config.is_some() && !node.is_windows()
    };
    let behind: Vec<NodeWrite> = snapshot
        .nodes
        .values()
        .filter(is_behind)
        .map(|node| NodeWrite {
            node: node.name.clone(),
            resource_version: node.resource_version.clone(),
            labels: BTreeMap::new(),
            annotations: [(annotation::CERTIFICATES, Some(announced.clone()))].into(),
            taints: None,
        })
        .collect();
    let writes = behind.into_iter().map(async |write| {
        let _turn = context.other_writes.acquire().await;
        match context.requests.write_node(&write).await {
            Ok(written) => context.store.nodes.refresh(written),
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                tracing::debug!(node = write.node, error = %Chain(&error), "cannot announce certificates on a node yet");
                return false;
            }
        }
        true
    });
    let announced: Vec<bool> = stream::iter(writes).buffered(WRITES).collect().await;
    announced.into_iter().all(|is_announced| is_announced)
}

/// Names recreated objects on their Nodes, whose daemons then write their status. False where one
/// could not be named yet.
async fn name_renewed(context: &Context, snapshot: &Snapshot) -> bool {
    let lost: Vec<String> = context.store.lost_objects.names().iter().cloned().collect();
    let mut is_finished = true;
    for name in lost {
        let object = context.store.node_objects.get(&name);
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
                let written = context.requests.write_node(&write).await;
                written.map(|written| context.store.nodes.refresh(written))
            }
        };
        match result {
            Ok(()) => {
                context.store.lost_objects.names().remove(&name);
            }
            Err(error) => {
                tracing::debug!(node = name, error = %Chain(&error), "cannot name a MachineConfigNode yet");
                is_finished = false;
            }
        }
    }
    is_finished
}

#[cfg(test)]
mod tests;
