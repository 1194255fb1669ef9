//! What caches keep of objects: all, or a part.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use cluster::cache::CachedKind;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;
use serde::de::DeserializeOwned;

use super::Watched;

/// The kind of the objects `K`, of which all is kept but the managed fields. Each new version is a
/// change.
#[derive(Debug)]
pub struct WholeObject<K>(PhantomData<fn() -> K>);

impl<K> CachedKind for WholeObject<K>
where
    K: Resource<DynamicType = ()> + PartialEq + Send + Sync + 'static,
{
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

impl<K> Watched for WholeObject<K>
where
    K: Resource<DynamicType = ()> + Clone + fmt::Debug + PartialEq + DeserializeOwned,
    K: Send + Sync + 'static,
{
    type Object = K;

    fn parse(mut object: K) -> K {
        object.meta_mut().managed_fields = None;
        object
    }
}

/// The part of an object that a controller needs, beside name and version. Only a change of it is a
/// change of the object.
pub trait KeptPart: PartialEq + Send + Sync + Sized + 'static {
    /// The object as the API server sends it.
    type Object: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static;

    /// Takes the part out of an object.
    fn of(object: Self::Object) -> Self;
}

/// The kind of the objects of which a part is kept.
#[derive(Debug)]
pub struct PartOf<P>(PhantomData<fn() -> P>);

/// An object of which a part is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept<P> {
    /// Name.
    pub name: String,
    /// Version of the object that was read.
    pub version: String,
    /// The part.
    pub part: P,
}

impl<P: KeptPart> Kept<P> {
    /// Reads an object.
    pub fn parse(object: P::Object) -> Self {
        let metadata = object.meta();
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            version: metadata.resource_version.clone().unwrap_or_default(),
            part: P::of(object),
        }
    }
}

impl<P> Deref for Kept<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.part
    }
}

impl<P: KeptPart> CachedKind for PartOf<P> {
    type Entry = Kept<P>;

    fn name(entry: &Kept<P>) -> &str {
        &entry.name
    }

    fn version(entry: &Kept<P>) -> &str {
        &entry.version
    }

    fn has_same_content(one: &Kept<P>, other: &Kept<P>) -> bool {
        one.part == other.part
    }
}

impl<P: KeptPart> Watched for PartOf<P> {
    type Object = P::Object;

    fn parse(object: P::Object) -> Kept<P> {
        Kept::parse(object)
    }
}

/// The data of a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMapData {
    /// By key.
    pub data: BTreeMap<String, String>,
}

impl KeptPart for ConfigMapData {
    type Object = ConfigMap;

    fn of(object: ConfigMap) -> Self {
        Self {
            data: object.data.unwrap_or_default(),
        }
    }
}
