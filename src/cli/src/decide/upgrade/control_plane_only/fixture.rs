//! A cluster at 4.16.30 that can go to 4.18.9.

use api::config::control_plane_only::{CONTROL_PLANE_ONLY, ControlPlaneOnlyRecord};
use api::machineconfiguration::{MachineConfigPool, annotation};
use pool::node::NodeView;
use serde_json::{Value, json};

use super::facts::CpoCluster;
use super::plan::CpoWish;
use crate::decide::object::ClusterObject;

pub(super) const FROM: &str = "4.16.30";
pub(super) const THROUGH: &str = "4.17.20";
pub(super) const TO: &str = "4.18.9";

pub(super) fn wish() -> CpoWish {
    CpoWish {
        to: TO.parse().unwrap(),
        through: None,
        allow_not_recommended: false,
    }
}

/// A pool whose nodes are all updated.
pub(super) fn pool(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "generation": 3 },
        "spec": { "nodeSelector": { "matchLabels": { format!("node-role.kubernetes.io/{name}"): "" } } },
        "status": {
            "observedGeneration": 3, "machineCount": 3, "updatedMachineCount": 3,
            "conditions": [
                { "type": "Updated", "status": "True" }, { "type": "Updating", "status": "False" },
                { "type": "Degraded", "status": "False" }
            ],
            "certExpirys": [
                { "bundle": "KubeAPIServerServingCAData", "subject": "CN=old", "expiry": "2026-01-03T00:00:00Z" },
                { "bundle": "KubeAPIServerServingCAData", "subject": "CN=new", "expiry": "2027-01-03T00:00:00Z" }
            ]
        }
    })
}

/// One that the update paused.
pub(super) fn mark(name: &str) -> Value {
    let mut pool = pool(name);
    pool["metadata"]["annotations"] =
        json!({ annotation::PAUSED_BY: annotation::CONTROL_PLANE_ONLY });
    pool["spec"]["paused"] = json!(true);
    pool
}

/// One that the update paused, and a person resumed.
pub(super) fn resumed(name: &str) -> Value {
    let mut pool = mark(name);
    pool["spec"]["paused"] = json!(false);
    pool
}

pub(super) fn pools(pools: &[Value]) -> Vec<MachineConfigPool> {
    let pools = pools.iter().cloned();
    pools
        .map(|pool| serde_json::from_value(pool).unwrap())
        .collect()
}

pub(super) fn node(name: &str, role: &str, kubelet: &str) -> NodeView {
    let labels = json!({ format!("node-role.kubernetes.io/{role}"): "" });
    let node = json!({ "metadata": { "name": name, "labels": labels } });
    let mut view = NodeView::parse(serde_json::from_value(node).unwrap());
    kubelet.clone_into(&mut view.kubelet_version);
    view
}

pub(super) fn offer(version: &str) -> Value {
    json!({ "version": version, "image": format!("quay.example/r@sha256:{version}") })
}

/// A cluster at the start, which no one has planned anything for.
pub(super) fn cluster() -> CpoCluster {
    let condition = |kind: &str, status: &str, message: &str| json!({ "type": kind, "status": status, "reason": "R", "message": message });
    let version = json!({
        "metadata": { "name": "version", "annotations": {} },
        "spec": { "channel": "eus-4.18" },
        "status": {
            "history": [{ "version": FROM, "state": "Completed" }],
            "desired": { "version": FROM },
            "conditions": [
                condition("Failing", "False", ""), condition("Progressing", "False", "at rest"),
                condition("RetrievedUpdates", "True", "")
            ],
            "availableUpdates": [offer("4.17.18"), offer(THROUGH), offer("4.16.31")],
            "conditionalUpdates": [{
                "release": offer("4.17.21"),
                "conditions": [{ "type": "Recommended", "status": "False", "reason": "Bug", "message": "It breaks." }]
            }]
        }
    });
    CpoCluster {
        version: ClusterObject(version),
        pools: pools(&[pool("master"), pool("worker"), pool("infra")]),
        nodes: vec![
            node("m1", "master", "v1.29.14"),
            node("w1", "worker", "v1.29.14"),
            node("i1", "infra", "v1.29.14"),
        ],
        api_server: "v1.29.14+a1b2".to_owned(),
        now: "2026-01-02T03:04:05Z".parse().unwrap(),
    }
}

/// The same with an update that is recorded, its pools paused, and this version and state at the
/// head of the history.
pub(super) fn recorded((version, state): (&str, &str)) -> CpoCluster {
    let mut cluster = cluster();
    let record = ControlPlaneOnlyRecord::new(
        [FROM, THROUGH, TO].map(str::to_owned),
        ["infra", "worker"].map(str::to_owned).into(),
        "admin".to_owned(),
        cluster.now,
    );
    let object = &mut cluster.version.0;
    object["metadata"]["annotations"][CONTROL_PLANE_ONLY] = json!(record.to_annotation());
    object["status"]["history"] = json!([
        { "version": version, "state": state }, { "version": FROM, "state": "Completed" }
    ]);
    object["status"]["desired"]["version"] = json!(version);
    cluster.pools = pools(&[pool("master"), mark("worker"), mark("infra")]);
    cluster
}
