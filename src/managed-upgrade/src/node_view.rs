//! What is read of Nodes and MachineConfigPools.

use api::machineconfiguration::{DrainLease, MachineConfigPool, annotation, label};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;

/// Label of nodes of the infrastructure, which are no users' workers.
const INFRA: &str = "node-role.kubernetes.io/infra";
/// Taint of cordoned nodes; its time is the begin of the drain.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// What is kept of a Node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts of an object, independent of each other"
)]
pub struct UpgradeNode {
    /// Name.
    pub name: String,
    /// Version of the object.
    pub resource_version: String,
    /// Whether it runs users' pods.
    pub is_worker: bool,
    /// Whether it belongs to the control plane.
    pub is_control_plane: bool,
    /// When it was cordoned, if it is.
    pub drain_started: Option<Timestamp>,
    /// Who removes pods from it in its daemon's place.
    pub drain_lease: Option<DrainLease>,
    /// Whether its daemon is changing it.
    pub is_updating: bool,
    /// Whether its kubelet reports that it is ready.
    pub is_ready: bool,
    /// What it has too little of: `memory`, `disk`, `pid`.
    pub pressures: Vec<&'static str>,
}

impl UpgradeNode {
    /// Reads a Node.
    pub fn parse(node: Node) -> Self {
        let metadata = node.metadata;
        let has_label = |key: &str| {
            metadata
                .labels
                .as_ref()
                .is_some_and(|l| l.contains_key(key))
        };
        let annotations = metadata.annotations.as_ref();
        let state = annotations.and_then(|all| all.get(annotation::STATE));
        let lease = annotations.and_then(|all| all.get(annotation::DRAIN_LEASE));
        let drain_lease = lease.and_then(|lease| DrainLease::parse(lease));
        let spec = node.spec.unwrap_or_default();
        let taints = spec.taints.unwrap_or_default();
        let mut taints_here = taints.iter().filter(|taint| taint.effect == "NoSchedule");
        let has_taint = |kind: &str| {
            let key = format!("node.kubernetes.io/{kind}-pressure");
            let mut taints = taints.iter().filter(|taint| taint.effect == "NoSchedule");
            taints.any(|taint| taint.key == key)
        };
        let pressures = ["memory", "disk", "pid"];
        let pressures = pressures
            .into_iter()
            .filter(|kind| has_taint(kind))
            .collect();
        let cordon = taints_here.find(|taint| taint.key == UNSCHEDULABLE);
        let cordon = cordon.filter(|_| spec.unschedulable == Some(true));
        let conditions = node.status.and_then(|status| status.conditions);
        let mut conditions = conditions.iter().flatten();
        let ready = conditions.find(|condition| condition.type_ == "Ready");
        Self {
            is_ready: ready.is_some_and(|ready| ready.status == "True"),
            is_worker: has_label(label::WORKER) && !has_label(INFRA),
            is_control_plane: has_label(label::MASTER),
            // A taint without a time: cordoned, for as long as the node exists.
            drain_started: cordon.map(|taint| {
                let added = taint
                    .time_added
                    .as_ref()
                    .or(metadata.creation_timestamp.as_ref());
                added.map_or(Timestamp::UNIX_EPOCH, |time| time.0)
            }),
            drain_lease,
            is_updating: state.is_some_and(|state| state == "Working"),
            pressures,
            name: metadata.name.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        }
    }

    /// Whether its drain takes longer than `limit` although an update waits for it.
    pub fn has_stuck_drain(&self, limit: SignedDuration, now: Timestamp) -> bool {
        let started = self.drain_started.filter(|_| self.is_updating);
        !self.is_control_plane && started.is_some_and(|started| now.duration_since(started) > limit)
    }
}

/// How far a MachineConfigPool is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolProgress {
    /// Name.
    pub name: String,
    /// Version of the object.
    pub resource_version: String,
    /// Its machines, and those that run its configuration.
    pub machines: (u32, u32),
    /// Whether it is paused.
    pub is_paused: bool,
    /// Whether its configuration is not the one that its counts are about.
    pub is_outdated: bool,
}

impl PoolProgress {
    /// Reads a pool.
    pub fn parse(pool: MachineConfigPool) -> Self {
        let status = pool.status.unwrap_or_default();
        let count = |count: i32| u32::try_from(count).unwrap_or_default();
        Self {
            name: pool.metadata.name.unwrap_or_default(),
            resource_version: pool.metadata.resource_version.unwrap_or_default(),
            machines: (
                count(status.machine_count),
                count(status.updated_machine_count),
            ),
            is_paused: pool.spec.paused,
            is_outdated: pool.spec.configuration.reference.name
                != status.configuration.reference.name,
        }
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{START, at};

    fn node(taints: &Value, unschedulable: bool) -> UpgradeNode {
        let object = json!({
            "metadata": {
                "name": "a",
                "labels": { "node-role.kubernetes.io/worker": "" },
                "annotations": { "machineconfiguration.openshift.io/state": "Working" },
            },
            "spec": { "unschedulable": unschedulable, "taints": taints },
        });
        UpgradeNode::parse(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn node_is_cordoned_by_field_and_taint_and_its_drain_counts_from_the_taint() {
        let cordon = json!({
            "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule",
            "timeAdded": START.to_string()
        });
        let other = json!({ "key": "a", "effect": "NoSchedule", "timeAdded": at(5).to_string() });
        let both = json!([other, cordon]);
        assert_eq!(node(&both, true).drain_started, Some(START));
        assert_eq!(node(&both, false).drain_started, None);
        assert_eq!(node(&json!([other]), true).drain_started, None);
        let limit = SignedDuration::from_mins(45);
        let cordoned = node(&both, true);
        assert!(!cordoned.has_stuck_drain(limit, at(45)));
        assert!(cordoned.has_stuck_drain(limit, at(46)));
        let idle = UpgradeNode {
            is_updating: false,
            ..cordoned
        };
        assert!(!idle.has_stuck_drain(limit, at(46)));
    }

    #[test]
    fn pressures_are_taints_of_nodes() {
        let taint = |kind: &str, effect: &str| json!({ "key": format!("node.kubernetes.io/{kind}-pressure"), "effect": effect });
        let taints = json!([
            taint("pid", "NoSchedule"),
            taint("memory", "NoSchedule"),
            taint("disk", "NoExecute")
        ]);
        assert_eq!(node(&taints, false).pressures, ["memory", "pid"]);
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
    }
}
