//! Objects that MachineConfigs are generated from, kept whole. A cluster may lack their kinds.

use api::config::{
    APIServer, ClusterImagePolicy, FeatureGate, Image, ImageDigestMirrorSet, ImagePolicy,
    ImageTagMirrorSet, NodeSettings, api_server, feature_gate, image, node_settings,
};
use api::machineconfiguration::{
    ContainerRuntimeConfig, KubeletConfig, OSImageStream, os_image_stream,
};
use api::operator::ImageContentSourcePolicy;
use cluster::cache::{Cache, CachedKind, Table};
use kube::Resource;
use operator::watch::kept::WholeObject;
use operator::{Operator, Wake, WatchScope, Watched};

use crate::work::Work;

/// The kind ImagePolicy, of all namespaces.
#[derive(Debug)]
pub enum ImagePolicies {}

#[derive(Debug, Clone, PartialEq)]
pub struct NamespacePolicy {
    /// Namespace and name.
    key: String,
    pub policy: ImagePolicy,
}

impl CachedKind for ImagePolicies {
    type Entry = NamespacePolicy;

    fn name(entry: &NamespacePolicy) -> &str {
        &entry.key
    }

    fn version(entry: &NamespacePolicy) -> &str {
        let version = entry.policy.metadata.resource_version.as_deref();
        version.unwrap_or_default()
    }

    fn has_same_content(one: &NamespacePolicy, other: &NamespacePolicy) -> bool {
        one == other
    }
}

impl Watched for ImagePolicies {
    type Object = ImagePolicy;

    fn parse(mut policy: ImagePolicy) -> NamespacePolicy {
        policy.metadata.managed_fields = None;
        let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
        let name = policy.metadata.name.as_deref().unwrap_or_default();
        NamespacePolicy {
            key: format!("{namespace}/{name}"),
            policy,
        }
    }
}

/// Their caches. Its clones are one.
#[derive(Debug, Clone, Default)]
pub struct SettingCaches {
    /// `KubeletConfigs`.
    pub kubelet_configs: Cache<WholeObject<KubeletConfig>>,
    /// `ContainerRuntimeConfigs`.
    pub runtime_configs: Cache<WholeObject<ContainerRuntimeConfig>>,
    /// APIServer `cluster`.
    pub api_servers: Cache<WholeObject<APIServer>>,
    /// FeatureGate `cluster`.
    pub feature_gates: Cache<WholeObject<FeatureGate>>,
    /// OSImageStream `cluster`.
    pub image_streams: Cache<WholeObject<OSImageStream>>,
    /// Image `cluster`.
    pub images: Cache<WholeObject<Image>>,
    /// `ImageDigestMirrorSets`.
    pub digest_mirrors: Cache<WholeObject<ImageDigestMirrorSet>>,
    /// `ImageTagMirrorSets`.
    pub tag_mirrors: Cache<WholeObject<ImageTagMirrorSet>>,
    /// `ImageContentSourcePolicies`.
    pub content_sources: Cache<WholeObject<ImageContentSourcePolicy>>,
    /// `ClusterImagePolicies`.
    pub cluster_policies: Cache<WholeObject<ClusterImagePolicy>>,
    /// `ImagePolicies`.
    pub image_policies: Cache<ImagePolicies>,
    /// Node `cluster` of `config.openshift.io`.
    pub node_settings: Cache<WholeObject<NodeSettings>>,
}

impl SettingCaches {
    /// Has the operator watch all but OSImageStream. They are few, and seldom change.
    pub fn watch(&self, operator: Operator<Work>) -> Operator<Work> {
        operator
            .watch(&self.kubelet_configs, WatchScope::cluster().optional(), all)
            .watch(&self.runtime_configs, WatchScope::cluster().optional(), all)
            .watch(&self.api_servers, named(api_server::NAME), all)
            .watch(&self.feature_gates, named(feature_gate::NAME), all)
            .watch(&self.images, named(image::NAME), all)
            .watch(&self.digest_mirrors, WatchScope::cluster().optional(), all)
            .watch(&self.tag_mirrors, WatchScope::cluster().optional(), all)
            .watch(&self.content_sources, WatchScope::cluster().optional(), all)
            .watch(
                &self.cluster_policies,
                WatchScope::cluster().optional(),
                all,
            )
            .watch(&self.image_policies, WatchScope::cluster().optional(), all)
            .watch(&self.node_settings, named(node_settings::NAME), all)
    }

