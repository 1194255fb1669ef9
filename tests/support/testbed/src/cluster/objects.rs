//! The cluster's objects, as an administrator writes and reads them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use api::{MachineConfig, MachineConfigPool, NodeState, annotation};
use k8s_openapi::api::core::v1::{Event, Node, NodeCondition, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::Value;

use super::SOON;

/// Time between two looks while something is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(200);

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
    ///
    /// # Errors
    ///
    /// The API server says no.
    pub async fn patch_node(&self, name: &str, patch: &Value) -> Result<()> {
        let nodes = Api::<Node>::all(self.client.clone());
        nodes
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Changes a pool by a merge patch.
    ///
    /// # Errors
    ///
    /// The API server says no.
    pub async fn patch_pool(&self, name: &str, patch: &Value) -> Result<()> {
        let pools = Api::<MachineConfigPool>::all(self.client.clone());
        pools
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// All Nodes, by name.
    ///
    /// # Errors
    ///
    /// The API server says no.
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
    ///
    /// # Errors
    ///
    /// The API server says no.
    pub async fn node(&self, name: &str) -> Result<Node> {
        Ok(Api::<Node>::all(self.client.clone()).get(name).await?)
    }

    /// One pool.
    ///
    /// # Errors
    ///
    /// The API server says no.
    pub async fn pool(&self, name: &str) -> Result<MachineConfigPool> {
        Ok(Api::<MachineConfigPool>::all(self.client.clone())
            .get(name)
            .await?)
    }

    /// The rendered configuration that a pool's nodes are to reach; empty before the first.
    ///
    /// # Errors
    ///
    /// The API server says no.
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
    ///
    /// # Errors
    ///
    /// The API server says no.
    pub async fn machine_config(&self, name: &str) -> Result<MachineConfig> {
        Ok(Api::<MachineConfig>::all(self.client.clone())
            .get(name)
            .await?)
    }

    /// Pods of namespace `default` that carry the label.
    ///
    /// # Errors
    ///
    /// The API server says no.
    pub async fn pods(&self, label: (&str, &str)) -> Result<Vec<Pod>> {
        let params = ListParams::default().labels(&format!("{}={}", label.0, label.1));
        Ok(Api::<Pod>::default_namespaced(self.client.clone())
            .list(&params)
            .await?
            .items)
    }

    /// Waits until a pod with the label is Ready.
    ///
    /// # Errors
    ///
    /// None is in time, or the API server says no.
    pub async fn ready_pod(&self, label: (&str, &str)) -> Result<()> {
        until(&format!("a pod of {}", label.1), SOON, async || {
            let is_there = self.pods(label).await?.iter().any(is_ready);
            Ok(if is_there {
                Ok(())
            } else {
                Err("none is Ready".to_owned())
            })
        })
        .await
    }

    /// All events of the cluster, oldest first as the API server lists them.
    ///
    /// # Errors
    ///
    /// The API server says no.
    pub async fn events(&self) -> Result<Vec<Event>> {
        Ok(Api::<Event>::all(self.client.clone())
            .list(&ListParams::default())
            .await?
            .items)
    }
}

/// A Deployment `evictable` of so many pods, which take a second to leave.
pub fn evictable(pods: usize) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: evictable
spec:
  replicas: {pods}
  selector:
    matchLabels: {{ app: evictable }}
  template:
    metadata:
      labels: {{ app: evictable }}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - {{ name: evictable, image: lab/evictable }}
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

/// Whether a pod is Ready, and nobody has asked it to go.
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

/// Looks until `found` gives something, and gives that.
///
/// # Errors
///
/// `within` is over; says what was waited for and the last answer. An error of `found` ends
/// the wait.
pub async fn until<T>(
    what: &str,
    within: Duration,
    mut found: impl AsyncFnMut() -> Result<Result<T, String>>,
) -> Result<T> {
    let deadline = tokio::time::Instant::now() + within;
    loop {
        let last = match found().await? {
            Ok(found) => return Ok(found),
            Err(last) => last,
        };
        if tokio::time::Instant::now() >= deadline {
            bail!("waited {} s for {what}: {last}", within.as_secs());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
