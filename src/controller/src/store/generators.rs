//! Objects that MachineConfigs are generated from, kept whole. A cluster may lack their kinds.

use std::fmt;
use std::marker::PhantomData;

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
use operator::{Operator, Wake, WatchScope, Watched};
use serde::de::DeserializeOwned;

use crate::work::Work;

/// A kind that is kept whole.
pub trait Kept:
    Resource<DynamicType = ()>
    + Clone
    + fmt::Debug
    + PartialEq
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl Kept for KubeletConfig {}
impl Kept for ContainerRuntimeConfig {}
impl Kept for APIServer {}
impl Kept for FeatureGate {}
impl Kept for OSImageStream {}
impl Kept for Image {}
impl Kept for ImageDigestMirrorSet {}
impl Kept for ImageTagMirrorSet {}
impl Kept for ImageContentSourcePolicy {}
impl Kept for ClusterImagePolicy {}
impl Kept for NodeSettings {}

/// The kind of the object `K`.
#[derive(Debug)]
pub struct Whole<K>(PhantomData<fn() -> K>);

impl<K: Kept> CachedKind for Whole<K> {
    type Entry = K;

    fn name(entry: &K) -> &str {
        entry.meta().name.as_deref().unwrap_or_default()
    }

    fn version(entry: &K) -> &str {
        entry.meta().resource_version.as_deref().unwrap_or_default()
    }

    fn has_same_content(one: &K, other: &K) -> bool {
        one == other
    }
}

impl<K: Kept> Watched for Whole<K> {
    type Object = K;

    fn parse(mut object: K) -> K {
        object.meta_mut().managed_fields = None;
        object
    }
}

/// The kind ImagePolicy, of all namespaces.
#[derive(Debug)]
pub enum ImagePolicies {}

/// An ImagePolicy.
#[derive(Debug, Clone, PartialEq)]
pub struct NamespacePolicy {
    /// Namespace and name.
    key: String,
    /// The object.
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
    pub kubelet_configs: Cache<Whole<KubeletConfig>>,
    /// `ContainerRuntimeConfigs`.
    pub runtime_configs: Cache<Whole<ContainerRuntimeConfig>>,
    /// APIServer `cluster`.
    pub api_servers: Cache<Whole<APIServer>>,
    /// FeatureGate `cluster`.
    pub feature_gates: Cache<Whole<FeatureGate>>,
    /// OSImageStream `cluster`.
    pub image_streams: Cache<Whole<OSImageStream>>,
    /// Image `cluster`.
    pub images: Cache<Whole<Image>>,
    /// `ImageDigestMirrorSets`.
    pub digest_mirrors: Cache<Whole<ImageDigestMirrorSet>>,
    /// `ImageTagMirrorSets`.
    pub tag_mirrors: Cache<Whole<ImageTagMirrorSet>>,
    /// `ImageContentSourcePolicies`.
    pub content_sources: Cache<Whole<ImageContentSourcePolicy>>,
    /// `ClusterImagePolicies`.
    pub cluster_policies: Cache<Whole<ClusterImagePolicy>>,
    /// `ImagePolicies`.
    pub image_policies: Cache<ImagePolicies>,
    /// Node `cluster` of `config.openshift.io`.
    pub node_settings: Cache<Whole<NodeSettings>>,
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

    /// What is known now.
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

/// What is known of them at one moment. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct SettingTables {
    /// `KubeletConfigs`.
    pub kubelet_configs: Table<Whole<KubeletConfig>>,
    /// `ContainerRuntimeConfigs`.
    pub runtime_configs: Table<Whole<ContainerRuntimeConfig>>,
    /// APIServer `cluster`.
    pub api_servers: Table<Whole<APIServer>>,
    /// FeatureGate `cluster`.
    pub feature_gates: Table<Whole<FeatureGate>>,
    /// OSImageStream `cluster`.
    pub image_streams: Table<Whole<OSImageStream>>,
    /// Image `cluster`.
    pub images: Table<Whole<Image>>,
    /// `ImageDigestMirrorSets`.
    pub digest_mirrors: Table<Whole<ImageDigestMirrorSet>>,
    /// `ImageTagMirrorSets`.
    pub tag_mirrors: Table<Whole<ImageTagMirrorSet>>,
    /// `ImageContentSourcePolicies`.
    pub content_sources: Table<Whole<ImageContentSourcePolicy>>,
    /// `ClusterImagePolicies`.
    pub cluster_policies: Table<Whole<ClusterImagePolicy>>,
    /// `ImagePolicies`.
    pub image_policies: Table<ImagePolicies>,
    /// Node `cluster` of `config.openshift.io`.
    pub node_settings: Table<Whole<NodeSettings>>,
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
        versions.extend(self.image_policies.values().map(|entry| {
            let version = ImagePolicies::version(entry).to_owned();
            ("ImagePolicy", entry.key.clone(), version)
        }));
        versions
    }
}

fn add<K: Kept>(
    versions: &mut Vec<(&'static str, String, String)>,
    kind: &'static str,
    table: &Table<Whole<K>>,
) {
    versions.extend(table.values().map(|object| {
        let meta = object.meta();
        (
            kind,
            meta.name.clone().unwrap_or_default(),
            meta.resource_version.clone().unwrap_or_default(),
        )
    }));
}
