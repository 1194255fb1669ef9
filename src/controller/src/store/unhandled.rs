//! Watches kinds that Slipway does not implement (image mode). Their pools are left alone. A
//! cluster may lack these kinds.

use std::fmt;
use std::marker::PhantomData;

use api::machineconfiguration::label;
use api::machineconfiguration::unhandled::{MachineOSBuild, MachineOSConfig};
use cluster::cache::{Cache, CachedKind, Table};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::PartialObjectMeta;
use operator::{Operator, Wake, WatchForm, WatchScope, Watched};
use pool::unhandled::UnhandledObject;
use serde::de::DeserializeOwned;

use crate::work::Work;

/// An object as it is watched, and the pool that it is about.
pub trait UnhandledKind:
    Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static
{
    /// Reads which pool it is about.
    fn read(self) -> UnhandledObject;
}

impl UnhandledKind for PartialObjectMeta<MachineOSConfig> {
    fn read(self) -> UnhandledObject {
        // The API demands that it has the name of its pool.
        let pool = self.metadata.name.clone().unwrap_or_default();
        object::<MachineOSConfig>(self.metadata, pool)
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
        object::<MachineOSBuild>(self.metadata, pool)
    }
}

fn object<K: Resource<DynamicType = ()>>(metadata: ObjectMeta, pool: String) -> UnhandledObject {
    UnhandledObject {
        kind: kind::<K>(),
        name: metadata.name.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        pool,
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
}

impl UnhandledCaches {
    /// Has the operator watch them. They are few, and seldom change.
    pub fn watch(&self, operator: Operator<Work>) -> Operator<Work> {
        let all = |_: Option<&UnhandledObject>, _: Option<&UnhandledObject>| Wake::All;
        operator
            .watch(&self.os_configs, WatchScope::cluster().optional(), all)
            .watch(&self.os_builds, WatchScope::cluster().optional(), all)
    }

    pub fn tables(&self) -> UnhandledTables {
        UnhandledTables {
            os_configs: self.os_configs.table(),
            os_builds: self.os_builds.table(),
        }
    }
}

/// The cached objects at one moment. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct UnhandledTables {
    pub(crate) os_configs: Table<Unhandled<PartialObjectMeta<MachineOSConfig>>>,
    os_builds: Table<Unhandled<PartialObjectMeta<MachineOSBuild>>>,
}

impl UnhandledTables {
    /// All objects, by kind and name.
    pub fn objects(&self) -> impl Iterator<Item = &UnhandledObject> {
        let configs = self.os_configs.values();
        configs.chain(self.os_builds.values()).map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::read;

    #[test]
    fn a_build_names_its_pool_by_label_or_by_its_owner() {
        let build = |metadata: Value| {
            let object: PartialObjectMeta<MachineOSBuild> = read(&json!({ "metadata": metadata }));
            object.read().pool
        };
        let owner = json!([{
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSConfig",
            "name": "edge", "uid": "u"
        }]);
        let label =
            json!({ "machineconfiguration.openshift.io/target-machine-config-pool": "worker" });
        assert_eq!(
            build(json!({ "name": "worker-1", "labels": label, "ownerReferences": owner })),
            "worker"
        );
        assert_eq!(
            build(json!({ "name": "edge-1", "ownerReferences": owner })),
            "edge"
        );
        // It concerns no pool.
        assert_eq!(build(json!({ "name": "b" })), "");
    }
}