    /// Has the operator watch OSImageStream alone, which a release changes, too.
    pub fn watch_streams(&self, operator: Operator<Work>) -> Operator<Work> {
        operator.watch(&self.image_streams, named(os_image_stream::NAME), all)
    }

    pub fn tables(&self) -> SettingTables {
        SettingTables {
            kubelet_configs: self.kubelet_configs.table(),
            runtime_configs: self.runtime_configs.table(),
            api_servers: self.api_servers.table(),
            feature_gates: self.feature_gates.table(),
            image_streams: self.image_streams.table(),
            images: self.images.table(),
            digest_mirrors: self.digest_mirrors.table(),
            tag_mirrors: self.tag_mirrors.table(),
            content_sources: self.content_sources.table(),
            cluster_policies: self.cluster_policies.table(),
            image_policies: self.image_policies.table(),
            node_settings: self.node_settings.table(),
        }
    }
}

fn named<O: Resource<DynamicType = ()> + 'static>(name: &str) -> WatchScope<O> {
    WatchScope::cluster().named(name).optional()
}

fn all<T>(_: Option<&T>, _: Option<&T>) -> Wake<Work> {
    Wake::All
}

/// The cached objects at one moment. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct SettingTables {
    /// `KubeletConfigs`.
    pub kubelet_configs: Table<WholeObject<KubeletConfig>>,
    /// `ContainerRuntimeConfigs`.
    pub runtime_configs: Table<WholeObject<ContainerRuntimeConfig>>,
    /// APIServer `cluster`.
    pub api_servers: Table<WholeObject<APIServer>>,
    /// FeatureGate `cluster`.
    pub feature_gates: Table<WholeObject<FeatureGate>>,
    /// OSImageStream `cluster`.
    pub image_streams: Table<WholeObject<OSImageStream>>,
    /// Image `cluster`.
    pub images: Table<WholeObject<Image>>,
    /// `ImageDigestMirrorSets`.
    pub digest_mirrors: Table<WholeObject<ImageDigestMirrorSet>>,
    /// `ImageTagMirrorSets`.
    pub tag_mirrors: Table<WholeObject<ImageTagMirrorSet>>,
    /// `ImageContentSourcePolicies`.
    pub content_sources: Table<WholeObject<ImageContentSourcePolicy>>,
    /// `ClusterImagePolicies`.
    pub cluster_policies: Table<WholeObject<ClusterImagePolicy>>,
    /// `ImagePolicies`.
    pub image_policies: Table<ImagePolicies>,
    /// Node `cluster` of `config.openshift.io`.
    pub node_settings: Table<WholeObject<NodeSettings>>,
}

impl SettingTables {
    /// Whether there is nothing to generate from.
    pub fn is_empty(&self) -> bool {
        // The others ask for nothing by themselves.
        self.kubelet_configs.values().next().is_none()
            && self.runtime_configs.values().next().is_none()
            && self.feature_gates.values().next().is_none()
            && self.images.values().next().is_none()
            && self.digest_mirrors.values().next().is_none()
            && self.tag_mirrors.values().next().is_none()
            && self.content_sources.values().next().is_none()
            && self.cluster_policies.values().next().is_none()
            && self.image_policies.values().next().is_none()
            && self.node_settings.values().next().is_none()
    }

    /// Kind, name and version of each object.
    pub fn versions(&self) -> Vec<(&'static str, String, String)> {
        let mut versions = Vec::new();
        add(&mut versions, "KubeletConfig", &self.kubelet_configs);
        add(
            &mut versions,
            "ContainerRuntimeConfig",
            &self.runtime_configs,
        );
        add(&mut versions, "APIServer", &self.api_servers);
        add(&mut versions, "FeatureGate", &self.feature_gates);
        add(&mut versions, "Image", &self.images);
        add(&mut versions, "ImageDigestMirrorSet", &self.digest_mirrors);
        add(&mut versions, "ImageTagMirrorSet", &self.tag_mirrors);
        add(
            &mut versions,
            "ImageContentSourcePolicy",
            &self.content_sources,
        );
        add(&mut versions, "ClusterImagePolicy", &self.cluster_policies);
        add(&mut versions, "Node", &self.node_settings);
        add(&mut versions, "ImagePolicy", &self.image_policies);
        versions
    }
}

fn add<K: CachedKind>(
    versions: &mut Vec<(&'static str, String, String)>,
    kind: &'static str,
    table: &Table<K>,
) {
    let of = |entry| {
        (
            kind,
            K::name(entry).to_owned(),
            K::version(entry).to_owned(),
        )
    };
    versions.extend(table.values().map(|entry| of(entry)));
}
