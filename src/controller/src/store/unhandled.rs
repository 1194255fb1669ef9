//! Watches kinds that Slipway does not implement (image mode, pinned images). Their pools are left
//! alone and reported `Unsupported`. A cluster may lack these kinds.

use std::fmt;
use std::marker::PhantomData;

use api::machineconfiguration::label;
use api::machineconfiguration::unhandled::{MachineOSBuild, MachineOSConfig, PinnedImageSet};
use cluster::cache::{Cache, CachedKind, Table};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::PartialObjectMeta;
use operator::{Operator, Wake, WatchForm, WatchScope, Watched};
use pool::unhandled::{Ask, Scope, UnhandledObject};
use serde::de::DeserializeOwned;

use crate::work::Work;

/// An object as it is watched, and what it asks for.
pub trait UnhandledKind:
    Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static
{
    /// Reads what it asks for, and of which pools.
    fn read(self) -> UnhandledObject;
}

impl UnhandledKind for PartialObjectMeta<MachineOSConfig> {
    fn read(self) -> UnhandledObject {
        // The API demands that it has the name of its pool.
        let pool = self.metadata.name.clone().unwrap_or_default();
        object::<MachineOSConfig>(self.metadata, Ask::ImageMode, Scope::Named(pool))
    }
}

impl UnhandledKind for PartialObjectMeta<MachineOSBuild> {
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

impl UnhandledKind for PartialObjectMeta<PinnedImageSet> {
    fn read(self) -> UnhandledObject {
        let labels = self.metadata.labels.clone().unwrap_or_default();
        object::<PinnedImageSet>(self.metadata, Ask::Setting, Scope::Labels(labels))
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
    }
}

/// The name of a kind, where its type has a fixed one.
fn kind<K: Resource<DynamicType = ()>>() -> &'static str {
    match K::kind(&()) {
        std::borrow::Cow::Borrowed(kind) => kind,
        std::borrow::Cow::Owned(_) => "object",
    }
}

/// The kind of the object `O`.
#[derive(Debug)]
pub struct Unhandled<O>(PhantomData<fn() -> O>);

impl<O: UnhandledKind> CachedKind for Unhandled<O> {
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

impl<O: UnhandledKind> Watched for Unhandled<O> {
    type Object = O;

    const FORM: WatchForm<UnhandledObject> = WatchForm::Metadata;

    fn parse(object: O) -> UnhandledObject {
        object.read()
    }
}

/// Their caches. Its clones are one.
#[derive(Debug, Clone, Default)]
pub struct UnhandledCaches {
    /// `MachineOSConfigs`, by their metadata.
    pub os_configs: Cache<Unhandled<PartialObjectMeta<MachineOSConfig>>>,
    /// `MachineOSBuilds`, by their metadata.
    pub os_builds: Cache<Unhandled<PartialObjectMeta<MachineOSBuild>>>,
    /// `PinnedImageSets`, by their metadata.
    pub pinned_sets: Cache<Unhandled<PartialObjectMeta<PinnedImageSet>>>,
}

impl UnhandledCaches {
    /// Has the operator watch them. They are few, and seldom change.
    pub fn watch(&self, operator: Operator<Work>) -> Operator<Work> {
        let all = |_: Option<&UnhandledObject>, _: Option<&UnhandledObject>| Wake::All;
        operator
            .watch(&self.os_configs, WatchScope::cluster().optional(), all)
            .watch(&self.os_builds, WatchScope::cluster().optional(), all)
            .watch(&self.pinned_sets, WatchScope::cluster().optional(), all)
    }

    pub fn tables(&self) -> UnhandledTables {
        UnhandledTables {
            os_configs: self.os_configs.table(),
            os_builds: self.os_builds.table(),
            pinned_sets: self.pinned_sets.table(),
        }
    }
}

/// The cached objects at one moment. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct UnhandledTables {
    pub(crate) os_configs: Table<Unhandled<PartialObjectMeta<MachineOSConfig>>>,
    os_builds: Table<Unhandled<PartialObjectMeta<MachineOSBuild>>>,
    pinned_sets: Table<Unhandled<PartialObjectMeta<PinnedImageSet>>>,
}

impl UnhandledTables {
    /// All objects, by kind and name.
    pub fn objects(&self) -> impl Iterator<Item = &UnhandledObject> {
        let configs = self.os_configs.values().chain(self.os_builds.values());
        configs.chain(self.pinned_sets.values()).map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::read;

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
    fn a_set_without_labels_is_read_all_the_same() {
        let set: PartialObjectMeta<PinnedImageSet> = read(&json!({ "metadata": { "name": "a" } }));
        assert_eq!(set.read().scope, Scope::Labels(BTreeMap::new()));
    }
}
