//! What is read of Nodes and MachineConfigPools.

use std::collections::BTreeMap;

use api::machineconfiguration::label::role;
use api::machineconfiguration::node_status::Reading;
use api::machineconfiguration::{
    DrainLease, MachineConfigPool, NodeState, NodeStatus, PhaseName, annotation, label,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use pool::membership::Placement;
use pool::selector::Selector;

/// Label of nodes of the infrastructure, which are no users' workers.
const INFRA: &str = "node-role.kubernetes.io/infra";
/// Taint of cordoned nodes. Its time is written by the control plane.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Taint by which a person says that a node is off: nothing runs on it any more.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Kubelets report their conditions every five minutes, also where nothing changes. One that has
/// not for so long is gone, even if no other part of the cluster is there to say so.
const REPORTED: SignedDuration = SignedDuration::from_mins(15);

/// What is kept of a Node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts of an object, independent of each other"
)]
pub struct UpgradeNode {
    pub name: String,
    /// Version of the object.
    pub resource_version: String,
    pub labels: BTreeMap<String, String>,
    pub is_cordoned: bool,
    /// Whether it is cordoned, and not by its daemon.
    pub is_cordoned_by_hand: bool,
    /// Its drain, if one is under way for an update.
    pub drain: Option<DrainStart>,
    /// Who removes pods from it in its daemon's place.
    pub drain_lease: Option<DrainLease>,
    /// Whether its kubelet reports that it is ready.
    pub is_ready: bool,
    /// When it last reported that or another condition.
    pub reported: Option<Timestamp>,
    /// Whether a person says that it is off.
    pub is_out_of_service: bool,
    /// What it has too little of: `memory`, `disk`, `pid`.
    pub pressures: Vec<&'static str>,
}

/// When the drain of a node began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainStart {
    /// At this time.
    At(Timestamp),
    /// Nothing says when.
    Unknown,
}

impl UpgradeNode {
    /// Reads a Node. One that is being deleted has no drain, cordon or pressure to report.
    pub fn parse(node: Node) -> Self {
        let metadata = node.metadata;
        let annotations = metadata.annotations.unwrap_or_default();
        let status = NodeStatus::read(&annotations);
        let spec = node.spec.unwrap_or_default();
        let taints = spec.taints.unwrap_or_default();
        let has_no_schedule = |key: &str| {
            let mut taints = taints.iter().filter(|taint| taint.effect == "NoSchedule");
            taints.any(|taint| taint.key == key)
        };
        let is_leaving = metadata.deletion_timestamp.is_some();
        let is_cordoned = spec.unschedulable == Some(true) && !is_leaving;
        let mut cordons = taints.iter().filter(|taint| taint.key == UNSCHEDULABLE);
        let cordoned_at = cordons.find_map(|taint| Some(taint.time_added.as_ref()?.0));
        let pressures = ["memory", "disk", "pid"].into_iter().filter(|kind| {
            !is_leaving && has_no_schedule(&format!("node.kubernetes.io/{kind}-pressure"))
        });
        let conditions = node.status.and_then(|status| status.conditions);
        let mut conditions = conditions.iter().flatten();
        let ready = conditions.find(|condition| condition.type_ == "Ready");
        Self {
            labels: metadata.labels.unwrap_or_default(),
            is_cordoned,
            is_cordoned_by_hand: is_cordoned && is_by_hand(&status),
            drain: drain(&status, cordoned_at).filter(|_| is_cordoned),
            drain_lease: lease(&annotations),
            is_ready: ready.is_some_and(|ready| ready.status == "True"),
            reported: ready.and_then(|ready| Some(ready.last_heartbeat_time.as_ref()?.0)),
            is_out_of_service: taints.iter().any(|taint| taint.key == OUT_OF_SERVICE),
            pressures: pressures.collect(),
            name: metadata.name.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        }
    }

    /// Whether it belongs to the control plane.
    pub fn is_control_plane(&self) -> bool {
        label::is_control_plane(self.labels.keys())
    }

