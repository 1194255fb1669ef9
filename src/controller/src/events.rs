//! Events that operators search for, each recorded once.
//!
//! - `pending`: assignments that wait for their event

mod pending;

use std::fmt;

use api::ConditionStatus;
use api::config::NodeSettings;
use api::machineconfiguration::machine_config_pool::PoolConditionType;
use api::machineconfiguration::{MachineConfigPool, Target, annotation};
use cluster::events::{EventSubject, Recorder, Severity};
use jiff::Timestamp;
use pool::list::NameList;
use pool::node::NodeView;
use pool::status::UPDATED_WITH;

pub(crate) use self::pending::PendingAssignments;
use crate::store::Pool;

/// Reason of the event about a managed node in no pool.
const NO_POOL: &str = "NodeInNoPool";

/// Reason of the event about a node that did not get the labels of the pool it was made for.
const UNLABELLED: &str = "InitialLabelsMissing";

/// Reason of the event about the assignment of a node of the control plane; upstream's.
const ASSIGNED: &str = "AnnotationChange";

/// Reason of the event about a step between latency profiles that is not made.
const PROHIBITED: &str = "ActionProhibited";

/// An event about a pool.
///
/// Source of reasons and texts: upstream's render and node controllers; those of a pool that cannot
/// be rolled are its condition's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolEvent {
    /// A configuration was rendered and stored.
    Rendered {
        config: String,
        release: String,
        /// Build that rendered it.
        build: String,
    },
    /// A rendered configuration was edited, and is again what was rendered.
    Restored { config: String },
    /// An object that is not the pool's has the name of its configuration.
    Refused {
        /// Why, and what to do.
        message: String,
    },
    /// Rendered configurations that nothing uses were removed.
    Removed { configs: Vec<String> },
    /// The pool cannot be rendered.
    RenderDegraded {
        /// Message of the condition.
        message: String,
    },
    /// A user's configuration replaces the OS image of the release.
    ImageOverridden { source: String, image: String },
    /// A source has parts that mean nothing.
    Warned { source: String, warning: String },
    /// A selector of the pool is `{}`.
    SelectingAll {
        /// What it would select: `machineconfigs` or `nodes`.
        what: &'static str,
    },
    /// Nodes were assigned.
    Targeted {
        nodes: Vec<String>,
        /// What they are to reach.
        target: Target,
    },
    /// A node could not be drained in time, and is passed over.
    Quarantined { node: String },
    /// The node that the controller runs on waits for the others.
    Deferred { node: String },
    /// All nodes run the pool's configuration.
    Completed {
        /// What they run, as the condition names it.
        reached: String,
    },
    /// Something has no effect, because nothing handles it.
    Unsupported {
        /// Message of the condition.
        message: String,
    },
    /// Nodes do not have their pinned images, or it is not determined which sets the pool has.
    PinnedImageSetsDegraded {
        /// Message of the condition.
        message: String,
    },
    /// The pool cannot be rolled.
    RolloutDegraded {
        /// Reason of the condition.
        reason: String,
        /// Message of the condition.
        message: String,
    },
}

impl PoolEvent {
    fn severity(&self) -> Severity {
        match self {
            Self::Rendered { .. }
            | Self::Removed { .. }
            | Self::Deferred { .. }
            | Self::ImageOverridden { .. }
            | Self::Targeted { .. }
            | Self::Completed { .. } => Severity::Normal,
            Self::Warned { .. }
            | Self::Quarantined { .. }
            | Self::Restored { .. }
            | Self::Refused { .. }
            | Self::RenderDegraded { .. }
            | Self::SelectingAll { .. }
            | Self::Unsupported { .. }
            | Self::PinnedImageSetsDegraded { .. }
            | Self::RolloutDegraded { .. } => Severity::Warning,
        }
    }

