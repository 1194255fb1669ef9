//! What to change on a Node.

use std::collections::BTreeMap;

use api::machineconfiguration::label::role;
use api::machineconfiguration::node_status::Reading;
use api::machineconfiguration::{Target, annotation, label};
use k8s_openapi::api::core::v1::Taint;
use serde_json::{Map, Value, json};

use crate::membership::InitialPool;
use crate::node::NodeView;
use crate::policy::RolloutPolicy;
use crate::view::PoolView;

/// Effect of the taint: pods rather go elsewhere, but none is refused or evicted.
const EFFECT: &str = "PreferNoSchedule";

/// Effect of the taint of nodes that take no pods of workers.
const NO_SCHEDULE: &str = "NoSchedule";

/// A change of one Node. The version that was read guards it: it replaces the list of taints, and
/// a delayed write must fail (see [`crate::claim`]).
#[derive(Debug, Clone, PartialEq)]
pub struct NodeWrite {
    pub node: String,
    /// Version of the object that was read.
    pub resource_version: String,
    /// Labels to set, or with `None` to remove.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations to set, or with `None` to remove.
    pub annotations: BTreeMap<&'static str, Option<String>>,
    /// All taints, where they change.
    pub taints: Option<Vec<Taint>>,
}

/// What the cluster says about its nodes. `None` where it does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClusterFacts<'a> {
    /// Topology of the control plane, which daemons read.
    pub topology: Option<&'a str>,
    /// Whether nodes of the control plane take the pods of workers.
    pub masters_schedulable: Option<bool>,
}

impl NodeWrite {
    /// The change that a node needs: its new target if it is assigned one; taint, and what they may
    /// fetch before their turn, of nodes that wait for an update; pinned image sets, if it is
    /// assigned others; the topology that its daemon reads; roles and taints of a master. `None`
    /// when nothing differs.
    ///
    /// The taint is set while a node waits, and removed when the node is done, is put on hold, or
    /// the pool rolls out nothing. A node that is assigned what it has fetched loses the taint with
    /// the same write: its daemon cordons it in the next moment. One that is assigned at once gets
    /// none.
    pub fn of(
        node: &NodeView,
        pool: &PoolView,
        is_assigned: bool,
        facts: ClusterFacts<'_>,
    ) -> Option<Self> {
        let mut annotations = BTreeMap::new();
        if is_assigned && let Some(target) = &pool.target {
            annotations.insert(annotation::DESIRED_CONFIG, Some(target.config.clone()));
            if node.quarantined.is_some() {
                annotations.insert(annotation::QUARANTINED, None);
            }
            if node.status.desired_image != target.image {
                annotations.insert(annotation::DESIRED_IMAGE, target.image.clone());
            }
        }
        if let Some(topology) = facts.topology
            && node.status.topology.as_deref() != Some(topology)
        {
            annotations.insert(
                annotation::CONTROL_PLANE_TOPOLOGY,
                Some(topology.to_owned()),
            );
        }
        if let Some(list) = pool.pins.as_ref().and_then(|round| round.assigns(node)) {
            let list = Some(list.to_string()).filter(|list| !list.is_empty());
            annotations.insert(annotation::DESIRED_PINS, list);
            if node.status.not_pinned.is_some() {
                // It is about other sets. Were it kept, the node would seem to have no turn.
                annotations.insert(annotation::NOT_PINNED, None);
            }
        }
        let next = next_target(node, pool, is_assigned);
        if node.status.next != next.clone().map(Reading::Known) {
            let next = next.as_ref().map(ToString::to_string);
            annotations.insert(annotation::NEXT_CONFIG, next);
        }
        let policy = pool.policy.as_ref().filter(|_| next.is_some());
        let limit = policy.and_then(RolloutPolicy::prefetch_bytes_per_second);
        if node.status.next_bytes_per_second != limit.map(Reading::Known) {
            let limit = limit.map(|limit| limit.to_string());
            annotations.insert(annotation::NEXT_BYTES_PER_SECOND, limit);
        }
        let mut taints = waiting_taint(node, pool, is_assigned);
        let mut labels = BTreeMap::new();
        if pool.name == role::MASTER {
            labels = roles_of_master(node, facts.masters_schedulable);
            taints = taints_of_master(&taints, facts.masters_schedulable);
        }
        let taints = (taints != node.taints).then_some(taints);
        let changes = !labels.is_empty() || !annotations.is_empty() || taints.is_some();
        changes.then(|| Self {
            node: node.name.clone(),
            resource_version: node.resource_version.clone(),
            labels,
            annotations,
            taints,
        })
    }

    /// Gives up a node that cannot be drained for `target`: it gets back what it runs, and the
    /// cordon becomes one that its daemon leaves in place.
    pub fn quarantine(node: &NodeView, target: &Target) -> Self {
        let current = node.status.current_config.clone();
        let mut annotations = BTreeMap::from([
            (annotation::DESIRED_CONFIG, current),
            (annotation::CORDONED_BY, None),
            (annotation::QUARANTINED, Some(target.to_string())),
        ]);
        if node.status.desired_image != node.status.current_image {
            let current = node.status.current_image.clone();
            annotations.insert(annotation::DESIRED_IMAGE, current);
        }
        Self {
            node: node.name.clone(),
            resource_version: node.resource_version.clone(),
            labels: BTreeMap::new(),
            annotations,
            taints: None,
        }
    }