    /// Its pool, if one of these updates it.
    pub fn pool<'a>(&self, pools: impl IntoIterator<Item = &'a PoolProgress>) -> Option<&'a str> {
        let pools = pools.into_iter().filter(|pool| {
            let selector = pool.node_selector.as_ref();
            selector.is_some_and(|selector| selector.matches(&self.labels))
        });
        let selecting = pools.map(|pool| pool.name.as_str());
        Placement::among(&self.name, &self.labels, selecting).pool()
    }

    /// Whether it runs users' pods: a pool of workers updates it, and it is none of the
    /// infrastructure.
    pub fn is_worker<'a>(&self, pools: impl IntoIterator<Item = &'a PoolProgress>) -> bool {
        let pool = self.pool(pools);
        pool.is_some_and(|pool| !role::is_control_plane(pool)) && !self.labels.contains_key(INFRA)
    }

    /// Whether its kubelet is ready and there.
    pub fn is_there(&self, now: Timestamp) -> bool {
        let reported = self.reported.filter(|_| self.is_ready);
        reported.is_some_and(|reported| now.duration_since(reported) <= REPORTED)
    }

    /// Whether its drain takes longer than `limit`, or nothing says how long it takes.
    pub fn has_stuck_drain(&self, limit: SignedDuration, now: Timestamp) -> bool {
        !self.is_control_plane()
            && match self.drain {
                Some(DrainStart::At(started)) => now.duration_since(started) > limit,
                Some(DrainStart::Unknown) => true,
                None => false,
            }
    }
}

/// The drain that the daemon of a node has under way. Its state says nothing about that: it is
/// Working before and after a drain too, and Degraded in one that takes long.
fn drain(status: &NodeStatus, cordoned_at: Option<Timestamp>) -> Option<DrainStart> {
    let began = if status.phase.is_some() {
        status
            .phase()
            .filter(|phase| *phase == PhaseName::Draining)?;
        let since = status.drain_since.as_ref().and_then(Reading::known);
        // It is written by the node's clock, which may be behind: not before the cordon.
        since.map(|since| cordoned_at.map_or(*since, |at| at.max(*since)))
    } else {
        // OpenShift's daemon has its drain carried out by a controller.
        status.has_open_drain().then_some(cordoned_at)?
    };
    Some(began.map_or(DrainStart::Unknown, DrainStart::At))
}

/// Whether a node that is cordoned was not cordoned by its daemon.
fn is_by_hand(status: &NodeStatus) -> bool {
    if status.phase.is_some() {
        status.cordoned_by.is_none()
    } else {
        status.state() != NodeState::Working
    }
}

/// Reads the lease of a drain.
fn lease(annotations: &BTreeMap<String, String>) -> Option<DrainLease> {
    DrainLease::parse(annotations.get(annotation::DRAIN_LEASE)?)
}

/// How far a MachineConfigPool is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolProgress {
    pub name: String,
    /// Version of the object.
    pub resource_version: String,
    /// What it selects nodes by; none if that cannot be read, so that it selects none.
    pub node_selector: Option<Selector>,
    /// Its machines, and those that run its configuration.
    pub machines: (u32, u32),
    pub is_paused: bool,
    /// Whether its configuration is not the one that its counts are about.
    pub is_outdated: bool,
}

impl PoolProgress {
    pub fn parse(pool: MachineConfigPool) -> Self {
        let status = pool.status.unwrap_or_default();
        let count = |count: i32| u32::try_from(count).unwrap_or_default();
        Self {
            name: pool.metadata.name.unwrap_or_default(),
            resource_version: pool.metadata.resource_version.unwrap_or_default(),
            node_selector: Selector::parse("spec.nodeSelector", pool.spec.node_selector.as_ref())
                .ok(),
            machines: (
                count(status.machine_count),
                count(status.updated_machine_count),
            ),
            is_paused: pool.spec.paused,
            is_outdated: pool.spec.configuration.reference.name
                != status.configuration.reference.name,
        }
    }

    /// Whether its nodes belong to the control plane.
    pub fn is_control_plane(&self) -> bool {
        role::is_control_plane(&self.name)
    }

    /// Machines that do not run its configuration yet.
    pub const fn pending(&self) -> u32 {
        let (all, updated) = self.machines;
        all.saturating_sub(updated)
    }