    /// The word that operators search for.
    pub fn reason(&self) -> &str {
        match self {
            Self::Rendered { .. } => "RenderedConfigGenerated",
            Self::Restored { .. } => "RenderedConfigRestored",
            Self::Refused { .. } => "RenderedConfigRefused",
            Self::Removed { .. } => "RenderedConfigsRemoved",
            Self::RenderDegraded { .. } => "RenderDegraded",
            Self::ImageOverridden { .. } => "OSImageURLOverridden",
            Self::Warned { .. } => "MachineConfigWarning",
            Self::SelectingAll { .. } => "SelectingAll",
            Self::Targeted { target, .. } if target.image.is_some() => "SetDesiredConfigAndOSImage",
            Self::Targeted { .. } => "SetDesiredConfig",
            Self::Quarantined { .. } => "NodeQuarantined",
            Self::Deferred { .. } => "DeferringOperatorNodeUpdate",
            Self::Completed { .. } => "Completed",
            Self::Unsupported { .. } => "Unsupported",
            Self::PinnedImageSetsDegraded { .. } => "PinnedImageSetsDegraded",
            Self::RolloutDegraded { reason, .. } => reason,
        }
    }

    pub fn message(&self, pool: &str) -> String {
        match self {
            Self::Rendered {
                config,
                release,
                build,
            } => format!(
                "{config} successfully generated (release version: {release}, controller version: {build})"
            ),
            Self::Restored { config } => format!(
                "MachineConfig {config} was edited; it is again what was rendered. Change the MachineConfigs that it is made of instead"
            ),
            Self::ImageOverridden { source, image } => {
                format!("OSImageURL was overridden via machineconfig {source} to {image}")
            }
            Self::Warned { source, warning } => format!("MachineConfig {source}: {warning}"),
            Self::SelectingAll { what } => format!(
                "This machineconfigpool is selecting all {what}. A non-empty selector is required."
            ),
            Self::Targeted { nodes, target } => {
                let config = &target.config;
                let image = target.image.as_ref();
                let image = image.map(|image| format!(" / Image: {image}"));
                let what = format!("MachineConfig: {config}{}", image.unwrap_or_default());
                match nodes.as_slice() {
                    [node] => format!("Targeted node {node} to {what}"),
                    _ => format!("Set target for {} nodes to {what}", nodes.len()),
                }
            }
            Self::Quarantined { node } => format!(
                "node {node} could not be drained in time; it stays cordoned and is passed over until it is uncordoned"
            ),
            Self::Deferred { node } => {
                format!("Deferring update of machine config operator node {node}")
            }
            Self::Completed { reached } => {
                format!("Pool {pool} has completed update to {reached}")
            }
            Self::Removed { configs } => {
                let (count, names) = (
                    configs.len(),
                    NameList::new(configs.iter().map(String::as_str)),
                );
                format!(
                    "Removed {count} rendered MachineConfigs that no pool and no node uses: {names}"
                )
            }
            Self::Refused { message }
            | Self::RenderDegraded { message }
            | Self::Unsupported { message }
            | Self::PinnedImageSetsDegraded { message }
            | Self::RolloutDegraded { message, .. } => message.clone(),
        }
    }
}

/// Records an event about a pool, at the API server and in the log.
pub fn record(recorder: &Recorder, pool: &Pool, event: &PoolEvent, at: Timestamp) {
    let view = &pool.view;
    let subject = EventSubject {
        api_version: "machineconfiguration.openshift.io/v1".to_owned(),
        kind: "MachineConfigPool".to_owned(),
        name: view.name.clone(),
        uid: view.uid.clone(),
    };
    let (reason, message) = (event.reason(), event.message(&view.name));
    match event.severity() {
        Severity::Normal => {
            tracing::info!(message_id = reason, pool = view.name, message, "event");
        }
        Severity::Warning => {
            tracing::warn!(message_id = reason, pool = view.name, message, "event");
        }
    }
    recorder.say(&subject, event.severity(), reason, &message, at);
}

/// Records on the cluster's node settings that a step between latency profiles is not made.
///
/// Source: reason of upstream's node configuration controller.
pub fn record_prohibited(recorder: &Recorder, settings: &NodeSettings, why: &str, at: Timestamp) {
    let subject = EventSubject {
        api_version: "config.openshift.io/v1".to_owned(),
        kind: "Node".to_owned(),
        name: settings.metadata.name.clone().unwrap_or_default(),
        uid: settings.metadata.uid.clone().unwrap_or_default(),
    };
    tracing::warn!(message_id = PROHIBITED, reason = why, "event");
    recorder.say(&subject, Severity::Warning, PROHIBITED, why, at);
}

