//! Each request that is ever sent, but for watches, the lease and events.

use std::sync::Arc;

use api::machineconfiguration::machine_config_pool::Configuration;
use api::machineconfiguration::{MachineConfig, MachineConfigPool, annotation};
use api::operator::MachineConfiguration;
use cluster::access::Access;
use cluster::list::{Scope, list};
use cluster::wire::{Content, Error};
use http::Method;
use k8s_openapi::api::core::v1::Node;
use pool::claim::RoundClaim;
use pool::node::NodeView;
use pool::write::NodeWrite;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::configs::ConfigMeta;
use crate::store::Pool;

/// Path of all Nodes.
pub const NODES: &str = "/api/v1/nodes";
/// Path of all MachineConfigs.
pub const CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
/// Path of all MachineConfigPools.
pub const POOLS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools";

/// Path of the cluster's MachineConfiguration.
pub const SETTINGS: &str = "/apis/operator.openshift.io/v1/machineconfigurations/cluster";

/// Who owns the fields that are written.
const MANAGER: &str = "fieldManager=machine-config-controller";

/// Sends requests. Writes are patches of what we own, guarded by the version that was read where they depend on it.
#[derive(Debug, Clone)]
pub struct Requests {
    access: Arc<Access>,
}

impl Requests {
    /// Sends as this identity.
    pub const fn new(access: Arc<Access>) -> Self {
        Self { access }
    }

    /// Reads a pool as it is now.
    ///
    /// # Errors
    /// All of [`Error`], as every method here.
    pub async fn read_pool(&self, name: &str) -> Result<Pool, Error> {
        let pool: MachineConfigPool = self.access.get(&format!("{POOLS}/{name}")).await?;
        Ok(Pool::parse(pool))
    }

    /// Reads the nodes with these labels as they are now.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn list_nodes(&self, labels: String) -> Result<Vec<NodeView>, Error> {
        let scope = Scope::all(NODES).labels(labels);
        list::<Node, _>(&self.access, &scope, NodeView::parse).await
    }

    /// Reads the MachineConfigs with these labels, whole.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn list_configs(&self, labels: String) -> Result<Vec<MachineConfig>, Error> {
        let scope = Scope::all(CONFIGS).labels(labels);
        list::<MachineConfig, _>(&self.access, &scope, |config| config).await
    }

    /// Reads a MachineConfig; nothing where there is none.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn read_config(&self, name: &str) -> Result<Option<MachineConfig>, Error> {
        match self.access.get(&format!("{CONFIGS}/{name}")).await {
            Ok(config) => Ok(Some(config)),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the cluster's settings; nothing where there are none, or the API has no such kind.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn read_settings(&self) -> Result<Option<MachineConfiguration>, Error> {
        match self.access.get(SETTINGS).await {
            Ok(settings) => Ok(Some(settings)),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates a rendered MachineConfig. Nothing where one of that name is there: its name is a digest of its content.
    ///
    /// # Errors
    /// All of [`Error`].
    pub async fn create_config(&self, config: &Value) -> Result<Option<ConfigMeta>, Error> {
        let path = format!("{CONFIGS}?{MANAGER}");
        match self
            .access
            .send(Method::POST, &path, Content::Object(config))
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
        let path = format!("{CONFIGS}/{name}?{MANAGER}");
        self.patch::<IgnoredAny>(&path, &change).await.map(|_| ())
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
        let path = format!("{NODES}/{}?{MANAGER}", write.node);
        let node: Node = self.patch(&path, &write.to_patch()).await?;
        Ok(NodeView::parse(node))
    }

    async fn patch_pool(&self, name: &str, part: &str, change: &Value) -> Result<Pool, Error> {
        let path = format!("{POOLS}/{name}{part}?{MANAGER}");
        let pool: MachineConfigPool = self.patch(&path, change).await?;
        Ok(Pool::parse(pool))
    }

    async fn patch<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        change: &Value,
    ) -> Result<T, Error> {
        self.access
            .send(Method::PATCH, path, Content::MergePatch(change))
            .await
    }
}
