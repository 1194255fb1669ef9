//! Objects for this crate's tests, as the API server writes them.

use api::config::{Image, ImageDigestMirrorSet, NodeSettings};
use api::machineconfiguration::{
    ControllerConfig, KubeletConfig, MachineConfig, MachineConfigPool, MachineOSBuild,
    MachineOSConfig, OSImageStream,
};
use api::operator::MachineConfiguration;
use api::rollout::RolloutPolicy;
use chassis::program::{BUILD, VERSION};
use cluster::cache::WatchEvent;
use k8s_openapi::api::core::v1::Node;
use kube::core::PartialObjectMeta;
use machineconfig::render::{Base, Source, render};
use operator::Watched as _;
use pool::node::NodeView;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::configs::ConfigMeta;
use crate::store::pinned_sets::PinnedSets;
use crate::store::{Pool, SettingsMeta, Snapshot, Store};

/// What nodes run before a rollout.
pub(crate) const OLD: &str = "rendered-worker-old";

pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

/// What the cluster holds, as the API server writes it.
#[derive(Clone, Default)]
pub(crate) struct Cluster {
    pub(crate) pools: Vec<Value>,
    pub(crate) nodes: Vec<Value>,
    pub(crate) configs: Vec<Value>,
    pub(crate) controller_configs: Vec<Value>,
    pub(crate) settings: Vec<Value>,
    pub(crate) os_configs: Vec<Value>,
    pub(crate) os_builds: Vec<Value>,
    pub(crate) pinned_sets: Vec<Value>,
    pub(crate) kubelet_configs: Vec<Value>,
    pub(crate) policies: Vec<Value>,
    pub(crate) images: Vec<Value>,
    pub(crate) digest_mirrors: Vec<Value>,
    pub(crate) image_streams: Vec<Value>,
    pub(crate) node_settings: Vec<Value>,
}

impl Cluster {
    pub(crate) fn fill(&self, store: &Store) {
        let pools = self
            .pools
            .iter()
            .map(|pool| Pool::parse(read::<MachineConfigPool>(pool)));
        store.pools.apply(WatchEvent::Synced(pools.collect()));
        let nodes = self
            .nodes
            .iter()
            .map(|node| NodeView::parse(read::<Node>(node)));
        store.nodes.apply(WatchEvent::Synced(nodes.collect()));
        let configs = self
            .configs
            .iter()
            .map(|config| ConfigMeta::parse(read::<PartialObjectMeta<MachineConfig>>(config)));
        store.configs.apply(WatchEvent::Synced(configs.collect()));
        let configs = self.controller_configs.iter().map(read::<ControllerConfig>);
        store
            .controller_configs
            .apply(WatchEvent::Synced(configs.collect()));
        let settings = self.settings.iter().map(|settings| {
            SettingsMeta::parse(read::<PartialObjectMeta<MachineConfiguration>>(settings))
        });
        store.settings.apply(WatchEvent::Synced(settings.collect()));
        let policies = self.policies.iter().map(read::<RolloutPolicy>);
        store.policies.apply(WatchEvent::Synced(policies.collect()));
        let configs = self.os_configs.iter().map(read::<MachineOSConfig>);
        store
            .os_configs
            .apply(WatchEvent::Synced(configs.collect()));
        let builds = self.os_builds.iter().map(read::<MachineOSBuild>);
        store.os_builds.apply(WatchEvent::Synced(builds.collect()));
        let sets = self.pinned_sets.iter();
        let sets = sets.map(|set| PinnedSets::parse(read(set))).collect();
        store.pinned_sets.apply(WatchEvent::Synced(sets));
        let configs = self.kubelet_configs.iter().map(read::<KubeletConfig>);
        store
            .generators
            .kubelet_configs
            .apply(WatchEvent::Synced(configs.collect()));
        let images = self.images.iter().map(read::<Image>);
        let images = WatchEvent::Synced(images.collect());
        store.generators.images.apply(images);
        let sets = self.digest_mirrors.iter();
        let sets = sets.map(read::<ImageDigestMirrorSet>);
        let sets = WatchEvent::Synced(sets.collect());
        store.generators.digest_mirrors.apply(sets);
        let settings = self.node_settings.iter().map(read::<NodeSettings>);
        let settings = WatchEvent::Synced(settings.collect());
        store.generators.node_settings.apply(settings);
        let streams = self.image_streams.iter().map(read::<OSImageStream>);
        let streams = WatchEvent::Synced(streams.collect());
        store.generators.image_streams.apply(streams);
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let store = Store::default();
        self.fill(&store);
        store.snapshot()
    }
}

