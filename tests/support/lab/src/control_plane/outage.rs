//! What a cluster does when a host goes down, done at once.
//!
//! A host of the lab reboots within two seconds, which the node lifecycle controller, with its
//! grace period, would never notice; a real machine is away for minutes, and it does. So the lab
//! writes what that controller would have.

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

/// The conditions that the controller declares unknown. Source: `pkg/controller/nodelifecycle`,
/// `tryUpdateNodeHealth`.
const NODE_CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Writes that a node and all pods on it are not Ready. Where there is no such Node there is
/// nothing to write.
pub(super) async fn publish(client: &kube::Client, node: &str) -> Result<()> {
    let now = Timestamp::now();
    let nodes = Api::<Node>::all(client.clone());
    if nodes.get_opt(node).await?.is_none() {
        return Ok(());
    }
    nodes
        .patch_status(
            node,
            &PatchParams::default(),
            &Patch::Strategic(node_status(now)),
        )
        .await
        .with_context(|| format!("cannot write that node {node} is down"))?;

    let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
    for pod in Api::<Pod>::all(client.clone()).list(&here).await? {
        let (Some(name), Some(namespace)) = (pod.metadata.name, pod.metadata.namespace) else {
            continue;
        };
        let written = Api::<Pod>::namespaced(client.clone(), &namespace)
            .patch_status(
                &name,
                &PatchParams::default(),
                &Patch::Strategic(pod_status(now)),
            )
            .await;
        match written {
            // Deleted since the list.
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            written => {
                written.with_context(|| format!("cannot write that pod {name} is not Ready"))?;
            }
        }
    }
    Ok(())
}

fn node_status(now: Timestamp) -> Value {
    let conditions: Vec<_> = NODE_CONDITIONS
        .iter()
        .map(|condition| {
            json!({
                "type": condition,
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
                "lastTransitionTime": now,
            })
        })
        .collect();
    json!({ "status": { "conditions": conditions } })
}

fn pod_status(now: Timestamp) -> Value {
    json!({ "status": { "conditions": [
        { "type": "Ready", "status": "False", "lastTransitionTime": now },
    ] } })
}
