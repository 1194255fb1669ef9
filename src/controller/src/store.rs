//! Caches of the cluster's objects, kept up to date by watches and responses.
//!
//! - [`pinned_sets`]: PinnedImageSets, without their images
//! - [`generators`]: objects that MachineConfigs are generated from
//! - [`node_objects`]: what is kept of MachineConfigNodes
//! - [`release_maps`]: the `ConfigMap`s by which a release names its images
//! - [`cluster_stop`]: the switch that stops the cluster
//! - [`daemons`]: the DaemonSet of the node daemons

pub mod cluster_stop;
pub mod daemons;
pub mod generators;
pub mod node_objects;
pub mod pinned_sets;
pub mod release_maps;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use api::config::{ClusterOperator, Scheduler};
use api::machineconfiguration::{
    ControllerConfig, MachineConfigPool, MachineOSBuild, MachineOSConfig,
};
use api::operator::MachineConfiguration;
use api::rollout::RolloutPolicy;
use cluster::cache::{Cache, CachedKind, Table};
use generated::templates::PullSecret;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use operator::watch::kept::{ConfigMapData, KeptPart, PartOf, WholeObject};
use pool::membership;
use pool::membership::{InitialPool, Membership};
use pool::node::NodeView;
use pool::stop::PoolStops;
use pool::view::PoolView;

use self::cluster_stop::ClusterStops;
use self::daemons::DaemonRollout;
use self::generators::{SettingCaches, SettingTables};
use self::node_objects::{LostObjects, MachineConfigNodes};
use self::pinned_sets::PinnedSets;
use self::release_maps::OS_IMAGE;
use crate::api_server::ApiServerVersion;
use crate::configs::ConfigMeta;
use crate::version::ReleaseVersion;

/// A pool as it was read, and parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// The object, without its managed fields.
    pub object: MachineConfigPool,
    pub view: PoolView,
}

impl Pool {
    pub fn parse(mut object: MachineConfigPool) -> Self {
        object.metadata.managed_fields = None;
        let view = PoolView::parse(&object);
        Self { object, view }
    }
}

#[derive(Debug)]
pub enum Pools {}

impl CachedKind for Pools {
    type Entry = Pool;

    fn name(entry: &Pool) -> &str {
        &entry.view.name
    }

    fn version(entry: &Pool) -> &str {
        &entry.view.resource_version
    }

    fn has_same_content(one: &Pool, other: &Pool) -> bool {
        one == other
    }
}

/// Nodes. A heartbeat changes nothing.
#[derive(Debug)]
pub enum Nodes {}

impl CachedKind for Nodes {
    type Entry = NodeView;

    fn name(entry: &NodeView) -> &str {
        &entry.name
    }

    fn version(entry: &NodeView) -> &str {
        &entry.resource_version
    }

    fn has_same_content(one: &NodeView, other: &NodeView) -> bool {
        one.has_same_content(other)
    }
}

/// MachineConfigs, by their metadata.
#[derive(Debug)]
pub enum Configs {}

impl CachedKind for Configs {
    type Entry = ConfigMeta;

    fn name(entry: &ConfigMeta) -> &str {
        &entry.name
    }

    fn version(entry: &ConfigMeta) -> &str {
        &entry.resource_version
    }

    fn has_same_content(one: &ConfigMeta, other: &ConfigMeta) -> bool {
        let mut other = other.clone();
        other.resource_version.clone_from(&one.resource_version);
        *one == other
    }
}

/// Metadata of the cluster's settings: they are read whole when they changed, so that an unknown
/// form of them keeps nothing else from working.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsMeta {
    pub name: String,
    /// Version of the object that was read.
    pub resource_version: String,
}

impl SettingsMeta {
    pub fn parse(object: PartialObjectMeta<MachineConfiguration>) -> Self {
        Self::of(object.metadata)
    }

    /// Keeps what is needed of the metadata.
    pub(crate) fn of(metadata: ObjectMeta) -> Self {
        Self {
            name: metadata.name.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        }
    }
}

#[derive(Debug)]
pub enum ClusterSettings {}

impl CachedKind for ClusterSettings {
    type Entry = SettingsMeta;

    fn name(entry: &SettingsMeta) -> &str {
        &entry.name
    }

    fn version(entry: &SettingsMeta) -> &str {
        &entry.resource_version
    }

    fn has_same_content(one: &SettingsMeta, other: &SettingsMeta) -> bool {
        one == other
    }
}

/// RolloutPolicies, by the name of their pool.
#[derive(Debug)]
pub enum RolloutPolicies {}

