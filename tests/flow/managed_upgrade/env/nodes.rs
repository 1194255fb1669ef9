//! Nodes, their pods and machines, as the test plays them.

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::ListParams;
use lab::{PATIENCE, wait};
use serde_json::json;

use super::{Cluster, make};

impl Cluster {
    /// A node whose daemon drains it for 70 min, with pods that do not leave. Its state is what it
    /// is after an hour, and its kubelet is silent.
    pub(crate) async fn add_stuck_node(&self) -> Result<()> {
        let account = json!({ "metadata": { "name": "default", "namespace": "default" } });
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), "default");
        if accounts.get_opt("default").await?.is_none() {
            make(&accounts, account).await?;
        }
        let began = Timestamp::now() - SignedDuration::from_mins(70);
        let began = Timestamp::from_second(began.as_second())?.to_string();
        make(
            &self.nodes,
            json!({
                "metadata": { "name": "stuck", "annotations": {
                    "machineconfiguration.openshift.io/state": "Degraded",
                    "slipway.dev/phase": "Draining", "slipway.dev/drain-since": began,
                    "slipway.dev/cordoned-by": "attempt"
                } },
                "spec": { "unschedulable": true },
            }),
        )
        .await?;
        self.kubelet_reports("stuck", "Unknown").await?;
        let budget = json!({
            "metadata": { "name": "protected" },
            "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "protected" } } },
        });
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), "default");
        make(&budgets, budget).await?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        for name in ["free", "protected", "exempt"] {
            let exempt = (name == "exempt").to_string();
            make(
                &pods,
                json!({
                    "metadata": {
                        "name": name, "labels": { "app": name }, "finalizers": ["example.com/held"],
                        "annotations": { "slipway.dev/no-forced-drain": exempt },
                    },
                    "spec": {
                        "nodeName": "stuck", "containers": [{ "name": "a", "image": "a" }],
                        "terminationGracePeriodSeconds": 1
                    },
                }),
            )
            .await?;
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
        self.set_status(&self.nodes, node, status).await
    }

    /// Waits until there is an event of this reason about the UpgradeConfig.
    pub(crate) async fn until_event(&self, reason: &str) -> Result<()> {
        wait::until(&format!("event {reason}"), PATIENCE, async || {
            let reasons = self.event_reasons().await?;
            Ok(if reasons.iter().any(|known| known == reason) {
                Ok(())
            } else {
                Err(format!("{reasons:?}"))
            })
        })
        .await
    }

    /// Names of pods in the namespace `default`, sorted.
    pub(crate) async fn pods(&self) -> Result<Vec<String>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "default");
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
        wait::until("the lease of a drain", PATIENCE, async || {
            let node = self.nodes.get("stuck").await?;
            let annotations = node.metadata.annotations.unwrap_or_default();
            let lease = annotations.get("slipway.dev/drain-lease");
            Ok(if lease.is_some() == is_held {
                Ok(())
            } else {
                Err(format!("{lease:?}"))
            })
        })
        .await
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
        make(&self.nodes, json!({ "metadata": { "name": "extra" } })).await?;
        let labels = json!({
            "upgrade.managed.openshift.io": "true",
            "machine.openshift.io/cluster-api-machineset": "worker-a-upgrade",
        });
        self.apply(
            "machine",
            &json!({
                "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
                "metadata": {
                    "name": "worker-a-upgrade-x", "namespace": "openshift-machine-api",
                    "labels": labels,
                },
                "status": { "nodeRef": { "name": "extra" } },
            }),
        )?;
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

    /// Names of objects of the machine API.
    pub(crate) fn machine_objects(&self, kind: &str) -> Result<Vec<String>> {
        let found = ["get", kind, "-n", "openshift-machine-api", "-o", "name"];
        let names = self.control_plane.kubectl(&found)?;
        Ok(names.lines().map(ToOwned::to_owned).collect())
    }
}
