//! The controller's own metrics; the operator adds those of its loop.
//!
//! - [`builds`]: builds of OS images

pub mod builds;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::ConditionStatus;
use api::machineconfiguration::machine_config_pool::{
    MachineConfigPoolStatus, PoolCondition, PoolConditionReason, PoolConditionType,
};
use api::machineconfiguration::{DRAIN_OVERDUE, MachineOSBuild, PhaseName, PinList};
use chassis::metrics::{Collector, DescriptorEncoder, Gauge, Registry, encode_gauges};
use jiff::Timestamp;
use pool::hold::Hold;
use pool::node::NodeView;
use pool::pins::PinState;
use pool::rollout::{NotAssigned, RolloutDecision};
use pool::view::PoolView;

use self::builds::{BuildEnds, BuildMetrics};
use crate::decide::generating::setting::SettingState;

/// Who paused a pool, as a label: an update of the control plane alone, or an administrator or
/// another program.
const PAUSED_BY_UPDATE: &str = "control-plane-only";
const PAUSED_BY_OTHERS: &str = "other";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolMetrics {
    /// Its nodes: name, their daemon's state, and why they are not assigned.
    pub nodes: Vec<(String, &'static str, &'static str)>,
    /// How many of them run the pool's configuration.
    pub updated: usize,
    /// How many of them failed.
    pub degraded: usize,
    /// How many of them are out.
    pub unavailable: usize,
    /// Those that are being drained, and since when.
    pub draining: Vec<(String, Timestamp)>,
    /// Whether a user's configuration replaces the OS image.
    pub is_image_overridden: bool,
    pub is_paused: bool,
    /// Whether a person stopped it, or the cluster.
    pub is_stopped: bool,
    /// How many of its nodes a person keeps out of the rollout.
    pub on_hold: usize,
    /// By whom, and since when it is paused, as its status says.
    pub paused_since: Option<(&'static str, Timestamp)>,
    /// Files of certificate authorities that nodes of a paused pool do not have as its
    /// configuration has them; none of a pool that is not paused, or where that is not known.
    pub missed_authorities: Option<usize>,
    /// Its conditions: type, and whether it holds.
    pub conditions: Vec<(String, bool)>,
    /// Its nodes by how far they are with pinned image sets; empty for a pool without sets.
    pub pins: Vec<(PinState, usize)>,
    /// The build of its OS image; none of a pool that is not in image mode.
    pub build: Option<BuildMetrics>,
}

impl PoolMetrics {
    pub fn of(
        pool: &PoolView,
        members: &[&NodeView],
        decision: &RolloutDecision,
        is_image_overridden: bool,
    ) -> Self {
        let is_updated = |node: &&&NodeView| pool.is_reached_by(node);
        Self {
            nodes: members
                .iter()
                .map(|node| {
                    let why = decision
                        .not_assigned
                        .get(&node.name)
                        .map_or("Assigned", reason);
                    (node.name.clone(), node.status.state().as_str(), why)
                })
                .collect(),
            updated: members.iter().filter(is_updated).count(),
            degraded: members
                .iter()
                .filter(|node| node.status.state().is_failed())
                .count(),
            unavailable: members
                .iter()
                .filter(|node| node.is_out_of_service())
                .count(),
            draining: members.iter().copied().filter_map(drain_of).collect(),
            is_image_overridden,
            is_paused: pool.is_paused,
            is_stopped: pool.stops.are_set(),
            on_hold: members.iter().filter(|node| node.hold.is_some()).count(),
            paused_since: None,
            missed_authorities: None,
            conditions: Vec::new(),
            pins: Vec::new(),
            build: None,
        }
    }

    /// With how far the nodes are with these pinned image sets.
    #[must_use]
    pub fn with_pins(mut self, list: &PinList, members: &[&NodeView]) -> Self {
        let count = |state| {
            let nodes = members.iter();
            let nodes = nodes.filter(|node| PinState::of(node, list) == state);
            (state, nodes.count())
        };
        if !list.is_empty() {
            self.pins = PinState::ALL.map(count).into();
        }
        self
    }

    /// With the build of its OS image.
    #[must_use]
    pub fn with_build(mut self, build: Option<BuildMetrics>) -> Self {
        self.build = build;
        self
    }

    /// With the conditions of the pool's status.
    #[must_use]
    pub fn with_conditions(mut self, status: &MachineConfigPoolStatus) -> Self {
        let paused = status.condition(&PoolConditionType::Paused);
        let paused = paused.filter(|condition| condition.status == ConditionStatus::True);
        let since = paused.and_then(|condition| condition.last_transition_time.as_ref());
        let is_of_update =
            |condition: &PoolCondition| condition.reason == PoolConditionReason::ControlPlaneOnly;
        let by = if paused.is_some_and(is_of_update) {
            PAUSED_BY_UPDATE
        } else {
            PAUSED_BY_OTHERS
        };
        self.paused_since = since.map(|time| (by, time.0));
        let conditions = status.conditions.iter();
        self.conditions = conditions
            .map(|condition| {
                let holds = condition.status == ConditionStatus::True;
                (condition.r#type.to_string(), holds)
            })
            .collect();
        self
    }
}

/// A node that is being drained, and since when.
fn drain_of(node: &NodeView) -> Option<(String, Timestamp)> {
    let is_draining = node.status.phase() == Some(PhaseName::Draining);
    let since = node.status.drain_since.as_ref()?.known()?;
    is_draining.then(|| (node.name.clone(), *since))
}

/// A label value for why a node is not assigned: a closed set.
const fn reason(not_assigned: &NotAssigned) -> &'static str {
    match not_assigned {
        NotAssigned::Updated => "Updated",
        NotAssigned::Updating => "Updating",
        NotAssigned::Failed => "Failed",
        NotAssigned::NoTarget => "NoTarget",
        NotAssigned::PoolDeleted => "PoolDeleted",
        NotAssigned::Paused => "Paused",
        NotAssigned::Stopped(_) => "Stopped",
        NotAssigned::OnHold(_) => "OnHold",
        NotAssigned::Held(Hold::Image(_)) => "ImageMode",
        NotAssigned::Held(Hold::ConfigChanged { .. }) => "RenderedConfigChanged",
        NotAssigned::Held(Hold::InvalidPolicy { .. }) => "InvalidRolloutPolicy",
        NotAssigned::Held(Hold::MissingBase) => "MissingBase",
        NotAssigned::NoBudget => "InvalidMaxUnavailable",
        NotAssigned::NotReported => "NotReported",
        NotAssigned::Unready(_) => "NotReady",
        NotAssigned::Halted { .. } | NotAssigned::Reverted { .. } => "RolloutHalted",
        NotAssigned::Budget { .. } => "Budget",
        NotAssigned::Policy(_) => "RolloutPolicy",
        NotAssigned::Quarantined { .. } => "NodesQuarantined",
        NotAssigned::RunsController => "RunsController",
        NotAssigned::WriteRejected(_) => "NotAssigned",
    }
}

/// Counts one thing of a pool.
type Count = fn(&PoolMetrics) -> usize;

/// All metrics of the controller.
#[derive(Debug)]
pub struct ControllerMetrics {
    clock: fn() -> Timestamp,
    pools: Mutex<BTreeMap<String, PoolMetrics>>,
    alerts: Mutex<Vec<String>>,
    settings: Mutex<Vec<SettingState>>,
    image_modes: Gauge,
    build_ends: Mutex<BuildEnds>,
}

impl Default for ControllerMetrics {
    fn default() -> Self {
        Self::with_clock(Timestamp::now)
    }
}

impl ControllerMetrics {
    /// Metrics of which those that depend on the time are printed as of this clock.
    pub fn with_clock(clock: fn() -> Timestamp) -> Self {
        Self {
            clock,
            pools: Mutex::default(),
            alerts: Mutex::default(),
            settings: Mutex::default(),
            image_modes: Gauge::default(),
            build_ends: Mutex::default(),
        }
    }

    pub fn registry(self: &Arc<Self>) -> Registry {
        let mut registry = Registry::default();
        registry.register(
            "mco_mosc_count",
            "MachineOSConfigs: pools that ask for images of their own.",
            self.image_modes.clone(),
        );
        registry.collect(Arc::clone(self));
        registry
    }

    /// Replaces a pool's metrics.
    pub fn set_pool(&self, pool: &str, metrics: PoolMetrics) {
        lock(&self.pools).insert(pool.to_owned(), metrics);
    }

    /// Forgets pools that are gone, and their series with them.
    pub fn retain(&self, is_there: impl Fn(&str) -> bool) {
        lock(&self.pools).retain(|name, _| is_there(name));
    }

    /// Replaces how far the objects that select pools are.
    pub fn set_settings(&self, settings: Vec<SettingState>) {
        *lock(&self.settings) = settings;
    }

    /// Says how many pools ask for images of their own.
    pub fn set_image_modes(&self, count: usize) {
        self.image_modes
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts a build that was written, if it has ended.
    pub fn count_build(&self, build: &MachineOSBuild) {
        lock(&self.build_ends).count(build);
    }

    /// Replaces the nodes of `master` that a custom pool selects too.
    pub fn set_alerts(&self, alerts: &[(&str, &str)]) {
        *lock(&self.alerts) = alerts.iter().map(|(node, _)| (*node).to_owned()).collect();
    }
}

impl Collector for ControllerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let pools = lock(&self.pools);
        let counts: [(&str, &str, Count); 4] = [
            ("mco_machine_count", "Nodes of the pool.", |pool| {
                pool.nodes.len()
            }),
            (
                "mco_updated_machine_count",
                "Nodes that run the pool's configuration.",
                |pool| pool.updated,
            ),
            ("mco_degraded_machine_count", "Nodes that failed.", |pool| {
                pool.degraded
            }),
            (
                "mco_unavailable_machine_count",
                "Nodes that are out.",
                |pool| pool.unavailable,
            ),
        ];
        for (name, help, count) in counts {
            let samples = pools.iter();
            let samples = samples.map(|(pool, metrics)| ([("pool", pool)], count(metrics)));
            encode_gauges(&mut encoder, name, help, samples)?;
        }
        encode_nodes(&mut encoder, &pools, (self.clock)())?;
        let overrides = pools.iter();
        encode_gauges(
            &mut encoder,
            "os_image_url_override",
            "Whether a user's configuration replaces the OS image of the release.",
            overrides
                .map(|(pool, metrics)| ([("pool", pool)], i64::from(metrics.is_image_overridden))),
        )?;
        encode_stops(&mut encoder, &pools)?;
        encode_pauses(&mut encoder, &pools, (self.clock)())?;
        let conditions = pools.iter().flat_map(|(pool, metrics)| {
            let conditions = metrics.conditions.iter();
            conditions.map(|(condition, holds)| {
                let labels = [("pool", pool.as_str()), ("condition", condition)];
                (labels, i64::from(*holds))
            })
        });
        encode_gauges(
            &mut encoder,
            "mcc_pool_condition",
            "Whether a condition of the pool holds.",
            conditions,
        )?;
        let pins = pools.iter().flat_map(|(pool, metrics)| {
            let pins = metrics.pins.iter();
            pins.map(|(state, nodes)| {
                ([("pool", pool.as_str()), ("state", state.as_str())], *nodes)
            })
        });
        encode_gauges(
            &mut encoder,
            "mcc_pool_pinned_image_nodes",
            "Nodes by how far they are with the pool's pinned image sets.",
            pins,
        )?;
        let built = pools.iter().filter_map(|(pool, metrics)| {
            let build = metrics.build.as_ref()?;
            Some((pool.as_str(), build))
        });
        builds::encode(&mut encoder, &built.collect(), (self.clock)())?;
        lock(&self.build_ends).encode(&mut encoder)?;
        encode_gauges(
            &mut encoder,
            "mcc_sub_controller_state",
            "How far an object that selects pools is; always 1.",
            lock(&self.settings).iter().map(|setting| {
                let labels = [
                    ("subcontroller", setting.controller),
                    ("state", setting.state),
                    ("object", &setting.object),
                ];
                (labels, 1_i64)
            }),
        )?;
        encode_gauges(
            &mut encoder,
            "mcc_pool_alert",
            "Nodes of the control plane that a custom pool selects too; always 1.",
            lock(&self.alerts)
                .iter()
                .map(|node| ([("node", node)], 1_i64)),
        )
    }
}