impl CachedKind for RolloutPolicies {
    type Entry = RolloutPolicy;

    fn name(entry: &RolloutPolicy) -> &str {
        entry.metadata.name.as_deref().unwrap_or_default()
    }

    fn version(entry: &RolloutPolicy) -> &str {
        entry
            .metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }

    fn has_same_content(one: &RolloutPolicy, other: &RolloutPolicy) -> bool {
        one.spec == other.spec
    }
}

/// The kind ClusterOperator; one counts.
#[derive(Debug)]
pub enum OwnOperator {}

impl CachedKind for OwnOperator {
    type Entry = ClusterOperator;

    fn name(entry: &ClusterOperator) -> &str {
        entry.metadata.name.as_deref().unwrap_or_default()
    }

    fn version(entry: &ClusterOperator) -> &str {
        entry
            .metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }

    fn has_same_content(one: &ClusterOperator, other: &ClusterOperator) -> bool {
        one.status == other.status
    }
}

/// Whether nodes of the control plane take the pods of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MasterScheduling {
    pub is_allowed: bool,
}

impl KeptPart for MasterScheduling {
    type Object = Scheduler;

    fn of(object: Scheduler) -> Self {
        Self {
            is_allowed: object.spec.masters_schedulable,
        }
    }
}

/// The pull secret, of which base configurations are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullSecretPart {
    /// Type and value.
    pub secret: PullSecret,
}

impl KeptPart for PullSecretPart {
    type Object = Secret;

    fn of(object: Secret) -> Self {
        let value = object.data.unwrap_or_default().remove(PullSecret::KEY);
        Self {
            secret: PullSecret {
                r#type: object.type_.unwrap_or_default(),
                value: value.unwrap_or_default().0,
            },
        }
    }
}

/// All cached objects at one moment. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub pools: Table<Pools>,
    pub nodes: Table<Nodes>,
    /// What nodes are assigned, as their MachineConfigNodes say.
    pub node_objects: Table<MachineConfigNodes>,
    /// Metadata of the MachineConfigs.
    pub configs: Table<Configs>,
    /// The cluster's ControllerConfig, if there is one.
    pub controller_configs: Table<WholeObject<ControllerConfig>>,
    /// In which steps the nodes of pools are updated.
    pub policies: Table<RolloutPolicies>,
    /// The switch that stops the cluster.
    pub stops: Table<ClusterStops>,
    /// Whether masters take the pods of workers.
    pub schedulers: Table<PartOf<MasterScheduling>>,
    /// By what nodes pull images.
    pub pull_secrets: Table<PartOf<PullSecretPart>>,
    /// Objects of kinds that nothing here handles.
    pub os_configs: Table<WholeObject<MachineOSConfig>>,
    pub os_builds: Table<WholeObject<MachineOSBuild>>,
    /// Sets of images that nodes of pools keep.
    pub pinned_sets: Table<PinnedSets>,
    /// Objects that MachineConfigs are generated from.
    pub generators: SettingTables,
    /// Version of this controller's release.
    pub version: ReleaseVersion,
    /// Whether a release of the cluster names its images: this controller takes them over.
    pub has_release: bool,
}

impl Snapshot {
    /// All pools, with one of them in a newer form.
    pub fn views_with(&self, pool: &PoolView) -> Vec<PoolView> {
        self.pools
            .values()
            .map(|other| &other.view)
            .filter(|other| other.name != pool.name)
            .chain([pool])
            .cloned()
            .collect()
    }

    /// The custom pool that a node was provisioned for, until it has that pool's labels once.
    pub fn initial_pool(&self, node: &NodeView) -> Option<InitialPool<'_>> {
        let owner = |config: &str| self.configs.get(config)?.pool.clone();
        membership::initial_pool(node, self.pools.values().map(|pool| &pool.view), owner)
    }

    /// Sorts `nodes` into `pools`, without those that lack their initial labels: no pool assigns
    /// them anything until they have them.
    pub fn sort<'a>(
        &self,
        nodes: impl IntoIterator<Item = &'a NodeView>,
        pools: &'a [PoolView],
    ) -> Membership<'a> {
        let has_its_labels = |node: &&NodeView| {
            let initial = self.initial_pool(node);
            initial.is_none_or(InitialPool::is_labelled)
        };
        Membership::sort(nodes.into_iter().filter(has_its_labels), pools)
    }

    /// The switches that stop a pool: its own, and the cluster's.
    pub fn stops_of(&self, pool: &PoolView) -> PoolStops {
        PoolStops {
            cluster: cluster_stop::switch(&self.stops),
            pool: pool.stops.pool.clone(),
        }
    }

    /// Whether masters take the pods of workers, where the cluster says so.
    pub fn masters_schedulable(&self) -> Option<bool> {
        let scheduler = self.schedulers.get(api::config::scheduler::NAME)?;
        Some(scheduler.is_allowed)
    }

    pub fn controller_config(&self) -> Option<&ControllerConfig> {
        self.controller_configs
            .get(api::machineconfiguration::controller_config::NAME)
            .map(Arc::as_ref)
    }
}