/// Records the assignment of a node of the control plane: there are few.
///
/// Source: reason and text of upstream's node controller.
pub fn record_assignment(recorder: &Recorder, node: &NodeView, at: Timestamp) {
    let (key, name) = (annotation::DESIRED_CONFIG, &node.name);
    let config = node.status.desired_config.as_deref().unwrap_or_default();
    let message = format!("Node {name} now has {key}={config}");
    tracing::info!(message_id = ASSIGNED, node = name, config, "event");
    recorder.say(&subject(node), Severity::Normal, ASSIGNED, &message, at);
}

fn subject(node: &NodeView) -> EventSubject {
    EventSubject {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.name.clone(),
        uid: node.uid.clone(),
    }
}

/// Records that no pool selects a node that was managed once: nothing updates it, and a mistake in
/// a label is the usual cause.
pub fn record_orphan(recorder: &Recorder, node: &NodeView, at: Timestamp) {
    let current = node.status.current_config.as_deref().unwrap_or_default();
    let message = format!(
        "node {} runs MachineConfig {current} and no MachineConfigPool selects it: it gets no updates",
        node.name
    );
    tracing::warn!(message_id = NO_POOL, node = node.name, current, "event");
    recorder.say(&subject(node), Severity::Warning, NO_POOL, &message, at);
}

/// Why a node did not get the labels of the pool that it was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unlabelled {
    /// The selector of this pool does not tell them.
    Unknown(String),
    /// This pool is gone.
    Lost(String),
}

impl fmt::Display for Unlabelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(pool) => write!(
                f,
                "spec.nodeSelector of MachineConfigPool {pool} does not tell which labels its nodes have: label the node; no pool takes it until then"
            ),
            Self::Lost(pool) => write!(
                f,
                "MachineConfigPool {pool} is gone: the node belongs to the pool that its labels tell"
            ),
        }
    }
}

/// Records why a node did not get the labels of the pool that it was made for.
pub fn record_unlabelled(recorder: &Recorder, node: &NodeView, why: &Unlabelled, at: Timestamp) {
    let initial = node.initial_config.as_deref().unwrap_or_default();
    let name = &node.name;
    let message = format!("node {name} was made with MachineConfig {initial}, and {why}");
    tracing::warn!(message_id = UNLABELLED, node = name, reason = %why, "event");
    recorder.say(&subject(node), Severity::Warning, UNLABELLED, &message, at);
}

