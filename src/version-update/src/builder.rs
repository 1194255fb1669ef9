//! Builds the object to apply from a manifest, and judges whether it is ready. Values in, values
//! out.
//!
//! Objects are applied server-side, so that fields of ours are set, those we dropped go, and those
//! of others stay. What apply does not do is here: defaults that a manifest leaves out are held
//! (`defaults`), what others have added where it does not belong is removed ([`excess`]), and
//! proxies are put in ([`inject_proxy`]).

mod defaults;
mod excess;
mod health;
mod injection;
mod others;
mod tls;

pub use defaults::{asks_for_bundle, scaled_by, without_bundles, without_webhook};
pub use excess::{excess, has_excess};
pub use health::{
    Health, TOLERATED, health, is_read, is_watched, operator_health, operator_message, tolerate,
    tolerated,
};
pub use injection::{ClusterProxy, INJECT_PROXY, inject_proxy};
pub use others::{has_shared, keep_others};
pub use tls::{ClusterTls, INJECT_TLS, asks_for_tls, inject_tls};

use release::inventory::Entry;
use release::manifest::ObjectId;
use serde_json::{Value, json};

/// Kind and API of the owner of all objects.
const CLUSTER_VERSION: &str = "ClusterVersion";

/// What of the cluster is put into objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Injected {
    /// The owner of all objects: uid of the ClusterVersion.
    pub owner: String,
    pub proxy: ClusterProxy,
    pub tls: ClusterTls,
    /// Workloads whose replicas an autoscaler of the release sets.
    pub scaled: Vec<ObjectId>,
}

/// Why a manifest does not get what it asks the cluster for.
#[derive(Debug, thiserror::Error)]
pub enum InjectionError {
    /// The proxy is requested for a container that there is not.
    #[error("requested injection for non-existent container: {name:?}")]
    FindContainer { name: String },
    /// A configuration has something else where the TLS profile belongs.
    #[error("data.{key}: servingInfo is no object")]
    ReadServingInfo { key: String },
    /// A configuration cannot be printed as JSON.
    #[error("data.{key}")]
    PrintJson {
        key: String,
        source: serde_json::Error,
    },
    /// A configuration cannot be printed as YAML.
    #[error("data.{key}")]
    PrintYaml {
        key: String,
        source: serde_saphyr::SerializeError,
    },
}

/// The desired object: with its owner reference, and with proxy and authorities injected; of a
/// ClusterOperator its metadata.
///
/// # Errors
/// All of [`InjectionError`].
pub fn wanted(entry: &Entry, object: Value, injected: &Injected) -> Result<Value, InjectionError> {
    let mut object = prepare(entry, object, &injected.owner);
    if is_operator(&entry.id) {
        return Ok(operator_metadata(&object));
    }
    if let Some(containers) = entry.annotations.get(INJECT_PROXY) {
        inject_proxy(&mut object, containers, &injected.proxy)?;
    }
    if asks_for_tls(entry) {
        inject_tls(&mut object, &injected.tls)?;
    }
    defaults::leave_to_others(&entry.id, &mut object);
    defaults::complete(&entry.id, &mut object, injected.scaled.contains(&entry.id));
    Ok(object)
}

/// Whether an object is a ClusterOperator, which reports and is not pushed.
pub fn is_operator(id: &ObjectId) -> bool {
    (id.group.as_str(), id.kind.as_str()) == ("config.openshift.io", "ClusterOperator")
}

/// The object of a manifest with its owner; without `status`, which belongs to its operator.
///
/// Shape: an owner that the manifest names itself stays, unless it is a ClusterVersion. Otherwise
/// the ClusterVersion owns the object, as its controller unless it is created only.
pub fn prepare(entry: &Entry, mut object: Value, cluster_version_uid: &str) -> Value {
    let owners = object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|owner| owner.get("kind").and_then(Value::as_str) != Some(CLUSTER_VERSION));
    let mut owners: Vec<Value> = owners.cloned().collect();
    if owners.is_empty() {
        let mut owner = json!({
            "apiVersion": "config.openshift.io/v1",
            "kind": CLUSTER_VERSION,
            "name": api::config::cluster_version::NAME,
            "uid": cluster_version_uid,
        });
        if let (false, Some(owner)) = (entry.is_create_only(), owner.as_object_mut()) {
            owner.insert("controller".to_owned(), Value::Bool(true));
        }
        owners.push(owner);
    }
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("ownerReferences".to_owned(), Value::Array(owners));
            metadata.remove("creationTimestamp");
        }
    }
    object
}

/// Whether an object is the definition of a kind of this group, by its name: `<plural>.<group>`.
pub fn is_definition(id: &ObjectId, group: &str) -> bool {
    let is_one = (id.group.as_str(), id.kind.as_str())
        == ("apiextensions.k8s.io", "CustomResourceDefinition");
    is_one && id.name.split_once('.').is_some_and(|(_, of)| of == group)
}

/// Whether an object is a Job: it cannot be changed, and a failed one stays so.
pub fn is_job(id: &ObjectId) -> bool {
    (id.group.as_str(), id.kind.as_str()) == ("batch", "Job")
}

/// Of a ClusterOperator what is applied: its metadata. All else its operator writes.
pub fn operator_metadata(object: &Value) -> Value {
    let mut metadata = object.clone();
    if let Some(object) = metadata.as_object_mut() {
        object.remove("status");
        object.insert("spec".to_owned(), json!({}));
    }
    metadata
}

#[cfg(test)]
mod tests;
