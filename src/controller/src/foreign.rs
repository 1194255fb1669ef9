//! Kinds that nothing here handles, watched to leave alone what another controller does, and to
//! say what has no effect. A cluster may lack them.

use std::fmt;
use std::marker::PhantomData;

use api::machineconfiguration::label;
use api::machineconfiguration::unhandled::{
    ContainerRuntimeConfig, HandledStatus, KubeletConfig, MachineOSBuild, MachineOSConfig,
    PinnedImageSet,
};
use cluster::cache::{Cache, CachedKind, Table};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::Resource;
use kube::core::PartialObjectMeta;
use operator::{Operator, Wake, WatchScope, Watched};
use pool::selector::Selector;
use pool::unhandled::{Ask, Scope, UnhandledObject};
use serde::de::DeserializeOwned;

use crate::watches::Work;

/// The field by which a `KubeletConfig` and a `ContainerRuntimeConfig` select pools.
const POOL_SELECTOR: &str = "spec.machineConfigPoolSelector";

/// An object as it is watched, and what it asks for.
pub trait Asking:
    Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static
{
    /// Reads what it asks for, and of which pools.
    fn read(self) -> UnhandledObject;
}

impl Asking for PartialObjectMeta<MachineOSConfig> {
    fn read(self) -> UnhandledObject {
        // The API demands that it has the name of its pool.
        let pool = self.metadata.name.clone().unwrap_or_default();
        object::<MachineOSConfig>(self.metadata, Ask::ImageMode, Scope::Named(pool))
    }
}

impl Asking for PartialObjectMeta<MachineOSBuild> {
    fn read(self) -> UnhandledObject {
        let label = |key| self.metadata.labels.as_ref()?.get(key).cloned();
        let owner = || {
            let owners = self.metadata.owner_references.iter().flatten();
            let mut owners = owners.filter(|owner| owner.kind == "MachineOSConfig");
            owners.next().map(|owner| owner.name.clone())
        };
        let pool = label(label::TARGET_POOL).or_else(owner).unwrap_or_default();
        object::<MachineOSBuild>(self.metadata, Ask::ImageMode, Scope::Named(pool))
    }
}

impl Asking for PartialObjectMeta<PinnedImageSet> {
    fn read(self) -> UnhandledObject {
        let labels = self.metadata.labels.clone().unwrap_or_default();
        object::<PinnedImageSet>(self.metadata, Ask::Setting, Scope::Labels(labels))
    }
}

impl Asking for KubeletConfig {
    fn read(self) -> UnhandledObject {
        let selector = self.spec.machine_config_pool_selector;
        config::<Self>(self.metadata, selector.as_ref(), self.status)
    }
}

impl Asking for ContainerRuntimeConfig {
    fn read(self) -> UnhandledObject {
        let selector = self.spec.machine_config_pool_selector;
        config::<Self>(self.metadata, selector.as_ref(), self.status)
    }
}

/// An object that selects pools by their labels, and whose controller says what it has handled.
fn config<K: Resource<DynamicType = ()>>(
    metadata: ObjectMeta,
    selector: Option<&LabelSelector>,
    status: Option<HandledStatus>,
) -> UnhandledObject {
    let observed = status.and_then(|status| status.observed_generation);
    let is_handled = observed.is_some() && observed == metadata.generation;
    // No controller could handle it with a selector that cannot be read.
    let selector = Selector::parse(POOL_SELECTOR, selector).unwrap_or(Selector::Nothing);
    UnhandledObject {
        is_handled,
        ..object::<K>(metadata, Ask::Setting, Scope::Pools(selector))
    }
}

fn object<K: Resource<DynamicType = ()>>(
    metadata: ObjectMeta,
    asks: Ask,
    scope: Scope,
) -> UnhandledObject {
    UnhandledObject {
        kind: kind::<K>(),
        name: metadata.name.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        asks,
        scope,
        is_handled: false,
    }
}

/// The name of a kind whose code knows it.
fn kind<K: Resource<DynamicType = ()>>() -> &'static str {
    match K::kind(&()) {
        std::borrow::Cow::Borrowed(kind) => kind,
        std::borrow::Cow::Owned(_) => "object",
    }
}

/// The kind of the object `O`.
#[derive(Debug)]
pub struct Foreign<O>(PhantomData<fn() -> O>);

impl<O: Asking> CachedKind for Foreign<O> {
    type Entry = UnhandledObject;

    fn name(entry: &UnhandledObject) -> &str {
        &entry.name
    }

    fn version(entry: &UnhandledObject) -> &str {
        &entry.resource_version
    }

    fn has_same_content(one: &UnhandledObject, other: &UnhandledObject) -> bool {
        let mut other = other.clone();
        other.resource_version.clone_from(&one.resource_version);
        *one == other
    }
}

impl<O: Asking> Watched for Foreign<O> {
    type Object = O;

    fn parse(object: O) -> UnhandledObject {
        object.read()
    }
}

/// Their caches. Its clones are one.
#[derive(Debug, Clone, Default)]
pub struct ForeignCaches {
    /// `MachineOSConfigs`, by their metadata.
    pub os_configs: Cache<Foreign<PartialObjectMeta<MachineOSConfig>>>,
    /// `MachineOSBuilds`, by their metadata.
    pub os_builds: Cache<Foreign<PartialObjectMeta<MachineOSBuild>>>,
    /// `PinnedImageSets`, by their metadata.
    pub pinned_sets: Cache<Foreign<PartialObjectMeta<PinnedImageSet>>>,
    /// `KubeletConfigs`.
    pub kubelet_configs: Cache<Foreign<KubeletConfig>>,
    /// `ContainerRuntimeConfigs`.
    pub runtime_configs: Cache<Foreign<ContainerRuntimeConfig>>,
}

