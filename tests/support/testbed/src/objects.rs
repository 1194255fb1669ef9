//! The cluster's objects, as an administrator writes and reads them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::Result;
use api::config::ClusterOperator;
use api::machineconfiguration::{MachineConfig, MachineConfigPool, NodeState, annotation};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Node, NodeCondition, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{SOON, until};

/// A client, and what suites do with it.
#[derive(Clone)]
pub struct Objects {
    client: Client,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl Objects {
    /// Acts with this client's rights.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client itself.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Changes a Node by a merge patch, such as its labels.
    pub async fn patch_node(&self, name: &str, patch: &Value) -> Result<()> {
        let nodes = Api::<Node>::all(self.client.clone());
        nodes
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Writes annotations of a Node; null takes one away.
    pub async fn annotate(&self, node: &str, annotations: &Value) -> Result<()> {
        let patch = json!({ "metadata": { "annotations": annotations } });
        self.patch_node(node, &patch).await
    }

    /// Gives a Node its target by hand.
    pub async fn set_target(&self, node: &str, config: &str) -> Result<()> {
        let desired = json!({ (annotation::DESIRED_CONFIG): config });
        self.annotate(node, &desired).await
    }

    /// Gives a Node a role, or takes it away.
    pub async fn set_role(&self, node: &str, role: &str, has_it: bool) -> Result<()> {
        let label = format!("node-role.kubernetes.io/{role}");
        let labels = json!({ (label): has_it.then_some("") });
        let patch = json!({ "metadata": { "labels": labels } });
        self.patch_node(node, &patch).await
    }

    /// Pauses a pool, or lets it go on.
    pub async fn pause(&self, pool: &str, is_paused: bool) -> Result<()> {
        let patch = json!({ "spec": { "paused": is_paused } });
        self.patch_pool(pool, &patch).await
    }

    /// Changes a pool by a merge patch.
    pub async fn patch_pool(&self, name: &str, patch: &Value) -> Result<()> {
        let pools = Api::<MachineConfigPool>::all(self.client.clone());
        pools
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// All Nodes, by name.
    pub async fn nodes(&self) -> Result<BTreeMap<String, Node>> {
        let nodes = Api::<Node>::all(self.client.clone())
            .list(&ListParams::default())
            .await?;
        Ok(nodes
            .into_iter()
            .filter_map(|node| Some((node.metadata.name.clone()?, node)))
            .collect())
    }

    /// One Node.
    pub async fn node(&self, name: &str) -> Result<Node> {
        Ok(Api::<Node>::all(self.client.clone()).get(name).await?)
    }

    /// One pool.
    pub async fn pool(&self, name: &str) -> Result<MachineConfigPool> {
        Ok(Api::<MachineConfigPool>::all(self.client.clone())
            .get(name)
            .await?)
    }

    /// The rendered configuration that a pool's nodes are to reach; empty before the first.
    pub async fn target(&self, pool: &str) -> Result<String> {
        let pool = self.pool(pool).await?;
        Ok(pool
            .spec
            .configuration
            .name()
            .unwrap_or_default()
            .to_owned())
    }

    /// One MachineConfig.
    pub async fn machine_config(&self, name: &str) -> Result<MachineConfig> {
        Ok(Api::<MachineConfig>::all(self.client.clone())
            .get(name)
            .await?)
    }

    /// Pods of namespace `default` that carry the label.
    pub async fn pods(&self, label: (&str, &str)) -> Result<Vec<Pod>> {
        let params = ListParams::default().labels(&format!("{}={}", label.0, label.1));
        Ok(Api::<Pod>::default_namespaced(self.client.clone())
            .list(&params)
            .await?
            .items)
    }

    /// Waits until so many pods of each `app` are Ready.
    pub async fn pods_ready(&self, wanted: &[(&str, usize)]) -> Result<()> {
        until("the pods", SOON, async || {
            for (app, wanted) in wanted {
                let pods = self.pods(("app", app)).await?;
                let ready = pods.iter().filter(|pod| is_ready(pod)).count();
                if ready != *wanted {
                    return Ok(Err(format!("{ready} of {wanted} pods of {app} are ready")));
                }
            }
            Ok(Ok(()))
        })
        .await
    }

    /// Waits until a Node is as it should be; what it is then.
    pub async fn node_is(
        &self,
        name: &str,
        what: &str,
        within: Duration,
        holds: impl Fn(&Node) -> bool,
    ) -> Result<Node> {
        until(&format!("node {name} to be {what}"), within, async || {
            let node = self.node(name).await?;
            Ok(if holds(&node) {
                Ok(node)
            } else {
                Err(says(&node))
            })
        })
        .await
    }

    /// All events of the cluster, oldest first as the API server lists them.
    pub async fn events(&self) -> Result<Vec<Event>> {
        Ok(Api::<Event>::all(self.client.clone())
            .list(&ListParams::default())
            .await?
            .items)
    }
}

/// A Deployment of so many pods with the label `app`, its name, which take a second to leave.
pub fn deployment(name: &str, pods: usize) -> String {
    format!(
        "---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
spec:
  replicas: {pods}
  selector:
    matchLabels: {{ app: {name} }}
  template:
    metadata:
      labels: {{ app: {name} }}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - {{ name: {name}, image: lab/{name} }}
"
    )
}

/// A PodDisruptionBudget of the pods of a [`deployment`], such as with `minAvailable: 1`.
pub fn budget(name: &str, limit: &str) -> String {
    format!(
        "---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {name}
spec:
  {limit}
  selector:
    matchLabels: {{ app: {name} }}
"
    )
}

/// An annotation of a Node; empty if it has none.
pub fn annotation<'a>(node: &'a Node, key: &str) -> &'a str {
    let annotations = node.metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(key))
        .map_or("", String::as_str)
}

