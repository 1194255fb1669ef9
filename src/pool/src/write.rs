//! What to change on a Node.

use std::collections::BTreeMap;

use api::machineconfiguration::{annotation, label};
use k8s_openapi::api::core::v1::Taint;
use serde_json::{Map, Value, json};

use crate::node::NodeView;
use crate::view::PoolView;

/// Effect of the taint: pods rather go elsewhere, but none is refused or evicted.
const EFFECT: &str = "PreferNoSchedule";

/// A change of one Node. The version that was read guards it: it replaces the list of taints, and
/// a delayed write must fail (see [`crate::claim`]).
#[derive(Debug, Clone, PartialEq)]
pub struct NodeWrite {
    /// Name of the node.
    pub node: String,
    /// Version of the object that was read.
    pub resource_version: String,
    /// Labels to set.
    pub labels: BTreeMap<String, String>,
    /// Annotations to set, or with `None` to remove.
    pub annotations: BTreeMap<&'static str, Option<String>>,
    /// All taints, where they change.
    pub taints: Option<Vec<Taint>>,
}

impl NodeWrite {
    /// The change that a node needs: its new target if it is assigned one, the taint of nodes that
    /// wait for an update, and the topology that its daemon reads. `None` when nothing differs.
    ///
    /// The taint is set while a node waits, and removed when the node is done or the pool rolls out
    /// nothing. A node that is assigned at once gets no taint: its daemon cordons it soon.
    pub fn of(
        node: &NodeView,
        pool: &PoolView,
        is_assigned: bool,
        topology: Option<&str>,
    ) -> Option<Self> {
        let mut annotations = BTreeMap::new();
        if is_assigned && let Some(target) = &pool.target {
            annotations.insert(annotation::DESIRED_CONFIG, Some(target.clone()));
            if node.status.desired_image.is_some() {
                annotations.insert(annotation::DESIRED_IMAGE, None);
            }
        }
        if let Some(topology) = topology
            && node.status.topology.as_deref() != Some(topology)
        {
            annotations.insert(
                annotation::CONTROL_PLANE_TOPOLOGY,
                Some(topology.to_owned()),
            );
        }
        let taints = taints(node, pool, is_assigned);
        (!annotations.is_empty() || taints.is_some()).then(|| Self {
            node: node.name.clone(),
            resource_version: node.resource_version.clone(),
            labels: BTreeMap::new(),
            annotations,
            taints,
        })
    }

    /// Sets the labels of the node's initial pool, once.
    pub fn initial_labels(node: &NodeView, pool: &PoolView) -> Self {
        let annotations =
            BTreeMap::from([(annotation::CUSTOM_POOL_LABELS_APPLIED, Some(String::new()))]);
        Self {
            node: node.name.clone(),
            resource_version: node.resource_version.clone(),
            labels: pool.node_labels.clone(),
            annotations,
            taints: None,
        }
    }

    /// The body of the merge patch.
    pub fn to_patch(&self) -> Value {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), json!(self.resource_version));
        if !self.labels.is_empty() {
            metadata.insert("labels".to_owned(), json!(self.labels));
        }
        if !self.annotations.is_empty() {
            metadata.insert("annotations".to_owned(), json!(self.annotations));
        }
        let mut patch = Map::new();
        patch.insert("metadata".to_owned(), Value::Object(metadata));
        if let Some(taints) = &self.taints {
            let taints = if taints.is_empty() {
                Value::Null
            } else {
                json!(taints)
            };
            patch.insert("spec".to_owned(), json!({ "taints": taints }));
        }
        Value::Object(patch)
    }
}

fn is_ours(taint: &Taint) -> bool {
    taint.key == label::UPDATE_IN_PROGRESS_TAINT
}

fn taints(node: &NodeView, pool: &PoolView, is_assigned: bool) -> Option<Vec<Taint>> {
    let has = node.taints.iter().any(is_ours);
    let needs = match &pool.target {
        Some(_) if !pool.is_rolling() => false,
        Some(_) if is_assigned => has,
        Some(target) if node.status.is_assigned_to(target) => has && !node.status.is_done(),
        Some(_) => node.status.current_config.is_some(),
        None => false,
    };
    if has == needs {
        return None;
    }
    let mut taints: Vec<Taint> = node
        .taints
        .iter()
        .filter(|taint| !is_ours(taint))
        .cloned()
        .collect();
    if needs {
        taints.push(Taint {
            key: label::UPDATE_IN_PROGRESS_TAINT.to_owned(),
            effect: EFFECT.to_owned(),
            value: None,
            time_added: None,
        });
    }
    Some(taints)
}

#[cfg(test)]
mod tests;
