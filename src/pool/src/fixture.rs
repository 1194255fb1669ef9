//! Nodes and pools for this crate's tests, made by parsing objects.

use api::machineconfiguration::node_status::{FailedIn, Reading};
use api::machineconfiguration::{
    MachineConfigPool, NodeState, NodeStatus, PhaseName, PinList, Target, annotation,
};
use serde_json::{Value, json};

use crate::image::{PoolImage, PoolImageState};
use crate::node::{NodeView, Unready};
use crate::policy::RolloutPolicy;
use crate::rollout::{RolloutDecision, decide};
use crate::view::PoolView;

pub(crate) const NOW: jiff::Timestamp = jiff::Timestamp::constant(1_700_000_000, 0);

/// What the pool's nodes run before a rollout.
pub(crate) const OLD: &str = "rendered-worker-1";

/// What the pool's nodes are to reach.
pub(crate) const NEW: &str = "rendered-worker-2";

/// A target, given as text.
pub(crate) fn target(text: &str) -> Target {
    Target::parse(text).unwrap()
}

/// A target as an annotation names it.
pub(crate) fn named_target(text: &str) -> Reading<Target> {
    Reading::Known(target(text))
}

pub(crate) fn parse_node(node: Value) -> NodeView {
    NodeView::parse(serde_json::from_value(node).unwrap())
}

/// A ready worker, done on [`OLD`].
pub(crate) fn node(name: &str) -> NodeView {
    parse_node(json!({
        "metadata": {
            "name": name,
            "resourceVersion": "1",
            "labels": { "node-role.kubernetes.io/worker": "" },
            "annotations": {
                "machineconfiguration.openshift.io/currentConfig": OLD,
                "machineconfiguration.openshift.io/desiredConfig": OLD,
                "machineconfiguration.openshift.io/state": "Done"
            }
        },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] }
    }))
}

pub(crate) fn roles(name: &str, roles: &[&str]) -> NodeView {
    let mut node = node(name);
    node.labels = roles
        .iter()
        .map(|role| (format!("node-role.kubernetes.io/{role}"), String::new()))
        .collect();
    node
}

impl NodeView {
    /// Assigned a target, given as text.
    fn assigned(mut self, desired: &str) -> Self {
        let target = target(desired);
        self.status.desired_config = Some(target.config);
        self.status.desired_image = target.image;
        self
    }

    /// Assigned a target, its daemon at work.
    pub(crate) fn working(self, desired: &str) -> Self {
        let mut this = self.assigned(desired);
        this.status.state = Some(Reading::Known(NodeState::Working));
        this
    }

    /// Assigned a target that failed on it; in service on what it ran before.
    pub(crate) fn failing(self, desired: &str) -> Self {
        let mut this = self.assigned(desired);
        this.status.state = Some(Reading::Known(NodeState::Degraded));
        "it broke".clone_into(&mut this.status.reason);
        this
    }

    /// The same, after the configuration was applied.
    pub(crate) fn broken_by(self, desired: &str) -> Self {
        self.failing(desired).reporting(|status| {
            status.failed_in = Some(Reading::Known(FailedIn {
                phase: PhaseName::Held,
                target: target(desired),
            }));
        })
    }

    /// Done on a target.
    pub(crate) fn done(mut self, current: &str) -> Self {
        self = self.assigned(current);
        self.status
            .current_config
            .clone_from(&self.status.desired_config);
        self.status
            .current_image
            .clone_from(&self.status.desired_image);
        self.status.state = Some(Reading::Known(NodeState::Done));
        self
    }

    /// With another reading of its annotations.
    pub(crate) fn reporting(mut self, change: impl FnOnce(&mut NodeStatus)) -> Self {
        change(&mut self.status);
        self
    }

    /// With the annotations about pinned image sets: assigned, pinned, and why not.
    pub(crate) fn pins(mut self, desired: &str, current: &str, not_pinned: &str) -> Self {
        let annotations = [
            (annotation::DESIRED_PINS, desired),
            (annotation::CURRENT_PINS, current),
            (annotation::NOT_PINNED, not_pinned),
        ];
        let annotations = annotations.map(|(key, text)| (key.to_owned(), text.to_owned()));
        let read = NodeStatus::read(&annotations.into());
        self.status.desired_pins = read.desired_pins;
        self.status.current_pins = read.current_pins;
        self.status.not_pinned = read.not_pinned;
        self
    }

    pub(crate) fn unready(mut self, reason: Unready) -> Self {
        self.unready = vec![reason];
        self
    }

    pub(crate) fn zone_and_age(mut self, zone: Option<&str>, created: i64) -> Self {
        if let Some(zone) = zone {
            self.labels.insert(
                api::machineconfiguration::label::ZONE.to_owned(),
                zone.to_owned(),
            );
        }
        self.created = Some(jiff::Timestamp::from_second(created).unwrap());
        self
    }
}

pub(crate) fn parse_pool(pool: Value) -> (MachineConfigPool, PoolView) {
    let pool: MachineConfigPool = serde_json::from_value(pool).unwrap();
    let view = PoolView::parse(&pool);
    (pool, view)
}

/// A pool of nodes of its own role, to be rolled to [`NEW`], with additional fields of `spec`.
pub(crate) fn pool_object(name: &str, spec: Value) -> Value {
    let mut pool = json!({
        "metadata": { "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "generation": 3 },
        "spec": {
            "configuration": { "name": NEW },
            "nodeSelector": { "matchLabels": { format!("node-role.kubernetes.io/{name}"): "" } },
            "machineConfigSelector": { "matchLabels": { "machineconfiguration.openshift.io/role": name } }
        }
    });
    let Value::Object(fields) = spec else {
        panic!("not an object: {spec}")
    };
    for (key, value) in fields {
        pool["spec"][key] = value;
    }
    pool
}

pub(crate) fn pool(name: &str, spec: Value) -> PoolView {
    parse_pool(pool_object(name, spec)).1
}

pub(crate) fn policy(spec: Value) -> RolloutPolicy {
    RolloutPolicy::parse(&serde_json::from_value(spec).unwrap()).unwrap()
}

/// A pool of workers with a policy, so many of which may be out at once.
pub(crate) fn worker(max: i64, spec: Value) -> PoolView {
    PoolView {
        policy: Some(policy(spec)),
        ..pool("worker", json!({ "maxUnavailable": max }))
    }
}

/// The image of a pool, while this build of it runs.
pub(crate) fn building(build: &str) -> PoolImage {
    PoolImage {
        config: "worker".to_owned(),
        state: PoolImageState::Building {
            held: None,
            build: build.to_owned(),
        },
    }
}

/// Pinned image sets as an annotation names them.
pub(crate) fn pin_list(text: &str) -> PinList {
    PinList::parse(text).unwrap()
}

/// At rest in [`NEW`].
pub(crate) fn updated(name: &str) -> NodeView {
    node(name).done(NEW)
}

pub(crate) fn decided(pool: &PoolView, nodes: &[NodeView]) -> RolloutDecision {
    decide(pool, &nodes.iter().collect::<Vec<_>>(), NOW)
}

pub(crate) fn assigned(decision: &RolloutDecision) -> Vec<&str> {
    let assignments = decision.assignments.iter();
    assignments
        .map(|assignment| assignment.node.as_str())
        .collect()
}

pub(crate) fn why(decision: &RolloutDecision, node: &str) -> String {
    decision.not_assigned[node].to_string()
}
