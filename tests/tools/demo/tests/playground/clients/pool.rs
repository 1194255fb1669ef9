//! A pool of one worker, as a test makes it, and what it rolls to.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::super::held::Held;

/// Such a pool. [`Pool::end`] makes its node a worker again.
pub(super) struct Pool<'a> {
    held: &'a Held,
    name: &'static str,
    node: &'static str,
}

impl<'a> Pool<'a> {
    pub(super) fn make(held: &'a Held, name: &'static str, node: &'static str) -> Result<Self> {
        held.done(&format!(
            "kubectl label nodes {node} node-role.kubernetes.io/{name}="
        ))?;
        held.apply(&json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": { "name": name, "labels": { name: "" } },
            "spec": {
                "machineConfigSelector": { "matchExpressions": [{
                    "key": "machineconfiguration.openshift.io/role", "operator": "In",
                    "values": ["worker", name],
                }] },
                "nodeSelector": { "matchLabels": { format!("node-role.kubernetes.io/{name}"): "" } },
            },
        }))?;
        let pool = Self { held, name, node };
        held.until_json(
            &format!("kubectl get machineconfigpools {name}"),
            "the pool to have its node",
            |pool| pool["status"]["machineCount"] == 1,
        )?;
        held.settled()?;
        Ok(pool)
    }

    /// The configuration of its node; all nodes are in theirs.
    pub(super) fn target(&self) -> Result<String> {
        let targets = self.held.targets()?;
        targets.get(self.name).cloned().context("no target")
    }

    /// Does something that changes its configuration, and waits until its node is there; the new
    /// configuration.
    pub(super) fn rolls(&self, change: impl FnOnce() -> Result<()>) -> Result<String> {
        let before = self.held.targets()?;
        change()?;
        self.held.rolled(self.name, &before)?;
        self.target()
    }

    /// Ends it: its node is a worker again.
    pub(super) fn end(self) -> Result<()> {
        let Self { held, name, node } = self;
        held.done(&format!(
            "kubectl label nodes {node} node-role.kubernetes.io/{name}-"
        ))?;
        held.until_json(
            &format!("kubectl get machineconfigpools {name}"),
            "the pool to be empty",
            |pool| pool["status"]["machineCount"] == 0,
        )?;
        held.done(&format!("kubectl delete machineconfigpools {name}"))?;
        held.settled()
    }
}

/// A MachineConfig of a role.
pub(super) fn config(name: &str, role: &str, ignition: &Value) -> Value {
    let mut config = json!({ "ignition": { "version": "3.5.0" } });
    if let (Some(config), Some(more)) = (config.as_object_mut(), ignition.as_object()) {
        config.extend(more.clone());
    }
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {
            "name": name, "labels": { "machineconfiguration.openshift.io/role": role },
        },
        "spec": { "config": config },
    })
}
