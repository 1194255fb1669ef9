//! The requests of the controller, but for watches, the lease and events.

use std::sync::Arc;

use api::config::{ClusterOperator, ClusterVersion, cluster_version};
use api::machineconfiguration::machine_config_pool::{Configuration, NamedReference};
use api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool, annotation};
use api::operator::machine_configuration::{self, MachineConfiguration};
use cluster::access::Access;
use cluster::objects::{Objects, Precondition};
use cluster::wire::{Error, found, unless_conflict};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::Resource;
use pool::claim::RoundClaim;
use pool::node::NodeView;
use pool::write::NodeWrite;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::configs::ConfigMeta;
use crate::decide::authorities::{AuthorityFiles, ConfigFiles};
use crate::merge_patch::replacement;
use crate::store::node_objects::NodeAssignment;
use crate::store::{Pool, SettingsMeta};

/// Who owns the fields that are written.
const MANAGER: &str = "machine-config-controller";

/// The same for MachineConfigNodes: the manager that clients of OpenShift's MCO know.
const NODE_OBJECT_MANAGER: &str = "machine-config-operator";

/// The field of a pool that names its pinned image sets.
const PINNED_IMAGE_SETS: &str = "pinnedImageSets";

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
/// they depend on it: they fail with a conflict where the object has changed.
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

    /// The objects of a kind without namespaces, written by this controller.
    pub(crate) fn objects<K>(&self) -> Objects<'_, K>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    {
        Objects::of_cluster(&self.access).manager(MANAGER)
    }

    /// The objects of a kind in a namespace, written by this controller.
    pub(crate) fn in_namespace<K>(&self, namespace: &str) -> Objects<'_, K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Objects::in_namespace(&self.access, namespace).manager(MANAGER)
    }

    /// Whether a Node is there.
    pub(crate) async fn has_node(&self, name: &str) -> Result<bool, Error> {
        let nodes = self.objects::<Node>().read_as::<IgnoredAny>();
        Ok(nodes.get(name).await?.is_some())
    }

    /// Reads a MachineConfig; nothing where there is none.
    pub(crate) async fn read_config(&self, name: &str) -> Result<Option<MachineConfig>, Error> {
        self.objects().get(name).await
    }

    /// Reads the cluster's settings; nothing where there are none, or the API has no such kind.
    pub(crate) async fn read_settings(&self) -> Result<Option<MachineConfiguration>, Error> {
        self.objects().get(machine_configuration::NAME).await
    }

    /// Creates the cluster's settings, which ask for nothing; nothing where they are there, or the
    /// API has no such kind.
    pub(crate) async fn create_settings(&self) -> Result<Option<SettingsMeta>, Error> {
        let settings = json!({
            "apiVersion": "operator.openshift.io/v1",
            "kind": "MachineConfiguration",
            "metadata": { "name": machine_configuration::NAME },
            "spec": { "managementState": "Managed" }
        });
        let objects = self.objects::<MachineConfiguration>().read_as();
        let created = unless_conflict(objects.create(&settings).await);
        Ok(found(created)?.flatten().map(SettingsMeta::parse))
    }

    /// Sets fields of the status of the cluster's settings, if they are still as they were read.
    pub(crate) async fn set_settings_status(
        &self,
        settings: &MachineConfiguration,
        changes: &Value,
    ) -> Result<SettingsMeta, Error> {
        let objects = self.objects::<MachineConfiguration>().status().read_as();
        let version = settings.metadata.resource_version.as_deref();
        let change = json!({ "status": changes });
        let written = objects.patch_if(machine_configuration::NAME, version, change);
        written.await.map(SettingsMeta::parse)
    }

    /// OS image of a MachineConfig; nothing where there is none.
    pub(crate) async fn read_os_image(&self, name: &str) -> Result<Option<String>, Error> {
        let configs = self.objects::<MachineConfig>().read_as::<ConfigImage>();
        let config = configs.get(name).await?;
        Ok(config.map(|config| config.spec.os_image_url))
    }

    /// The files of certificate authorities of a MachineConfig; nothing where there is none.
    pub(crate) async fn read_authorities(
        &self,
        name: &str,
    ) -> Result<Option<AuthorityFiles>, Error> {
        let configs = self.objects::<MachineConfig>().read_as::<ConfigFiles>();
        let config = configs.get(name).await?;
        Ok(config.map(ConfigFiles::authorities))
    }

    /// Pull spec of the cluster's release, where that is of this version; nothing where the cluster
    /// has no ClusterVersion.
    pub(crate) async fn read_release_image(&self, version: &str) -> Result<Option<String>, Error> {
        let versions = self.objects::<ClusterVersion>();
        let read = versions.get(cluster_version::NAME).await?;
        let status = read.and_then(|read| read.status);
        let desired = status.map(|status| status.desired).unwrap_or_default();
        Ok((desired.version == version && !desired.image.is_empty()).then_some(desired.image))
    }

    /// Creates a ClusterOperator; nothing where the API has no such kind.
    pub(crate) async fn create_operator(
        &self,
        name: &str,
    ) -> Result<Option<ClusterOperator>, Error> {
        let object = json!({
            "apiVersion": "config.openshift.io/v1",
            "kind": "ClusterOperator",
            "metadata": { "name": name },
            "spec": {}
        });
        found(self.objects().create(&object).await)
    }

    /// Creates a MachineConfig. Nothing where one of that name is there.
    pub(crate) async fn create_config(&self, config: &Value) -> Result<Option<ConfigMeta>, Error> {
        let configs = self.objects::<MachineConfig>().read_as();
        let created = unless_conflict(configs.create(config).await)?;
        Ok(created.map(ConfigMeta::parse))
    }

    /// Makes the spec of a MachineConfig what was rendered, if it is still as it was read.
    pub(crate) async fn restore_config(
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
        self.change_config(&name, &change).await
    }

    /// Changes a MachineConfig, if it is still as the change says.
    pub(crate) async fn change_config(
        &self,
        name: &str,
        change: &Value,
    ) -> Result<ConfigMeta, Error> {
        let configs = self.objects::<MachineConfig>().read_as();
        configs.patch(name, change).await.map(ConfigMeta::parse)
    }

    /// Gives a pool its configuration, and its pinned image sets where they change, if it is still
    /// as it was read.
    pub(crate) async fn set_configuration(
        &self,
        pool: &Pool,
        configuration: &Configuration,
        pinned_sets: Option<&[NamedReference]>,
    ) -> Result<Pool, Error> {
        let mut spec = Map::from_iter([("configuration".to_owned(), json!(configuration))]);
        if let Some(sets) = pinned_sets {
            spec.insert(PINNED_IMAGE_SETS.to_owned(), names_or_null(sets));
        }
        patch_pool(self.objects(), pool, json!({ "spec": spec })).await
    }

    /// Gives a pool its pinned image sets, if it is still as it was read.
    pub(crate) async fn set_pinned_sets(
        &self,
        pool: &Pool,
        sets: &[NamedReference],
    ) -> Result<Pool, Error> {
        let change = json!({ "spec": { PINNED_IMAGE_SETS: names_or_null(sets) } });
        patch_pool(self.objects(), pool, change).await
    }

    /// Names the build of a pool's image in its annotation, or none, if the pool is still as it was
    /// read.
    pub(crate) async fn name_build(&self, pool: &Pool, build: Option<&str>) -> Result<Pool, Error> {
        let annotations = json!({ annotation::CURRENT_MACHINE_OS_BUILD: build });
        let change = json!({ "metadata": { "annotations": annotations } });
        patch_pool(self.objects(), pool, change).await
    }

    /// Claims a round of a pool, if it is still as it was read.
    pub(crate) async fn claim(&self, pool: &Pool, round: &RoundClaim) -> Result<Pool, Error> {
        let annotations = json!({ annotation::ROUND: round.to_annotation() });
        let change = json!({ "metadata": { "annotations": annotations } });
        patch_pool(self.objects(), pool, change).await
    }

    /// Sets fields of a pool's status, if it is still as it was read.
    pub(crate) async fn set_status(&self, pool: &Pool, changes: &Value) -> Result<Pool, Error> {
        let change = json!({ "status": changes });
        patch_pool(self.objects().status(), pool, change).await
    }

    /// Changes a Node, if it is still as it was read.
    pub(crate) async fn write_node(&self, write: &NodeWrite) -> Result<NodeView, Error> {
        let nodes = self.objects::<Node>();
        let written = nodes.patch(&write.node, &write.to_patch()).await;
        written.map(NodeView::parse)
    }

    /// Applies the MachineConfigNode of a node: what the node is assigned.
    pub(crate) async fn write_node_object(
        &self,
        says: &NodeAssignment,
    ) -> Result<NodeAssignment, Error> {
        let owner = json!({
            "apiVersion": "v1", "kind": "Node", "name": says.name, "uid": says.owner,
        });
        let mut spec = json!({
            "configVersion": { "desired": says.desired },
            "node": { "name": says.name },
            "pool": { "name": says.pool },
        });
        if let (Some(image), Some(spec)) = (&says.image, spec.as_object_mut()) {
            let image = json!({ "desiredImage": image });
            spec.insert("configImage".to_owned(), image);
        }
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfigNode",
            "metadata": { "name": says.name, "ownerReferences": [owner] },
            "spec": spec,
        });
        let objects = Objects::<MachineConfigNode>::of_cluster(&self.access);
        let objects = objects.manager(NODE_OBJECT_MANAGER);
        let written = objects.apply(&says.name, &object).await;
        written.map(NodeAssignment::parse)
    }

    /// Removes a MachineConfigNode, if it is still as it was read. The cluster removes what its
    /// owner leaves, too.
    pub(crate) async fn remove_node_object(&self, object: &NodeAssignment) -> Result<(), Error> {
        let precondition = Precondition {
            resource_version: Some(&object.resource_version),
            ..Precondition::default()
        };
        let objects = self.objects::<MachineConfigNode>();
        objects.delete(&object.name, precondition).await
    }
}

/// The list as a pool has it: none has no field.
fn names_or_null(sets: &[NamedReference]) -> Value {
    if sets.is_empty() {
        Value::Null
    } else {
        json!(sets)
    }
}

async fn patch_pool(
    pools: Objects<'_, MachineConfigPool>,
    pool: &Pool,
    change: Value,
) -> Result<Pool, Error> {
    let (name, version) = (&pool.view.name, &pool.view.resource_version);
    let written = pools.patch_if(name, Some(version), change).await;
    written.map(Pool::parse)
}
