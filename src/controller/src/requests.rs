//! Each request that is ever sent, but for watches, the lease and events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::config::{ClusterOperator, ClusterVersion, cluster_version};
use api::machineconfiguration::machine_config_pool::Configuration;
use api::machineconfiguration::{
    ControllerConfig, MachineConfig, MachineConfigNode, MachineConfigPool, OSImageStream,
    annotation, controller_config, os_image_stream,
};
use api::operator::machine_configuration::{self, MachineConfiguration};
use cluster::access::Access;
use cluster::list::list;
use cluster::path;
use cluster::wire::{Error, RequestBody};
use http::Method;
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use pool::claim::RoundClaim;
use pool::node::NodeView;
use pool::write::NodeWrite;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

use crate::configs::ConfigMeta;
use crate::merge_patch::replacement;
use crate::store::node_objects::NodeAssignment;
use crate::store::{Pool, SettingsMeta};

/// Who owns the fields that are written.
const MANAGER: &str = "fieldManager=machine-config-controller";

/// The same for MachineConfigNodes: the manager that clients of OpenShift's MCO know.
const NODE_OBJECT_MANAGER: &str = "fieldManager=machine-config-operator";

/// Pods that a PodDisruptionBudget keeps where they are.
struct BlockedPods {
    namespace: String,
    /// Their label selector; all pods of the namespace where it is empty.
    labels: String,
}

/// The pods that a budget lets none go of; none if it does.
fn blocked(budget: PodDisruptionBudget) -> Option<BlockedPods> {
    let status = budget.status?;
    let allows = status.disruptions_allowed.unwrap_or_default() > 0;
    if allows || status.expected_pods.unwrap_or_default() == 0 {
        return None;
    }
    let selector = budget.spec?.selector?;
    let equal = selector.match_labels.into_iter().flatten();
    let equal = equal.map(|(key, value)| format!("{key}={value}"));
    let asked = selector.match_expressions.into_iter().flatten();
    let asked = asked.map(|asked| {
        let (key, values) = (asked.key, asked.values.unwrap_or_default().join(","));
        match asked.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key,
        }
    });
    let labels: Vec<String> = equal.chain(asked).collect();
    Some(BlockedPods {
        namespace: budget.metadata.namespace.unwrap_or_default(),
        labels: labels.join(","),
    })
}

/// What is read of a MachineConfig, which may be large, for its OS image.
#[derive(Deserialize)]
struct ConfigImage {
    #[serde(default)]
    spec: ConfigImageSpec,
}

#[derive(Default, Deserialize)]
struct ConfigImageSpec {
    #[serde(default, rename = "osImageURL")]
    os_image_url: String,
}

/// Sends requests. Writes are patches of what we own, guarded by the version that was read where
/// they depend on it.
#[derive(Debug, Clone)]
pub struct Requests {
    access: Arc<Access>,
}

impl Requests {
    /// Sends as this identity.
    pub const fn new(access: Arc<Access>) -> Self {
        Self { access }
    }

    /// The identity that it sends as.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// Reads an object; nothing where there is none, or the API has no such kind.
    async fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Error> {
        match self.access.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How many pods of each node no PodDisruptionBudget lets go now.
    ///
    /// # Errors
    /// All of [`Error`], as every method here.
    pub async fn count_blocked_pods(&self) -> Result<BTreeMap<String, usize>, Error> {
        let budgets = list::<PodDisruptionBudget, _>(&self.access, None, blocked).await?;
        let mut pods = BTreeSet::new();
        for blocked in budgets.into_iter().flatten() {
            let of = |pod: Pod| {
                let is_here = pod.metadata.namespace.as_deref() == Some(&blocked.namespace);
                let node = pod.spec.and_then(|spec| spec.node_name)?;
                let phase = pod.status.and_then(|status| status.phase);
                let has_ended = matches!(phase.as_deref(), Some("Succeeded" | "Failed"));
                let name = pod.metadata.name.unwrap_or_default();
                (is_here && !has_ended).then(|| (blocked.namespace.clone(), name, node))
            };
            let found = list::<Pod, _>(&self.access, Some(&blocked.labels), of).await?;
            pods.extend(found.into_iter().flatten());
        }
        let mut counts = BTreeMap::new();
        for (_, _, node) in pods {
            *counts.entry(node).or_default() += 1;
        }
        Ok(counts)
    }

    /// Whether a Node is there.
    ///
    /// # Errors
    /// All of [`Error`], as every method here.
    pub async fn has_node(&self, name: &str) -> Result<bool, Error> {
        let found = self.find::<IgnoredAny>(&path::object::<Node>(name)).await?;
        Ok(found.is_some())
    }

    /// Reads the MachineConfigs with these labels, whole.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn list_configs(&self, labels: &str) -> Result<Vec<MachineConfig>, Error> {
        list::<MachineConfig, _>(&self.access, Some(labels), |config| config).await
    }

