//! Pools that all select the same MachineConfigs, each with nodes of its own role.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use api::machineconfiguration::{MachineConfig, MachineConfigPool, label};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The budget of each pool.
const BUDGET: &str = "10%";

/// What each step may take: several times what it took with one request at a time.
const LIMIT: Duration = Duration::from_mins(5);

/// Time between two polls, short beside what is waited for.
const POLL_EVERY: Duration = Duration::from_millis(200);

pub(crate) fn pool_name(pool: usize) -> String {
    format!("pool-{pool:02}")
}

pub(crate) fn role(pool: usize) -> String {
    format!("node-role.kubernetes.io/{}", pool_name(pool))
}

/// A MachineConfig that all pools select.
pub(crate) fn config(name: &str, argument: &str) -> Result<MachineConfig> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { label::ROLE: "worker" } },
        "spec": { "kernelArguments": [argument] }
    }))?)
}

pub(crate) fn pool_object(pool: usize) -> Value {
    json!({
        "metadata": { "name": pool_name(pool) },
        "spec": {
            "maxUnavailable": BUDGET,
            "machineConfigSelector": { "matchLabels": { label::ROLE: "worker" } },
            "nodeSelector": { "matchLabels": { role(pool): "" } }
        }
    })
}

/// Creates a node, which is ready from then on.
pub(crate) async fn create_ready(nodes: &Api<Node>, node: &Value) -> Result<()> {
    let node = serde_json::from_value(node.clone())?;
    let node = nodes.create(&PostParams::default(), &node).await?;
    let ready = json!({ "status": { "conditions": [
        { "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "" }
    ] } });
    let name = node.metadata.name.unwrap_or_default();
    let patch = Patch::Strategic(ready);
    nodes
        .patch_status(&name, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// The target of each pool, once all have one.
pub(crate) async fn rendered(
    pools: &Api<MachineConfigPool>,
) -> Result<Option<BTreeMap<String, String>>> {
    let pools = pools.list(&ListParams::default()).await?;
    let targets = pools.items.into_iter().map(|pool| {
        let target = pool.spec.configuration.name()?.to_owned();
        Some((pool.metadata.name?, target))
    });
    Ok(targets.collect())
}

/// Whether all nodes of each pool, as many as `nodes`, have its target.
pub(crate) async fn updated(pools: &Api<MachineConfigPool>, nodes: usize) -> Result<Option<()>> {
    let pools = pools.list(&ListParams::default()).await?;
    let is_updated = |pool: &MachineConfigPool| {
        let updated = pool
            .status
            .as_ref()
            .map(|status| status.updated_machine_count);
        updated.is_some_and(|updated| usize::try_from(updated) == Ok(nodes))
    };
    Ok(pools.items.iter().all(is_updated).then_some(()))
}

/// Polls until something is there.
pub(crate) async fn until<T>(
    what: &str,
    mut found: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = found().await? {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            bail!("not within {} s: {what}", LIMIT.as_secs());
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}