/// What people keep from going on: pools that are paused or stopped, and nodes on hold.
fn encode_stops(
    encoder: &mut DescriptorEncoder<'_>,
    pools: &BTreeMap<String, PoolMetrics>,
) -> fmt::Result {
    let counts: [(&str, &str, Count); 3] = [
        ("mcc_pool_paused", "Whether the pool is paused.", |pool| {
            usize::from(pool.is_paused)
        }),
        (
            "mcc_pool_stopped",
            "Whether a person stopped the pool, or the cluster.",
            |pool| usize::from(pool.is_stopped),
        ),
        (
            "mcc_pool_nodes_on_hold",
            "Nodes that a person keeps out of the rollout.",
            |pool| pool.on_hold,
        ),
    ];
    for (name, help, count) in counts {
        let values = pools.iter();
        let values = values.map(|(pool, metrics)| ([("pool", pool)], count(metrics)));
        encode_gauges(encoder, name, help, values)?;
    }
    Ok(())
}

/// For how long pools are paused, and what they miss.
fn encode_pauses(
    encoder: &mut DescriptorEncoder<'_>,
    pools: &BTreeMap<String, PoolMetrics>,
    now: Timestamp,
) -> fmt::Result {
    let seconds = pools.iter().filter_map(|(pool, metrics)| {
        let (by, since) = metrics.paused_since.filter(|_| metrics.is_paused)?;
        let labels = [("pool", pool.as_str()), ("by", by)];
        Some((labels, now.duration_since(since).as_secs().max(0)))
    });
    encode_gauges(
        encoder,
        "mcc_pool_paused_seconds",
        "For how long a paused pool has been paused.",
        seconds,
    )?;
    let missed = pools.iter().filter_map(|(pool, metrics)| {
        let missed = metrics.missed_authorities?;
        Some(([("pool", pool)], missed))
    });
    encode_gauges(
        encoder,
        "mcc_pool_missed_authorities",
        "Files of certificate authorities that nodes of a paused pool lack, or have in an older form.",
        missed,
    )
}