impl ForeignCaches {
    /// Has the operator watch them. They are few, and seldom change.
    pub fn watch(&self, operator: Operator<Work>) -> Operator<Work> {
        let all = |_: Option<&UnhandledObject>, _: Option<&UnhandledObject>| Wake::All;
        operator
            .watch(&self.os_configs, WatchScope::cluster().optional(), all)
            .watch(&self.os_builds, WatchScope::cluster().optional(), all)
            .watch(&self.pinned_sets, WatchScope::cluster().optional(), all)
            .watch(&self.kubelet_configs, WatchScope::cluster().optional(), all)
            .watch(&self.runtime_configs, WatchScope::cluster().optional(), all)
    }

    /// What is known now.
    pub fn tables(&self) -> ForeignTables {
        ForeignTables {
            os_configs: self.os_configs.table(),
            os_builds: self.os_builds.table(),
            pinned_sets: self.pinned_sets.table(),
            kubelet_configs: self.kubelet_configs.table(),
            runtime_configs: self.runtime_configs.table(),
        }
    }
}

/// What is known of them at one moment. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ForeignTables {
    os_configs: Table<Foreign<PartialObjectMeta<MachineOSConfig>>>,
    os_builds: Table<Foreign<PartialObjectMeta<MachineOSBuild>>>,
    pinned_sets: Table<Foreign<PartialObjectMeta<PinnedImageSet>>>,
    kubelet_configs: Table<Foreign<KubeletConfig>>,
    runtime_configs: Table<Foreign<ContainerRuntimeConfig>>,
}

impl ForeignTables {
    /// All objects, by kind and name.
    pub fn objects(&self) -> impl Iterator<Item = &UnhandledObject> {
        let configs = self.os_configs.values().chain(self.os_builds.values());
        let settings = self.pinned_sets.values();
        let settings = settings.chain(self.kubelet_configs.values());
        let settings = settings.chain(self.runtime_configs.values());
        configs.chain(settings).map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::read;

    fn selecting(selector: &Value) -> Scope {
        let selector = Selector::parse(POOL_SELECTOR, Some(&read(selector)));
        Scope::Pools(selector.unwrap())
    }

    #[test]
    fn a_build_names_its_pool_by_label_or_by_its_owner() {
        let build = |metadata: Value| {
            let object: PartialObjectMeta<MachineOSBuild> = read(&json!({ "metadata": metadata }));
            object.read().scope
        };
        let named = |pool: &str| Scope::Named(pool.to_owned());
        let owner = json!([{
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSConfig",
            "name": "edge", "uid": "u"
        }]);
        let label =
            json!({ "machineconfiguration.openshift.io/target-machine-config-pool": "worker" });
        assert_eq!(
            build(json!({ "name": "worker-1", "labels": label, "ownerReferences": owner })),
            named("worker")
        );
        assert_eq!(
            build(json!({ "name": "edge-1", "ownerReferences": owner })),
            named("edge")
        );
        // It concerns no pool.
        assert_eq!(build(json!({ "name": "b" })), named(""));
    }

    #[test]
    fn a_kubelet_configuration_is_handled_once_its_generation_was_observed() {
        let selector = json!({ "matchLabels": { "size": "small" } });
        let table = [
            (json!({}), false),
            (json!({ "observedGeneration": 1 }), false),
            (
                json!({ "observedGeneration": 2, "conditions": [{ "type": "Failure" }] }),
                true,
            ),
        ];
        for (status, is_handled) in table {
            let object: KubeletConfig = read(&json!({
                "metadata": { "name": "pods", "generation": 2, "resourceVersion": "7" },
                "spec": {
                    "machineConfigPoolSelector": selector, "kubeletConfig": { "maxPods": 300 }
                },
                "status": status
            }));
            let expected = UnhandledObject {
                kind: "KubeletConfig",
                name: "pods".to_owned(),
                resource_version: "7".to_owned(),
                asks: Ask::Setting,
                scope: selecting(&selector),
                is_handled,
            };
            assert_eq!(object.read(), expected, "{status}");
        }
    }

    #[test]
    fn what_selects_no_pool_is_read_all_the_same() {
        let no_generation: ContainerRuntimeConfig =
            read(&json!({ "metadata": { "name": "a" }, "spec": {} }));
        let read_it = no_generation.read();
        assert_eq!(read_it.scope, Scope::Pools(Selector::Nothing));
        assert!(!read_it.is_handled);
        let broken: ContainerRuntimeConfig = read(&json!({
            "metadata": { "name": "a" },
            "spec": { "machineConfigPoolSelector": {
                "matchExpressions": [{ "key": "a", "operator": "Near" }]
            } }
        }));
        assert_eq!(broken.read().scope, Scope::Pools(Selector::Nothing));
        let set: PartialObjectMeta<PinnedImageSet> = read(&json!({ "metadata": { "name": "a" } }));
        assert_eq!(set.read().scope, Scope::Labels(BTreeMap::new()));
    }
}
