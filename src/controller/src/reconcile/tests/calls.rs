//! Calls that a reconcile makes, and the responses of the API server.

use apimock::{Call, Reply};
use serde_json::{Value, json};

use crate::fixture::merge;

pub(super) const MANAGER: &str = "fieldManager=machine-config-controller";
pub(super) const GROUP: &str = "/apis/machineconfiguration.openshift.io/v1";
pub(super) const NOW: &str = "2026-11-21T19:17:00Z";

/// `object` after a merge patch, in another version.
pub(super) fn patched(object: &Value, patch: &Value, version: &str) -> Value {
    let mut object = object.clone();
    merge(&mut object, patch);
    object["metadata"]["resourceVersion"] = json!(version);
    object
}

/// A patch and its response; changes `object` as the API server would.
pub(super) fn patch(path: &str, object: &mut Value, body: Value, version: &str) -> Call {
    *object = patched(object, &body, version);
    Call::patch(
        &format!("{path}?{MANAGER}"),
        body,
        Reply::ok(object.clone()),
    )
}

pub(super) fn list(items: &[Value]) -> Reply {
    Reply::ok(json!({ "metadata": { "resourceVersion": "99" }, "items": items }))
}

pub(super) fn list_sources(items: &[Value]) -> Call {
    Call::get(
        &format!(
            "{GROUP}/machineconfigs?limit=250&labelSelector=machineconfiguration.openshift.io%2Frole%3Dworker"
        ),
        list(items),
    )
}

pub(super) fn claim_body(version: &str, target: &str, nodes: &Value) -> Value {
    let round = format!(r#"{{"target":"{target}","nodes":{nodes}}}"#);
    json!({ "metadata": { "resourceVersion": version, "annotations": { "slipway.dev/round": round } } })
}

pub(super) fn assign_body(version: &str, target: &str) -> Value {
    json!({ "metadata": {
        "resourceVersion": version,
        "annotations": { "machineconfiguration.openshift.io/desiredConfig": target }
    } })
}

/// A node waits, and may fetch the target meanwhile.
pub(super) fn taint_body(version: &str, target: &str) -> Value {
    json!({
        "metadata": {
            "resourceVersion": version,
            "annotations": { "slipway.dev/next-config": target }
        },
        "spec": { "taints": [{ "effect": "PreferNoSchedule", "key": "UpdateInProgress" }] }
    })
}

pub(super) fn condition(r#type: &str, holds: bool, reason: &str, message: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({ "type": r#type, "status": status, "lastTransitionTime": NOW, "reason": reason, "message": message })
}

/// Counters in the order machine, updated, ready, unavailable, degraded.
pub(super) fn status(conditions: &[Value], counts: [u32; 5]) -> Value {
    json!({
        "conditions": conditions,
        "degradedMachineCount": counts[4],
        "machineCount": counts[0],
        "observedGeneration": 2,
        "readyMachineCount": counts[2],
        "unavailableMachineCount": counts[3],
        "updatedMachineCount": counts[1]
    })
}

pub(super) fn set_status(pool: &mut Value, changes: &Value, version: &str) -> Call {
    let body = json!({ "metadata": { "resourceVersion": pool["metadata"]["resourceVersion"] }, "status": changes });
    let name = pool["metadata"]["name"].as_str().unwrap();
    patch(
        &format!("{GROUP}/machineconfigpools/{name}/status"),
        pool,
        body,
        version,
    )
}

/// The conditions of a pool that rolls to `target` without trouble.
pub(super) fn rolling(target: &str, waiting: &Value) -> Vec<Value> {
    vec![
        condition("Updated", false, "", ""),
        condition(
            "Updating",
            true,
            "",
            &format!("All nodes are updating to MachineConfig {target}"),
        ),
        condition("RenderDegraded", false, "", ""),
        condition("NodeDegraded", false, "", ""),
        condition("RolloutDegraded", false, "", ""),
        condition("Degraded", false, "", ""),
        waiting.clone(),
        condition("PinnedImageSetsDegraded", false, "", ""),
    ]
}

/// What a pool says that an administrator paused.
pub(super) fn is_paused() -> Value {
    let why = "an administrator paused the pool; no node is assigned a new configuration";
    condition("Paused", true, "", why)
}

pub(super) fn none_waits() -> Value {
    condition("Waiting", false, "", "")
}