/// What each node does, of those that are drained whether that takes too long.
fn encode_nodes(
    encoder: &mut DescriptorEncoder<'_>,
    pools: &BTreeMap<String, PoolMetrics>,
    now: Timestamp,
) -> fmt::Result {
    let nodes = pools.iter().flat_map(|(pool, metrics)| {
        let nodes = metrics.nodes.iter();
        nodes.map(|(node, state, reason)| {
            let labels = [
                ("node", node.as_str()),
                ("pool", pool),
                ("state", state),
                ("reason", reason),
            ];
            (labels, 1_i64)
        })
    });
    encode_gauges(
        encoder,
        "mco_state",
        "The state of a node's daemon, and why the node is not assigned; always 1.",
        nodes,
    )?;
    let drains = pools.values().flat_map(|pool| &pool.draining);
    encode_gauges(
        encoder,
        "mcc_drain_err",
        "Nodes that are being drained: whether that takes longer than an hour.",
        drains.map(|(node, since)| {
            let is_overdue = now.duration_since(*since) > DRAIN_OVERDUE;
            ([("node", node)], i64::from(is_overdue))
        }),
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held; a poisoned lock still holds whole values.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use api::machineconfiguration::annotation;
    use pool::rollout::decide;
    use serde_json::json;

    use super::*;
    use crate::fixture::{OLD, node, settled};

    #[test]
    fn series_follow_the_pools_and_go_with_them() {
        let (mut cluster, _, target) = settled();
        let draining = |name: &str, since: &str| {
            let mut node = node(name, OLD);
            let annotations = &mut node["metadata"]["annotations"];
            annotations[annotation::DESIRED_PINS] = json!("edge=1.0a1b2c3d");
            annotations[annotation::PHASE] = json!("Draining");
            annotations[annotation::DRAIN_SINCE] = json!(since);
            node
        };
        cluster.nodes = vec![
            node("a", &target),
            draining("b", "2026-01-02T03:04:05Z"),
            draining("c", "2026-01-02T03:04:06Z"),
        ];
        cluster.nodes[0]["metadata"]["annotations"][annotation::HOLD] = json!("");
        let snapshot = cluster.snapshot();
        let pool = snapshot.pools.get("worker").unwrap();
        let nodes: Vec<NodeView> = snapshot
            .nodes
            .values()
            .map(|node| node.as_ref().clone())
            .collect();
        let members: Vec<&NodeView> = nodes.iter().collect();
        let decision = decide(&pool.view, &members, jiff::Timestamp::UNIX_EPOCH);
        let an_hour_later = || "2026-01-02T04:04:06Z".parse().unwrap();
        let metrics = Arc::new(ControllerMetrics::with_clock(an_hour_later));
        let registry = metrics.registry();
        let conditions = json!({ "conditions": [
            { "type": "Updated", "status": "False" },
            { "type": "Degraded", "status": "True" },
            { "type": "Paused", "status": "True", "lastTransitionTime": "2026-01-02T03:04:06Z" }
        ] });
        let list = PinList::parse("edge=1.0a1b2c3d").unwrap();
        let missed_authorities = Some(2);
        let mut view = pool.view.clone();
        view.is_paused = true;
        let of_pool = PoolMetrics {
            missed_authorities,
            ..PoolMetrics::of(&view, &members, &decision, true)
        };
        metrics.set_pool(
            "worker",
            of_pool
                .with_conditions(&serde_json::from_value(conditions).unwrap())
                .with_pins(&list, &members)
                .with_build(Some(BuildMetrics {
                    state: "Building",
                    start: Some("2026-01-02T04:03:06Z".parse().unwrap()),
                    end: None,
                    limit: Some(jiff::SignedDuration::from_hours(1)),
                })),
        );
        metrics.set_settings(vec![SettingState {
            controller: "kubelet-config",
            state: "Refused",
            object: "pods".to_owned(),
        }]);
        metrics.set_image_modes(2);
        metrics.count_build(&crate::fixture::read(&json!({
            "metadata": { "name": "worker-0" },
            "spec": {
                "machineConfig": { "name": "rendered-worker-0" },
                "machineOSConfig": { "name": "worker" },
                "renderedImagePushSpec": "registry.example/os:worker-0",
            },
            "status": { "conditions": [{
                "type": "Failed", "status": "True", "reason": "BuildFailed", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }] },
        })));
        metrics.set_alerts(&[("m", "infra")]);
        assert_eq!(
            registry.text().unwrap(),
            include_str!("../tests/golden/metrics.txt")
        );
        metrics.retain(|_| false);
        assert!(!registry.text().unwrap().contains("worker"));
    }
}
