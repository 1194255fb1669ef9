//! Nodes, their pods and machines, as the test plays them.

use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::ListParams;
use lab::{PATIENCE, wait};
use serde_json::json;
use testbed::objects::{create, set_status};

use super::Cluster;

impl Cluster {
    /// A node whose daemon drains it for 70 min, with pods that do not leave. Its state is what it
    /// is after an hour, and its kubelet is silent.
    pub(crate) async fn add_stuck_node(&self) -> Result<()> {
        let account = json!({ "metadata": { "name": "default", "namespace": "default" } });
        let accounts: Api<ServiceAccount> = self.namespaced("default");
        if accounts.get_opt("default").await?.is_none() {
            create(&accounts, account).await?;
        }
        let began = Timestamp::now() - SignedDuration::from_mins(70);
        let began = Timestamp::from_second(began.as_second())?.to_string();
        let node = json!({
            "metadata": { "name": "stuck", "annotations": {
                "machineconfiguration.openshift.io/state": "Degraded",
                "slipway.dev/phase": "Draining", "slipway.dev/drain-since": began,
                "slipway.dev/cordoned-by": "attempt"
            } },
            "spec": { "unschedulable": true },
        });
        create(&self.nodes, node).await?;
        self.kubelet_reports("stuck", "Unknown").await?;
        let budget = json!({
            "metadata": { "name": "protected" },
            "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "protected" } } },
        });
        let budgets: Api<PodDisruptionBudget> = self.namespaced("default");
        create(&budgets, budget).await?;
        let pods: Api<Pod> = self.namespaced("default");
        for name in ["free", "protected", "exempt"] {
            let exempt = (name == "exempt").to_string();
            let pod = json!({
                "metadata": {
                    "name": name, "labels": { "app": name }, "finalizers": ["example.com/held"],
                    "annotations": { "slipway.dev/no-forced-drain": exempt },
                },
                "spec": {
                    "nodeName": "stuck", "containers": [{ "name": "a", "image": "a" }],
                    "terminationGracePeriodSeconds": 1
                },
            });
            create(&pods, pod).await?;
        }
        Ok(())
    }

    /// Sets condition Ready of a node.
    pub(crate) async fn kubelet_reports(&self, node: &str, ready: &str) -> Result<()> {
        let now = Timestamp::from_second(Timestamp::now().as_second())?.to_string();
        let condition = json!({
            "type": "Ready", "status": ready, "reason": "a", "message": "b",
            "lastHeartbeatTime": now
        });
        let status = json!({ "conditions": [condition] });
        set_status(&self.nodes, node, &status).await
    }

    /// Waits until there is an event of this reason about the UpgradeConfig.
    pub(crate) async fn until_event(&self, reason: &str) -> Result<()> {
        let (what, read) = (format!("event {reason}"), async || {
            self.event_reasons().await
        });
        let found = wait::until_so(&what, read, |found| {
            found.iter().any(|other| other == reason)
        });
        found.await.map(drop)
    }

    /// Names of pods in the namespace `default`, sorted.
    pub(crate) async fn pods(&self) -> Result<Vec<String>> {
        let pods: Api<Pod> = self.namespaced("default");
        let pods = pods.list(&ListParams::default()).await?;
        let mut names: Vec<String> = pods
            .into_iter()
            .filter_map(|pod| pod.metadata.name)
            .collect();
        names.sort();
        Ok(names)
    }

    pub(crate) async fn until_pods(&mut self, expected: &[&str]) -> Result<()> {
        wait::until(&format!("pods {expected:?}"), PATIENCE, async || {
            let found = self.pods().await?;
            if found == expected {
                return Ok(Ok(()));
            }
            self.nudge().await?;
            Ok(Err(format!("{found:?}")))
        })
        .await
    }

    /// Waits until the operator has the lease of the node's drain, or has released it.
    pub(crate) async fn until_drain_lease(&self, is_held: bool) -> Result<()> {
        let read = async || {
            let node = self.nodes.get("stuck").await?;
            let mut annotations = node.metadata.annotations.unwrap_or_default();
            Ok(annotations.remove("slipway.dev/drain-lease"))
        };
        let found = wait::until_so("the lease of a drain", read, |lease| {
            lease.is_some() == is_held
        });
        found.await.map(drop)
    }

    /// Deletes the machine of the copied MachineSet.
    pub(crate) fn remove_machine(&self) -> Result<()> {
        let machine = [
            "machine",
            "worker-a-upgrade-x",
            "-n",
            "openshift-machine-api",
        ];
        self.control_plane
            .kubectl(&[&["delete"], &machine[..], &["--ignore-not-found"]].concat())?;
        Ok(())
    }

    /// Makes the machine of the copied MachineSet, with a node that is ready.
    pub(crate) async fn add_machine(&self) -> Result<()> {
        create(&self.nodes, json!({ "metadata": { "name": "extra" } })).await?;
        let labels = json!({
            "upgrade.managed.openshift.io": "true",
            "machine.openshift.io/cluster-api-machineset": "worker-a-upgrade",
        });
        let machine = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": {
                "name": "worker-a-upgrade-x", "namespace": "openshift-machine-api",
                "labels": labels,
            },
            "status": { "nodeRef": { "name": "extra" } },
        });
        self.apply(&machine.to_string()).await?;
        let status = json!({ "status": { "readyReplicas": 1 } }).to_string();
        let set = [
            "machineset",
            "worker-a-upgrade",
            "-n",
            "openshift-machine-api",
        ];
        let patch = ["--type=merge", "-p", &status];
        self.control_plane
            .kubectl(&[&["patch"], &set[..], &patch].concat())?;
        self.kubelet_reports("extra", "True").await
    }

    /// Asserts that no MachineSet is there but the cluster's own.
    pub(crate) fn has_own_machine_sets(&self) -> Result<()> {
        let sets = self.machine_objects("machinesets")?;
        let own = ["machineset.machine.openshift.io/worker-a"];
        ensure!(sets == own, "{sets:?}");
        Ok(())
    }

    /// Names of objects of the machine API.
    pub(crate) fn machine_objects(&self, kind: &str) -> Result<Vec<String>> {
        let found = ["get", kind, "-n", "openshift-machine-api", "-o", "name"];
        let names = self.control_plane.kubectl(&found)?;
        Ok(names.lines().map(ToOwned::to_owned).collect())
    }
}
