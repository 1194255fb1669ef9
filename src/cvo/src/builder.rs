//! How a manifest becomes an object, and what an object must be before the next manifest's turn:
//! values in, values out.
//!
//! Objects are applied server-side, so that fields of ours are set, those we dropped go, and those
//! of others stay. Two things that apply does not do are here: entries that others have added to
//! lists of a workload are removed ([`excess`]), and proxies are put in ([`inject_proxy`]).

mod health;
mod injection;
mod tls;

pub use health::{
    Health, TOLERATED, health, is_read, is_watched, operator_health, operator_message, tolerate,
    tolerated,
};
pub use injection::{ClusterProxy, INJECT_PROXY, inject_proxy};
pub use tls::{ClusterTls, INJECT_TLS, asks_for_tls, inject_tls};

use cluster::apply::Error as ApplyError;
use cluster::wire;
use release::inventory::Entry;
use release::manifest::ObjectId;
use serde_json::{Map, Value, json};

/// Kind and API of the owner of all objects.
const CLUSTER_VERSION: &str = "ClusterVersion";

/// What of the cluster is put into objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Injected {
    /// The owner of all objects: uid of the ClusterVersion.
    pub owner: String,
    /// The cluster's proxy.
    pub proxy: ClusterProxy,
    /// Its TLS profile.
    pub tls: ClusterTls,
}

/// The object of a manifest as it is applied: with its owner and with what it asks the cluster for;
/// of a ClusterOperator its metadata.
///
/// # Errors
/// What it asks for that cannot be, in a sentence.
pub fn wanted(entry: &Entry, object: Value, injected: &Injected) -> Result<Value, String> {
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
    let is_create_only = entry.annotations.get(release::inventory::CREATE_ONLY);
    let is_create_only = is_create_only.is_some_and(|value| value == "true");
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
        if let (false, Some(owner)) = (is_create_only, owner.as_object_mut()) {
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

/// Whether the API server says that an object cannot become what a release has.
pub fn is_immutable(error: &ApplyError) -> bool {
    let ApplyError::Request { source, .. } = error else {
        return false;
    };
    let wire::Error::Refused { status, .. } = source else {
        return false;
    };
    status.code == 422 && status.message.contains("field is immutable")
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

/// Lists of a workload whose entries have keys, so that apply leaves the entries of others.
const LISTS: &[(&str, &str)] = &[
    ("initContainers", "name"),
    ("containers", "name"),
    ("volumes", "name"),
];

/// The same, of a container.
const CONTAINER_LISTS: &[(&str, &str)] = &[("env", "name"), ("volumeMounts", "mountPath")];

/// Fields of a container that must be absent where the manifest has none.
const CONTAINER_FIELDS: &[&str] = &[
    "command",
    "args",
    "env",
    "envFrom",
    "livenessProbe",
    "readinessProbe",
    "volumeMounts",
];

/// What others have added to a workload and what does not belong there: a merge patch that removes
/// it, with the version that it was found in. None if there is nothing.
///
/// Shape: `found` is a Deployment or DaemonSet after `wanted` was applied. Source:
/// `docs/reference/cvo.md`, "Waiting and failing".
pub fn excess(wanted: &Value, found: &Value) -> Option<Value> {
    let pod = "/spec/template/spec";
    let (wanted, actual) = (wanted.pointer(pod)?, found.pointer(pod)?);
    let mut patch = Map::new();
    for (list, key) in LISTS {
        let mut kept = kept(wanted.get(list), actual.get(list), key);
        if list.ends_with("ontainers") {
            for container in &mut kept {
                trim(container, entry_of(wanted.get(list), container, "name"));
            }
        }
        let is_same = match actual.get(list).and_then(Value::as_array) {
            Some(actual) => *actual == kept,
            None => kept.is_empty(),
        };
        if !is_same {
            let value = if kept.is_empty() {
                Value::Null
            } else {
                Value::Array(kept)
            };
            patch.insert((*list).to_owned(), value);
        }
    }
    (!patch.is_empty()).then(|| {
        json!({
            "metadata": { "resourceVersion": found.pointer("/metadata/resourceVersion") },
            "spec": { "template": { "spec": patch } },
        })
    })
}

/// The entries of `actual` whose key `wanted` has.
fn kept(wanted: Option<&Value>, actual: Option<&Value>, key: &str) -> Vec<Value> {
    let actual = actual.and_then(Value::as_array).into_iter().flatten();
    let kept = actual.filter(|entry| entry_of(wanted, entry, key).is_some());
    kept.cloned().collect()
}

/// The entry of a list with the key of another entry.
fn entry_of<'a>(list: Option<&'a Value>, entry: &Value, key: &str) -> Option<&'a Value> {
    let mut entries = list?.as_array()?.iter();
    entries.find(|own| own.get(key).is_some() && own.get(key) == entry.get(key))
}

/// Takes out of a container what others have added.
fn trim(container: &mut Value, wanted: Option<&Value>) {
    let (Some(wanted), Some(container)) = (wanted, container.as_object_mut()) else {
        return;
    };
    for field in CONTAINER_FIELDS {
        if wanted.get(field).is_none() {
            container.remove(*field);
        }
    }
    for (list, key) in CONTAINER_LISTS {
        if let Some(entries) = container.get_mut(*list).and_then(Value::as_array_mut) {
            entries.retain(|entry| entry_of(wanted.get(list), entry, key).is_some());
        }
    }
}

#[cfg(test)]
mod tests;
