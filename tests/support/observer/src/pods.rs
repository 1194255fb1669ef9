//! Where pods were, and until when, as the writes to them left them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use lab::audit::{Event, Verb};
use serde::Deserialize as _;
use serde_json::Value;

/// A pod's time on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodLife {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The node it was bound to.
    pub node: String,
    /// Whether a drain has to move it: it belongs to no DaemonSet, and to no file of the node.
    pub leaves: bool,
    /// The first write that shows it on the node.
    pub from: Timestamp,
    /// When it ended or was gone; none while it is there.
    pub until: Option<Timestamp>,
}

impl PodLife {
    /// Whether it was on its node at this moment.
    pub fn is_bound_at(&self, at: Timestamp) -> bool {
        self.from <= at && self.until.is_none_or(|until| until > at)
    }
}

/// All pods that were ever bound to a node.
pub fn lives(events: &[Event]) -> Vec<PodLife> {
    let mut lives = BTreeMap::<String, PodLife>::new();
    for event in events
        .iter()
        .filter(|event| event.concerns("", "pods") && event.succeeded())
    {
        let Some(pod) = event.response.as_ref().and_then(pod) else {
            continue;
        };
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else {
            continue;
        };
        let metadata = &pod.metadata;
        let life = lives
            .entry(metadata.uid.clone().unwrap_or_default())
            .or_insert_with(|| PodLife {
                namespace: metadata.namespace.clone().unwrap_or_default(),
                name: metadata.name.clone().unwrap_or_default(),
                node,
                leaves: leaves(&pod),
                from: event.at,
                until: None,
            });
        if life.until.is_none() && (is_finished(&pod) || is_gone(event, &pod)) {
            life.until = Some(event.at);
        }
    }
    lives.into_values().collect()
}

/// The response to an eviction, and lists, are no pod.
fn pod(object: &Value) -> Option<Pod> {
    (object.get("kind")? == "Pod").then(|| Pod::deserialize(object).ok())?
}

fn leaves(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    let is_static = annotations.is_some_and(|all| all.contains_key("kubernetes.io/config.mirror"));
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let is_of_daemon_set =
        owners.any(|owner| owner.kind == "DaemonSet" && owner.controller == Some(true));
    !is_static && !is_of_daemon_set
}

fn is_finished(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether this is the delete that takes the object away, not one that asks its containers to end.
fn is_gone(event: &Event, pod: &Pod) -> bool {
    let grace_period = event
        .request
        .as_ref()
        .and_then(|options| options.get("gracePeriodSeconds"));
    event.verb == Verb::Delete
        && (grace_period.is_some_and(|grace| *grace == 0)
            || pod.metadata.deletion_grace_period_seconds == Some(0))
}