pub(crate) fn source(name: &str, spec: &Value) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "generation": 1,
            "labels": { "machineconfiguration.openshift.io/role": "worker" }
        },
        "spec": spec
    })
}

pub(crate) fn metadata(object: &Value) -> Value {
    json!({ "metadata": object["metadata"] })
}

pub(crate) fn spec_with(argument: &str) -> Value {
    json!({ "kernelArguments": [argument] })
}

/// Name and spec that sources of role `worker` render to for the pool `worker`.
pub(crate) fn rendered(sources: &[Value]) -> (String, Value) {
    rendered_for("worker", sources)
}

/// The same for any pool.
pub(crate) fn rendered_for(pool: &str, sources: &[Value]) -> (String, Value) {
    let sources: Vec<Source> = sources
        .iter()
        .map(|source| Source {
            name: source["metadata"]["name"].as_str().unwrap().to_owned(),
            role: Some("worker".to_owned()),
            generated_by: None,
            spec: serde_json::to_value(read::<MachineConfig>(source).spec).unwrap(),
        })
        .collect();
    let rendered = render(pool, &sources, &Base::default()).unwrap();
    (rendered.name, rendered.spec.to_value())
}

pub(crate) fn pool(target: Option<&str>) -> Value {
    let configuration = target.map_or_else(
        || json!({}),
        |name| json!({ "name": name, "source": [reference("50-a")] }),
    );
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": { "name": "worker", "uid": "uid-worker", "resourceVersion": "10", "generation": 2 },
        "spec": {
            "configuration": configuration,
            "machineConfigSelector": { "matchLabels": { "machineconfiguration.openshift.io/role": "worker" } },
            "nodeSelector": { "matchLabels": { "node-role.kubernetes.io/worker": "" } },
            "paused": false
        }
    })
}

pub(crate) fn reference(name: &str) -> Value {
    json!({ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "name": name })
}

/// The owner of what is rendered for a pool.
pub(crate) fn owner(pool: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "name": pool, "uid": format!("uid-{pool}"), "controller": true, "blockOwnerDeletion": true
    })
}

pub(crate) fn node(name: &str, current: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": "5",
            "labels": { "node-role.kubernetes.io/worker": "" },
            "annotations": {
                "machineconfiguration.openshift.io/currentConfig": current,
                "machineconfiguration.openshift.io/desiredConfig": current,
                "machineconfiguration.openshift.io/state": "Done",
                "slipway.dev/certificates": "none"
            }
        },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] }
    })
}

/// A pool that was rendered before, its source, and its target.
pub(crate) fn settled() -> (Cluster, Vec<Value>, String) {
    let sources = vec![source("50-a", &spec_with("a=1"))];
    let (target, _) = rendered(&sources);
    let cluster = Cluster {
        pools: vec![pool(Some(&target))],
        configs: vec![
            metadata(&sources[0]),
            json!({ "metadata": {
                "name": target, "uid": "r", "resourceVersion": "3", "generation": 1,
                "annotations": {
                    "machineconfiguration.openshift.io/generated-by-controller-version": BUILD,
                    "machineconfiguration.openshift.io/release-image-version": VERSION,
                    "slipway.dev/without-controller-config": "true"
                },
                "ownerReferences": [owner("worker")]
            } }),
        ],
        ..Cluster::default()
    };
    (cluster, sources, target)
}

/// Changes a value by a merge patch, as the API server does.
pub(crate) fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut into[key], value);
        }
    }
}