/// The caches that watches and responses keep up to date. Its clones are one.
#[derive(Debug, Clone, Default)]
pub struct Store {
    pub pools: Cache<Pools>,
    pub nodes: Cache<Nodes>,
    /// What nodes are assigned, as their MachineConfigNodes say.
    pub node_objects: Cache<MachineConfigNodes>,
    /// Nodes whose objects were deleted.
    pub lost_objects: LostObjects,
    /// Whether the definition of MachineConfigNodes has no image: one was written and refused.
    pub lacks_node_images: Arc<AtomicBool>,
    /// Metadata of the MachineConfigs.
    pub configs: Cache<Configs>,
    pub controller_configs: Cache<WholeObject<ControllerConfig>>,
    /// Metadata of the cluster's settings.
    pub settings: Cache<ClusterSettings>,
    /// In which steps the nodes of pools are updated.
    pub policies: Cache<RolloutPolicies>,
    /// The switch that stops the cluster.
    pub stops: Cache<ClusterStops>,
    /// Whether masters take the pods of workers.
    pub schedulers: Cache<PartOf<MasterScheduling>>,
    /// By what nodes pull images.
    pub pull_secrets: Cache<PartOf<PullSecretPart>>,
    /// OS images that are built for pools.
    pub os_configs: Cache<WholeObject<MachineOSConfig>>,
    pub os_builds: Cache<WholeObject<MachineOSBuild>>,
    /// Sets of images that nodes of pools keep.
    pub pinned_sets: Cache<PinnedSets>,
    /// Objects that MachineConfigs are generated from.
    pub generators: SettingCaches,
    /// The ConfigMap that names the release's OS image.
    pub os_image: Cache<PartOf<ConfigMapData>>,
    /// The ConfigMap that names its images of components.
    pub component_images: Cache<PartOf<ConfigMapData>>,
    pub daemons: Cache<PartOf<DaemonRollout>>,
    /// ClusterOperator `machine-config`.
    pub operators: Cache<OwnOperator>,
    /// Version of this controller's release.
    pub version: ReleaseVersion,
    /// Minor release of the API server.
    pub api_server: ApiServerVersion,
}

impl Store {
    /// Whether this controller belongs to the release whose images the cluster has.
    pub fn has_release(&self) -> bool {
        self.version.is_of_a_release() && self.os_image.get(OS_IMAGE).is_some()
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            pools: self.pools.table(),
            nodes: self.nodes.table(),
            node_objects: self.node_objects.table(),
            configs: self.configs.table(),
            controller_configs: self.controller_configs.table(),
            policies: self.policies.table(),
            stops: self.stops.table(),
            schedulers: self.schedulers.table(),
            pull_secrets: self.pull_secrets.table(),
            os_configs: self.os_configs.table(),
            os_builds: self.os_builds.table(),
            pinned_sets: self.pinned_sets.table(),
            generators: self.generators.tables(),
            version: self.version.clone(),
            has_release: self.has_release(),
        }
    }
}

#[cfg(test)]
mod tests {
    use cluster::cache::WatchEvent;
    use operator::watch::kept::Kept;
    use serde_json::json;

    use super::*;
    use crate::fixture::settled;

    #[test]
    fn only_a_controller_of_a_release_takes_its_images_over() {
        let table = [("", false), ("0.0.1-snapshot", false), ("4.2.0", true)];
        for (named, is_of_a_release) in table {
            let store = Store {
                version: ReleaseVersion::named(named),
                ..Store::default()
            };
            settled().0.fill(&store);
            assert!(!store.has_release(), "{named}");
            let map = json!({ "metadata": { "name": OS_IMAGE, "resourceVersion": "1" } });
            let map = Kept::parse(serde_json::from_value(map).unwrap());
            store.os_image.apply(WatchEvent::Synced(vec![map]));
            assert_eq!(store.has_release(), is_of_a_release, "{named}");
            assert_eq!(store.snapshot().has_release, is_of_a_release);
        }
    }
}