/// What a Node says of itself, for people.
pub fn says(node: &Node) -> String {
    let keys = [
        annotation::STATE,
        annotation::PHASE,
        annotation::CURRENT_CONFIG,
        annotation::DESIRED_CONFIG,
        annotation::WAITS_FOR,
        annotation::REASON,
    ];
    keys.map(|key| annotation(node, key)).join(" | ")
}

/// Whether a Node says that it is Done in `config`, and takes pods.
pub fn is_done_in(node: &Node, config: &str) -> bool {
    annotation(node, annotation::DESIRED_CONFIG) == config
        && annotation(node, annotation::CURRENT_CONFIG) == config
        && annotation(node, annotation::STATE) == NodeState::Done.as_str()
        && is_in_service(node)
}

/// Whether a Node is Ready and not cordoned.
pub fn is_in_service(node: &Node) -> bool {
    let is_cordoned = node
        .spec
        .as_ref()
        .and_then(|spec| spec.unschedulable)
        .unwrap_or(false);
    let is_ready =
        |condition: &NodeCondition| condition.type_ == "Ready" && condition.status == "True";
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    !is_cordoned && conditions.into_iter().flatten().any(is_ready)
}

/// Creates an object, given as JSON.
pub async fn create<K>(api: &Api<K>, object: Value) -> Result<K>
where
    K: Clone + DeserializeOwned + Serialize + Debug,
{
    let object = serde_json::from_value(object)?;
    Ok(api.create(&PostParams::default(), &object).await?)
}

/// Changes an object by a merge patch.
pub async fn merge<K>(api: &Api<K>, name: &str, change: &Value) -> Result<()>
where
    K: Clone + DeserializeOwned + Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(change))
        .await?;
    Ok(())
}

/// Writes fields of an object's status by a merge patch.
pub async fn set_status<K>(api: &Api<K>, name: &str, status: &Value) -> Result<()>
where
    K: Clone + DeserializeOwned + Debug,
{
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(name, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// Reports as an operator does: its version, and conditions by type, status and message.
pub async fn report(
    operators: &Api<ClusterOperator>,
    operator: &str,
    version: &str,
    conditions: &[(&str, &str, &str)],
) -> Result<()> {
    let condition = |(r#type, status, message): &(&str, &str, &str)| {
        json!({
            "type": r#type, "status": status, "message": message,
            "lastTransitionTime": "2025-01-01T00:00:00Z"
        })
    };
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    let versions = json!([{ "name": "operator", "version": version }]);
    let status = json!({ "conditions": conditions, "versions": versions });
    set_status(operators, operator, &status).await
}

/// Reports of a Job what its controller does once it is complete.
pub async fn complete_job(jobs: &Api<Job>, name: &str) -> Result<()> {
    let now = "2025-01-01T00:00:00Z";
    let condition =
        |r#type: &str| json!({ "type": r#type, "status": "True", "lastTransitionTime": now });
    let status = json!({
        "startTime": now, "completionTime": now, "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    });
    set_status(jobs, name, &status).await
}

/// Finds the condition whose text contains some words.
///
/// Shape: each of `conditions` is `<type>=<status> …`; the result is without its type.
/// Errors: all conditions.
pub fn find_condition(conditions: &[String], r#type: &str, words: &str) -> Result<String, String> {
    let mut found = conditions
        .iter()
        .filter_map(|one| one.strip_prefix(r#type)?.strip_prefix('='));
    let found = found.find(|one| one.contains(words));
    found
        .map(ToOwned::to_owned)
        .ok_or_else(|| conditions.join("\n"))
}

/// Whether a pod is Ready, and not being deleted.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_is_found_by_its_whole_type_and_else_all_are_named() {
        let conditions = ["NotReady=True x", "Ready=False b: c"].map(str::to_owned);
        assert_eq!(
            find_condition(&conditions, "Ready", "b"),
            Ok("False b: c".to_owned())
        );
        let all = Err("NotReady=True x\nReady=False b: c".to_owned());
        assert_eq!(find_condition(&conditions, "Ready", "x"), all);
    }
}