    /// Why workers are not upgraded yet; none if they are.
    pub fn open(&self) -> Option<String> {
        let (all, updated) = self.machines;
        if self.is_paused && (self.pending() > 0 || self.is_outdated) {
            return Some(format!(
                "pool {} is paused with {updated} of {all} updated",
                self.name
            ));
        }
        let is_open = self.pending() > 0 || (self.is_outdated && all > 0);
        is_open.then(|| format!("pool {}: {updated} of {all} updated", self.name))
    }
}

/// Why nodes are not upgraded yet, by pool. Without a pool of workers it is unknown whether they
/// are.
pub fn open_pools<'a>(pools: impl Iterator<Item = &'a PoolProgress>) -> Vec<String> {
    let (mut open, mut has_workers) = (Vec::new(), false);
    for pool in pools {
        has_workers |= !pool.is_control_plane();
        open.extend(pool.open());
    }
    if !has_workers {
        open.push("there is no MachineConfigPool of workers".to_owned());
    }
    open
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::at;

    fn node(taints: &Value, annotations: &Value, more: &Value) -> UpgradeNode {
        let mut object = json!({
            "metadata": {
                "name": "a",
                "labels": { "node-role.kubernetes.io/worker": "" },
                "annotations": annotations,
            },
            "spec": { "unschedulable": true, "taints": taints },
        });
        for (pointer, value) in more.as_object().unwrap() {
            let (object, key) = match pointer.split_once('.') {
                Some((parent, key)) => (&mut object[parent], key),
                None => (&mut object, pointer.as_str()),
            };
            object[key] = value.clone();
        }
        UpgradeNode::parse(serde_json::from_value(object).unwrap())
    }

    fn cordon(minute: i64) -> Value {
        json!([
            { "key": "a", "effect": "NoSchedule", "timeAdded": at(99).to_string() },
            {
                "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule",
                "timeAdded": at(minute).to_string()
            },
        ])
    }

    const STATE: &str = "machineconfiguration.openshift.io/state";
    const DESIRED: &str = "machineconfiguration.openshift.io/desiredDrain";
    const APPLIED: &str = "machineconfiguration.openshift.io/lastAppliedDrain";

    #[test]
    fn drain_begins_and_ends_with_the_phase_of_the_daemon_whatever_the_state_says() {
        let phase = |phase: &str, state: &str, since: Option<&str>| {
            json!({
                STATE: state, "slipway.dev/phase": phase, "slipway.dev/drain-since": since,
                "slipway.dev/cordoned-by": "attempt"
            })
        };
        let (five, late) = (at(5).to_string(), at(7).to_string());
        let (none, five, late) = (json!([]), Some(five.as_str()), Some(late.as_str()));
        let since = |minute| Some(DrainStart::At(at(minute)));
        let table = [
            (phase("Draining", "Working", five), none.clone(), since(5)),
            // It takes longer than an hour.
            (phase("Draining", "Degraded", five), none.clone(), since(5)),
            // An administrator cordoned the node before.
            (phase("Draining", "Working", five), cordon(1), since(5)),
            // The node's clock is behind.
            (phase("Draining", "Working", five), cordon(6), since(6)),
            (phase("Draining", "Working", late), cordon(6), since(7)),
            // Cordoned by an administrator during a long fetch, or verified after the reboot.
            (phase("Fetching", "Working", None), cordon(1), None),
            (phase("Verifying", "Working", five), cordon(1), None),
            (phase("Degraded", "Degraded", five), cordon(1), None),
            (phase("Dreaming", "Working", five), cordon(1), None),
            // Nothing says when it began: neither the cordon nor the Node's age do.
            (
                phase("Draining", "Working", None),
                cordon(1),
                Some(DrainStart::Unknown),
            ),
            (
                phase("Draining", "Working", Some("soon")),
                none.clone(),
                Some(DrainStart::Unknown),
            ),
        ];
        let created = json!({ "metadata.creationTimestamp": at(-9999).to_string() });
        for (annotations, taints, expected) in table {
            let found = node(&taints, &nulls_out(&annotations), &created).drain;
            assert_eq!(found, expected, "{annotations} {taints}");
        }
        let draining = phase("Draining", "Working", five);
        for more in [
            json!({ "spec": {} }),
            json!({ "metadata.deletionTimestamp": at(9).to_string() }),
        ] {
            assert_eq!(node(&none, &draining, &more).drain, None, "{more}");
        }
    }

    fn nulls_out(annotations: &Value) -> Value {
        let all = annotations.as_object().unwrap().clone().into_iter();
        all.filter(|(_, value)| !value.is_null()).collect()
    }

    #[test]
    fn drain_by_openshifts_controller_lasts_from_its_request_to_its_answer() {
        let requested = |desired: &str, applied: &str| json!({ STATE: "Working", DESIRED: desired, APPLIED: applied });
        let table = [
            (
                requested("drain-b", "uncordon-a"),
                cordon(3),
                Some(DrainStart::At(at(3))),
            ),
            (
                requested("drain-b", "uncordon-a"),
                json!([]),
                Some(DrainStart::Unknown),
            ),
            (requested("drain-b", "drain-b"), cordon(3), None),
            (requested("uncordon-b", "drain-b"), cordon(3), None),
            (json!({ STATE: "Working" }), cordon(3), None),
        ];
        for (annotations, taints, expected) in table {
            let found = node(&taints, &annotations, &json!({})).drain;
            assert_eq!(found, expected, "{annotations} {taints}");
        }
    }

    #[test]
    fn drain_is_stuck_after_its_limit_or_if_nothing_says_when_it_began() {
        let limit = SignedDuration::from_mins(45);
        let of = |drain, is_control_plane: bool| {
            let role = if is_control_plane {
                "control-plane"
            } else {
                "worker"
            };
            UpgradeNode {
                labels: [(format!("node-role.kubernetes.io/{role}"), String::new())].into(),
                drain,
                ..UpgradeNode::default()
            }
        };
        let table = [
            (of(Some(DrainStart::At(at(0))), false), 45, false),
            (of(Some(DrainStart::At(at(0))), false), 46, true),
            (of(Some(DrainStart::At(at(0))), true), 46, false),
            (of(Some(DrainStart::Unknown), false), 0, true),
            (of(None, false), 46, false),
        ];
        for (node, minute, expected) in table {
            let found = node.has_stuck_drain(limit, at(minute));
            assert_eq!(found, expected, "{node:?} {minute}");
        }
    }

    #[test]
    fn cordon_is_by_hand_if_no_daemon_says_that_it_is_its_own() {
        let table = [
            (json!({}), true),
            (json!({ STATE: "Working" }), false),
            (
                json!({ STATE: "Working", "slipway.dev/phase": "Fetching" }),
                true,
            ),
            (
                json!({ STATE: "Degraded", "slipway.dev/phase": "Draining", "slipway.dev/cordoned-by": "a" }),
                false,
            ),
        ];
        for (annotations, expected) in table {
            let found = node(&json!([]), &annotations, &json!({})).is_cordoned_by_hand;
            assert_eq!(found, expected, "{annotations}");
        }
        let leaving = json!({ "metadata.deletionTimestamp": at(9).to_string() });
        assert!(!node(&json!([]), &json!({}), &leaving).is_cordoned_by_hand);
    }

    #[test]
    fn ready_and_out_of_service_are_what_the_cluster_says() {
        let ready = |status: &str| {
            let condition = json!({ "type": "Ready", "status": status });
            let more = json!({ "status": { "conditions": [condition] } });
            node(&json!([]), &json!({}), &more).is_ready
        };
        assert!(ready("True") && !ready("False") && !ready("Unknown"));
        assert!(!node(&json!([]), &json!({}), &json!({})).is_ready);
        let reported = |status: &str, minute: Option<i64>| {
            let time = minute.map(|minute| at(minute).to_string());
            let condition = json!({ "type": "Ready", "status": status, "lastHeartbeatTime": time });
            let more = json!({ "status": { "conditions": [condition] } });
            node(&json!([]), &json!({}), &more).is_there(at(20))
        };
        assert!(reported("True", Some(5)) && reported("True", Some(21)));
        assert!(!reported("True", Some(4)) && !reported("True", None));
        assert!(!reported("Unknown", Some(20)));
        for (key, expected) in [("out-of-service", true), ("unreachable", false)] {
            let taint =
                json!([{ "key": format!("node.kubernetes.io/{key}"), "effect": "NoExecute" }]);
            let found = node(&taint, &json!({}), &json!({})).is_out_of_service;
            assert_eq!(found, expected, "{key}");
        }
    }

    #[test]
    fn pressures_are_taints_of_nodes() {
        let taint = |kind: &str, effect: &str| json!({ "key": format!("node.kubernetes.io/{kind}-pressure"), "effect": effect });
        let taints = json!([
            taint("pid", "NoSchedule"),
            taint("memory", "NoSchedule"),
            taint("disk", "NoExecute")
        ]);
        let found = |more| node(&taints, &json!({}), &more).pressures;
        assert_eq!(found(json!({})), ["memory", "pid"]);
        let leaving = json!({ "metadata.deletionTimestamp": at(9).to_string() });
        assert_eq!(found(leaving), [""; 0]);
    }

    /// Pools and nodes that every reader of Nodes has to sort alike.
    const CASES: &str = include_str!("../../../tests/fixtures/placement.json");

    #[test]
    fn pool_role_and_state_of_each_node_are_those_that_all_readers_tell() {
        let cases: Value = serde_json::from_str(CASES).unwrap();
        let list = |key: &str| cases[key].as_array().unwrap().clone();
        let pool = |pool| PoolProgress::parse(serde_json::from_value(pool).unwrap());
        let pools: Vec<PoolProgress> = list("pools").into_iter().map(pool).collect();
        for mut case in list("nodes") {
            // A state tells something of nodes that are cordoned.
            let mut cordoned = case["object"].clone();
            cordoned["spec"]["unschedulable"] = json!(true);
            let parse = |node| UpgradeNode::parse(serde_json::from_value(node).unwrap());
            let (node, cordoned) = (parse(case["object"].take()), parse(cordoned));
            let (name, expected) = (&node.name, &case["expected"]);
            let unready = expected["unready"].as_array().unwrap();
            let is_unready = |why: &str| unready.contains(&json!(why));
            assert_eq!(json!(node.pool(&pools)), expected["pool"], "{name}");
            let is_control_plane = json!(node.is_control_plane());
            assert_eq!(is_control_plane, expected["isControlPlane"], "{name}");
            let is_working = !cordoned.is_cordoned_by_hand;
            assert_eq!(is_working, expected["state"] == "Working", "{name}");
            assert_eq!(node.is_cordoned, is_unready("cordoned"), "{name}");
            assert_eq!(node.is_ready, !is_unready("not ready"), "{name}");
        }
    }

    #[test]
    fn pool_is_open_until_all_its_machines_run_its_configuration() {
        let pool = |machines, is_paused, is_outdated| PoolProgress {
            name: "infra".to_owned(),
            machines,
            is_paused,
            is_outdated,
            ..PoolProgress::default()
        };
        let table = [
            (pool((3, 3), false, false), None),
            (pool((3, 3), true, false), None),
            (pool((0, 0), false, true), None),
            (
                pool((3, 1), false, false),
                Some("pool infra: 1 of 3 updated"),
            ),
            (
                pool((3, 3), false, true),
                Some("pool infra: 3 of 3 updated"),
            ),
            (
                pool((3, 1), true, false),
                Some("pool infra is paused with 1 of 3 updated"),
            ),
            (
                pool((3, 3), true, true),
                Some("pool infra is paused with 3 of 3 updated"),
            ),
        ];
        for (pool, expected) in table {
            assert_eq!(pool.open().as_deref(), expected, "{pool:?}");
        }
        let mut master = pool((3, 3), false, false);
        let worker = pool((3, 1), false, false);
        "master".clone_into(&mut master.name);
        let none = "there is no MachineConfigPool of workers";
        assert_eq!(open_pools([].into_iter()), [none]);
        assert_eq!(open_pools([&master].into_iter()), [none]);
        let open = open_pools([&master, &worker].into_iter());
        assert_eq!(open, ["pool infra: 1 of 3 updated"]);
    }
}