/// The events that a new status is worth: the pool is updated, it cannot be rolled, nodes lack
/// their pinned images, something has no effect. Each once, when it becomes so.
pub fn on_status(before: &MachineConfigPool, after: &MachineConfigPool) -> Vec<PoolEvent> {
    use PoolConditionType::{
        PinnedImageSetsDegraded, RenderDegraded, RolloutDegraded, Unsupported,
    };
    let mut events = Vec::new();
    let Some(status) = &after.status else {
        return events;
    };
    if pool::status::has_completed(before.status.as_ref(), status)
        && let Some(config) = status.configuration.name()
    {
        let updated = status.condition(&PoolConditionType::Updated);
        let reached = updated.and_then(|updated| updated.message.strip_prefix(UPDATED_WITH));
        let reached = reached.map_or_else(|| format!("MachineConfig {config}"), str::to_owned);
        events.push(PoolEvent::Completed { reached });
    }
    let holds = |pool: &MachineConfigPool, r#type| {
        let condition = pool.status.as_ref()?.condition(&r#type)?;
        (condition.status == ConditionStatus::True)
            .then(|| (condition.reason.to_string(), condition.message.clone()))
    };
    if let Some((reason, message)) = holds(after, RolloutDegraded)
        && holds(before, RolloutDegraded).is_none_or(|(before, _)| before != reason)
    {
        events.push(PoolEvent::RolloutDegraded { reason, message });
    }
    if let Some((_, message)) = holds(after, RenderDegraded)
        && holds(before, RenderDegraded).is_none_or(|(_, before)| before != message)
    {
        events.push(PoolEvent::RenderDegraded { message });
    }
    // Its message changes with each node.
    if let Some((reason, message)) = holds(after, PinnedImageSetsDegraded)
        && holds(before, PinnedImageSetsDegraded).is_none_or(|(before, _)| before != reason)
    {
        events.push(PoolEvent::PinnedImageSetsDegraded { message });
    }
    if let Some((_, message)) = holds(after, Unsupported)
        && holds(before, Unsupported).is_none_or(|(_, before)| before != message)
    {
        events.push(PoolEvent::Unsupported { message });
    }
    events
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(conditions: &Value) -> MachineConfigPool {
        serde_json::from_value(json!({
            "metadata": { "name": "worker" },
            "spec": {},
            "status": { "configuration": { "name": "rendered-worker-1" }, "conditions": conditions }
        }))
        .unwrap()
    }

    #[test]
    fn one_node_is_named_and_many_are_counted() {
        let targeted = |nodes: &[&str]| {
            let nodes = nodes.iter().map(ToString::to_string).collect();
            let target = Target::of_config("rendered-worker-1");
            PoolEvent::Targeted { nodes, target }.message("worker")
        };
        assert_eq!(
            targeted(&["a"]),
            "Targeted node a to MachineConfig: rendered-worker-1"
        );
        assert_eq!(
            targeted(&["a", "b"]),
            "Set target for 2 nodes to MachineConfig: rendered-worker-1"
        );
        let layered = PoolEvent::Targeted {
            nodes: vec!["a".to_owned()],
            target: Target::parse("rendered-worker-1 os@sha256:0").unwrap(),
        };
        assert_eq!(layered.reason(), "SetDesiredConfigAndOSImage");
        assert_eq!(
            layered.message("worker"),
            "Targeted node a to MachineConfig: rendered-worker-1 / Image: os@sha256:0"
        );
    }

    fn reasons(before: &MachineConfigPool, after: &MachineConfigPool) -> Vec<String> {
        on_status(before, after)
            .iter()
            .map(|event| event.reason().to_owned())
            .collect()
    }

    #[test]
    fn a_failed_rendering_is_recorded_when_it_begins_and_when_its_cause_changes() {
        let failed = |message: &str| {
            pool(&json!([{ "type": "RenderDegraded", "status": "True", "message": message }]))
        };
        let fine = pool(&json!([{ "type": "RenderDegraded", "status": "False" }]));
        let one = failed("MachineConfig 50-a: spec.kernelType: kernelType=x is invalid");
        assert_eq!(reasons(&fine, &one), ["RenderDegraded"]);
        assert_eq!(reasons(&one, &one), [""; 0]);
        assert_eq!(reasons(&one, &failed("another")), ["RenderDegraded"]);
        assert_eq!(reasons(&one, &fine), [""; 0]);
        let Some(event) = on_status(&fine, &one).pop() else {
            panic!("no event");
        };
        assert!(event.message("worker").contains("50-a"));
    }

    #[test]
    fn lacking_images_are_recorded_when_that_begins_and_not_for_each_node() {
        let degraded = |reason: &str, message: &str| {
            pool(&json!([{
                "type": "PinnedImageSetsDegraded", "status": "True", "reason": reason, "message": message
            }]))
        };
        let fine = pool(&json!([{ "type": "PinnedImageSetsDegraded", "status": "False" }]));
        let one = degraded("PrefetchFailed", "Node a is reporting: \"NoRoom: x\"");
        assert_eq!(reasons(&fine, &one), ["PinnedImageSetsDegraded"]);
        assert_eq!(
            reasons(&one, &degraded("PrefetchFailed", "Node a, Node b")),
            [""; 0]
        );
        assert_eq!(
            reasons(&one, &degraded("", "Failed to populate")),
            ["PinnedImageSetsDegraded"]
        );
        assert_eq!(reasons(&one, &fine), [""; 0]);
    }

    #[test]
    fn a_degraded_rollout_is_recorded_when_it_begins_and_when_its_reason_changes() {
        let degraded = |reason: &str, message: &str| {
            pool(
                &json!([{ "type": "RolloutDegraded", "status": "True", "reason": reason, "message": message }]),
            )
        };
        let fine = pool(&json!([{ "type": "RolloutDegraded", "status": "False" }]));
        let bad = degraded("InvalidMaxUnavailable", "one");
        assert_eq!(reasons(&fine, &bad), ["InvalidMaxUnavailable"]);
        assert_eq!(
            reasons(&bad, &degraded("InvalidMaxUnavailable", "two")),
            [""; 0]
        );
        assert_eq!(
            reasons(&bad, &degraded("RolloutHalted", "two")),
            ["RolloutHalted"]
        );
        assert_eq!(reasons(&bad, &fine), [""; 0]);
    }
}