    /// Reads all pools.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn list_pools(&self) -> Result<Vec<MachineConfigPool>, Error> {
        list::<MachineConfigPool, _>(&self.access, None, |pool| pool).await
    }

    /// Reads all ControllerConfigs; one counts.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn list_controller_configs(&self) -> Result<Vec<ControllerConfig>, Error> {
        list::<ControllerConfig, _>(&self.access, None, |config| config).await
    }

    /// Reads a MachineConfig; nothing where there is none.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn read_config(&self, name: &str) -> Result<Option<MachineConfig>, Error> {
        self.find(&path::object::<MachineConfig>(name)).await
    }

    /// Reads the cluster's settings; nothing where there are none, or the API has no such kind.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn read_settings(&self) -> Result<Option<MachineConfiguration>, Error> {
        let path = path::object::<MachineConfiguration>(machine_configuration::NAME);
        self.find(&path).await
    }

    /// Makes the cluster's settings, which ask for nothing; nothing where they are there, or the
    /// API has no such kind.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn create_settings(&self) -> Result<Option<SettingsMeta>, Error> {
        let settings = json!({
            "apiVersion": "operator.openshift.io/v1",
            "kind": "MachineConfiguration",
            "metadata": { "name": machine_configuration::NAME },
            "spec": { "managementState": "Managed" }
        });
        let path = format!("{}?{MANAGER}", path::all::<MachineConfiguration>());
        let body = RequestBody::Object(&settings);
        match self.access.send(Method::POST, &path, body).await {
            Ok(created) => Ok(Some(SettingsMeta::parse(created))),
            Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets fields of the status of the cluster's settings, if they are still as they were read.
    ///
    /// # Errors
    /// All of [`Error`]; 409 where they have changed.
    pub async fn set_settings_status(
        &self,
        settings: &MachineConfiguration,
        changes: &Value,
    ) -> Result<SettingsMeta, Error> {
        let change = json!({
            "metadata": { "resourceVersion": settings.metadata.resource_version },
            "status": changes
        });
        let settings = path::object::<MachineConfiguration>(machine_configuration::NAME);
        let path = format!("{settings}/status?{MANAGER}");
        self.patch(&path, &change).await.map(SettingsMeta::parse)
    }

    /// Gives the ControllerConfig a release's images, if it is still as it was read.
    ///
    /// # Errors
    /// All of [`Error`]; 409 where it has changed.
    pub async fn set_controller_config(&self, change: &Value) -> Result<ControllerConfig, Error> {
        let config = path::object::<ControllerConfig>(controller_config::NAME);
        self.patch(&format!("{config}?{MANAGER}"), change).await
    }

    /// Sets fields of its status, if it is still as it was read.
    ///
    /// # Errors
    /// All of [`Error`]; 409 where it has changed.
    pub async fn set_controller_config_status(
        &self,
        change: &Value,
    ) -> Result<ControllerConfig, Error> {
        let config = path::object::<ControllerConfig>(controller_config::NAME);
        self.patch(&format!("{config}/status?{MANAGER}"), change)
            .await
    }

    /// Sets fields of the status of OSImageStream `cluster`, if it is still as it was read.
    ///
    /// # Errors
    /// All of [`Error`]; 409 where it has changed.
    pub async fn set_stream_status(&self, change: &Value) -> Result<OSImageStream, Error> {
        let stream = path::object::<OSImageStream>(os_image_stream::NAME);
        self.patch(&format!("{stream}/status?{MANAGER}"), change)
            .await
    }

    /// OS image of a MachineConfig; nothing where there is none.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn read_os_image(&self, name: &str) -> Result<Option<String>, Error> {
        let read: Option<ConfigImage> = self.find(&path::object::<MachineConfig>(name)).await?;
        Ok(read.map(|config| config.spec.os_image_url))
    }

    /// Pull spec of the cluster's release, where that is of this version; nothing where the cluster
    /// has no ClusterVersion.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn read_release_image(&self, version: &str) -> Result<Option<String>, Error> {
        let path = path::object::<ClusterVersion>(cluster_version::NAME);
        let Some(read) = self.find::<ClusterVersion>(&path).await? else {
            return Ok(None);
        };
        let desired = read.status.map(|status| status.desired).unwrap_or_default();
        Ok((desired.version == version && !desired.image.is_empty()).then_some(desired.image))
    }

    /// Creates a ClusterOperator; nothing where the API has no such kind.
    ///
    /// # Errors
    /// All of [`Error`]; 409 where it is there.
    pub async fn create_operator(&self, name: &str) -> Result<Option<ClusterOperator>, Error> {
        let object = json!({
            "apiVersion": "config.openshift.io/v1",
            "kind": "ClusterOperator",
            "metadata": { "name": name },
            "spec": {}
        });
        let path = format!("{}?{MANAGER}", path::all::<ClusterOperator>());
        match self
            .access
            .send(Method::POST, &path, RequestBody::Object(&object))
            .await
        {
            Ok(created) => Ok(Some(created)),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets fields of a ClusterOperator's status, if it is still as it was read.
    ///
    /// # Errors
    /// All of [`Error`]; 409 where it has changed.
    pub async fn set_operator_status(
        &self,
        operator: &ClusterOperator,
        changes: &Value,
    ) -> Result<ClusterOperator, Error> {
        let change = json!({
            "metadata": { "resourceVersion": operator.metadata.resource_version },
            "status": changes
        });
        let name = operator.metadata.name.as_deref().unwrap_or_default();
        let operator = path::object::<ClusterOperator>(name);
        self.patch(&format!("{operator}/status?{MANAGER}"), &change)
            .await
    }

    /// Creates a rendered MachineConfig. Nothing where one of that name is there.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn create_config(&self, config: &Value) -> Result<Option<ConfigMeta>, Error> {
        let path = format!("{}?{MANAGER}", path::all::<MachineConfig>());
        match self
            .access
            .send(Method::POST, &path, RequestBody::Object(config))
            .await
        {
            Ok(created) => Ok(Some(ConfigMeta::parse(created))),
            Err(error) if error.code() == Some(409) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets annotations of a MachineConfig, or with `null` removes them.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn annotate_config(&self, name: &str, annotations: &Value) -> Result<(), Error> {
        let change = json!({ "metadata": { "annotations": annotations } });
        let path = format!("{}?{MANAGER}", path::object::<MachineConfig>(name));
        self.patch::<IgnoredAny>(&path, &change).await.map(|_| ())
    }

    /// Makes the spec of a MachineConfig what was rendered, if it is still as it was read.
    ///
    /// # Errors
    /// All of [`Error`]; 409 where it has changed.
    pub async fn restore_config(
        &self,
        config: MachineConfig,
        spec: &Value,
    ) -> Result<ConfigMeta, Error> {
        let metadata = config.metadata;
        let present = serde_json::to_value(config.spec).unwrap_or_default();
        let change = json!({
            "metadata": { "resourceVersion": metadata.resource_version },
            "spec": replacement(&present, spec)
        });
        let name = metadata.name.unwrap_or_default();
        let path = format!("{}?{MANAGER}", path::object::<MachineConfig>(&name));
        self.patch(&path, &change).await.map(ConfigMeta::parse)
    }

    /// Changes a MachineConfig, if it is still as it was read.
    ///
    /// # Errors
    /// All of [`Error`]; 409 where it has changed.
    pub async fn change_config(&self, name: &str, change: &Value) -> Result<ConfigMeta, Error> {
        let path = format!("{}?{MANAGER}", path::object::<MachineConfig>(name));
        self.patch(&path, change).await.map(ConfigMeta::parse)
    }

    /// Deletes a MachineConfig, if it is still the one with this unique id. One that is gone is no
    /// error.
    ///
    /// # Errors
    /// All of [`Error`]; 409 where another one has its name.
    pub async fn delete_config(&self, name: &str, uid: &str) -> Result<(), Error> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": { "uid": uid }
        });
        let path = path::object::<MachineConfig>(name);
        self.delete(&path, &options).await
    }

    /// Changes an object without a namespace, or a part of it, if it is still as it was read.
    ///
    /// # Errors
    /// All of [`Error`]; 409 where it has changed.
    pub async fn change<K>(&self, object: &K, part: &str, change: &Value) -> Result<K, Error>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + DeserializeOwned,
    {
        let name = object.meta().name.as_deref().unwrap_or_default();
        let path = format!("{}{part}?{MANAGER}", path::object::<K>(name));
        self.patch(&path, change).await
    }

    /// Removes a MachineConfig, if it is still as it was read.
    ///
    /// # Errors
    /// All of [`Error`] but 404; 409 where it has changed.
    pub async fn remove_config(&self, config: &ConfigMeta) -> Result<(), Error> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": { "uid": config.uid, "resourceVersion": config.resource_version },
        });
        let path = path::object::<MachineConfig>(&config.name);
        self.delete(&path, &options).await
    }

    /// Gives a pool its configuration, if it is still as it was read.
    ///
    /// # Errors
    /// All of [`Error`]; 409 where it has changed.
    pub async fn set_configuration(
        &self,
        pool: &Pool,
        configuration: &Configuration,
    ) -> Result<Pool, Error> {
        let change = json!({
            "metadata": { "resourceVersion": pool.view.resource_version },
            "spec": { "configuration": configuration }
        });
        self.patch_pool(&pool.view.name, "", &change).await
    }

    /// Claims a round of a pool, if it is still as it was read.
    ///
    /// # Errors
    /// All of [`Error`]; 409 where it has changed.
    pub async fn claim(&self, pool: &Pool, round: &RoundClaim) -> Result<Pool, Error> {
        let change = json!({ "metadata": {
            "resourceVersion": pool.view.resource_version,
            "annotations": { annotation::ROUND: round.to_annotation() }
        } });
        self.patch_pool(&pool.view.name, "", &change).await
    }

    /// Sets fields of a pool's status, if it is still as it was read.
    ///
    /// # Errors
    /// All of [`Error`]; 409 where it has changed.
    pub async fn set_status(&self, pool: &Pool, changes: &Value) -> Result<Pool, Error> {
        let change = json!({
            "metadata": { "resourceVersion": pool.view.resource_version },
            "status": changes
        });
        self.patch_pool(&pool.view.name, "/status", &change).await
    }

    /// Changes a Node, if it is still as it was read.
    ///
    /// # Errors
    /// All of [`Error`]; 409 where it has changed.
    pub async fn write_node(&self, write: &NodeWrite) -> Result<NodeView, Error> {
        let path = format!("{}?{MANAGER}", path::object::<Node>(&write.node));
        let node: Node = self.patch(&path, &write.to_patch()).await?;
        Ok(NodeView::parse(node))
    }

    /// Makes the MachineConfigNode of a node, or what it says of the assignment.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn write_node_object(&self, says: &NodeAssignment) -> Result<NodeAssignment, Error> {
        let owner = json!({
            "apiVersion": "v1", "kind": "Node", "name": says.name, "uid": says.owner,
        });
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfigNode",
            "metadata": { "name": says.name, "ownerReferences": [owner] },
            "spec": {
                "configVersion": { "desired": says.desired },
                "node": { "name": says.name },
                "pool": { "name": says.pool },
            },
        });
        let path = path::object::<MachineConfigNode>(&says.name);
        let path = format!("{path}?{NODE_OBJECT_MANAGER}&force=true");
        let written = self
            .access
            .send(Method::PATCH, &path, RequestBody::Apply(&object))
            .await?;
        Ok(NodeAssignment::parse(written))
    }

    /// Removes a MachineConfigNode, if it is still as it was read.
    ///
    /// # Errors
    /// All of [`Error`] but 404; 409 where it has changed.
    pub async fn remove_node_object(&self, object: &NodeAssignment) -> Result<(), Error> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": { "resourceVersion": object.resource_version },
        });
        let path = path::object::<MachineConfigNode>(&object.name);
        self.delete(&path, &options).await
    }

    async fn delete(&self, path: &str, options: &Value) -> Result<(), Error> {
        match self
            .access
            .send::<IgnoredAny>(Method::DELETE, path, RequestBody::Object(options))
            .await
        {
            Ok(_) => Ok(()),
            // The cluster removes what its owner leaves, too.
            Err(error) if error.code() == Some(404) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn patch_pool(&self, name: &str, part: &str, change: &Value) -> Result<Pool, Error> {
        let pool = path::object::<MachineConfigPool>(name);
        let path = format!("{pool}{part}?{MANAGER}");
        let pool: MachineConfigPool = self.patch(&path, change).await?;
        Ok(Pool::parse(pool))
    }

    async fn patch<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        change: &Value,
    ) -> Result<T, Error> {
        self.access
            .send(Method::PATCH, path, RequestBody::MergePatch(change))
            .await
    }
}