    /// Takes the marks of a waiting node from one that is in no pool any more: nothing else would.
    /// Its pinned image sets too, unless more than one pool selects it (`is_contested`): it is left
    /// as it is until one does. `None` where it has nothing of that.
    pub fn of_left(node: &NodeView, is_contested: bool) -> Option<Self> {
        let mut annotations = BTreeMap::new();
        if node.status.desired_pins.is_some() && !is_contested {
            annotations.insert(annotation::DESIRED_PINS, None);
        }
        if node.status.next.is_some() {
            annotations.insert(annotation::NEXT_CONFIG, None);
        }
        if node.status.next_bytes_per_second.is_some() {
            annotations.insert(annotation::NEXT_BYTES_PER_SECOND, None);
        }
        let has_taint = node.taints.iter().any(is_ours);
        let taints = has_taint.then(|| {
            let others = node.taints.iter().filter(|taint| !is_ours(taint));
            others.cloned().collect()
        });
        let changes = !annotations.is_empty() || taints.is_some();
        changes.then(|| Self {
            node: node.name.clone(),
            resource_version: node.resource_version.clone(),
            labels: BTreeMap::new(),
            annotations,
            taints,
        })
    }

    /// Sets the labels of the node's initial pool, once: those that a person gave instead stay.
    /// Nothing while the pool does not determine these labels.
    pub fn initial_labels(node: &NodeView, initial: InitialPool<'_>) -> Option<Self> {
        let labels = match initial {
            InitialPool::Labels(pool) => pool.node_labels.clone(),
            InitialPool::Labelled(_) => BTreeMap::new(),
            InitialPool::Unknown(_) => return None,
        };
        let annotations =
            BTreeMap::from([(annotation::CUSTOM_POOL_LABELS_APPLIED, Some(String::new()))]);
        let labels = labels.into_iter();
        Some(Self {
            node: node.name.clone(),
            resource_version: node.resource_version.clone(),
            labels: labels.map(|(key, value)| (key, Some(value))).collect(),
            annotations,
            taints: None,
        })
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

/// What a node may fetch before its turn: the target that it waits for, else what it rehearses.
fn next_target(node: &NodeView, pool: &PoolView, is_assigned: bool) -> Option<Target> {
    let target = pool.target.as_ref()?;
    let waits =
        !is_assigned && node.status.current_config.is_some() && !node.status.is_assigned_to(target);
    if waits {
        // A node on hold has no turn to prepare for.
        let may_fetch = pool.prefetches && pool.is_rolling() && node.hold.is_none();
        return may_fetch.then(|| target.clone());
    }
    let rehearsal = pool.rehearsal.as_ref()?;
    let is_here = rehearsal.node.as_ref() == Some(&node.name);
    let image = target.image.clone();
    (is_here && !is_assigned).then(|| Target {
        config: rehearsal.config.clone(),
        image,
    })
}

fn is_ours(taint: &Taint) -> bool {
    taint.key == label::UPDATE_IN_PROGRESS_TAINT
}

/// The labels that a node of the control plane lacks, and those that it must not have.
///
/// Source: `docs/reference/controller.md`, "Control plane".
fn roles_of_master(
    node: &NodeView,
    masters_schedulable: Option<bool>,
) -> BTreeMap<String, Option<String>> {
    let mut labels = BTreeMap::new();
    let has = |role: &str| node.labels.contains_key(role);
    if !has(label::CONTROL_PLANE) {
        labels.insert(label::CONTROL_PLANE.to_owned(), Some(String::new()));
    }
    match masters_schedulable {
        Some(true) if !has(label::WORKER) => {
            labels.insert(label::WORKER.to_owned(), Some(String::new()));
        }
        Some(false) if has(label::WORKER) => {
            labels.insert(label::WORKER.to_owned(), None);
        }
        Some(_) | None => {}
    }
    labels
}

/// The taints that keep pods of workers off a node of the control plane, or do not.
fn taints_of_master(taints: &[Taint], masters_schedulable: Option<bool>) -> Vec<Taint> {
    let keeps_off = |taint: &Taint, keys: &[&str]| {
        taint.effect == NO_SCHEDULE && keys.contains(&taint.key.as_str())
    };
    let mut taints = taints.to_vec();
    match masters_schedulable {
        Some(true) => {
            taints.retain(|taint| !keeps_off(taint, &[label::MASTER, label::CONTROL_PLANE]));
        }
        Some(false) if !taints.iter().any(|it| keeps_off(it, &[label::MASTER])) => {
            taints.push(taint(label::MASTER, NO_SCHEDULE));
        }
        Some(false) | None => {}
    }
    taints
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint {
        key: key.to_owned(),
        effect: effect.to_owned(),
        value: None,
        time_added: None,
    }
}

/// The node's taints with the one of nodes that wait for an update, or without it.
fn waiting_taint(node: &NodeView, pool: &PoolView, is_assigned: bool) -> Vec<Taint> {
    let has = node.taints.iter().any(is_ours);
    let needs = match &pool.target {
        Some(_) if !pool.is_rolling() => false,
        // Until it has fetched the target it takes pods that have to leave it soon.
        Some(target) if is_assigned => has && !node.status.has_fetched(target),
        Some(target) if node.status.is_assigned_to(target) => has && !node.status.is_done(),
        Some(_) => node.status.current_config.is_some() && node.hold.is_none(),
        None => false,
    };
    if has == needs {
        return node.taints.clone();
    }
    let mut taints: Vec<Taint> = node
        .taints
        .iter()
        .filter(|taint| !is_ours(taint))
        .cloned()
        .collect();
    if needs {
        taints.push(taint(label::UPDATE_IN_PROGRESS_TAINT, EFFECT));
    }
    taints
}

#[cfg(test)]
mod tests;
