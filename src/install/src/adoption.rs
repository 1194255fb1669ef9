//! What an installation takes over from OpenShift's operators, and restores when it is removed.
//!
//! All of it is kept as it was in ConfigMap `kube-system/slipway-adopted`, which is written before
//! anything is taken over.

use std::collections::{BTreeMap, BTreeSet};

use release::manifest::ObjectId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::order;
use crate::record::RecordedObject;

/// Namespace and name of the ConfigMap.
pub const CONFIG_MAP: (&str, &str) = ("kube-system", "slipway-adopted");

/// Its key.
pub const KEY: &str = "adopted.json";

/// Most bytes of its text: a ConfigMap has room for one MiB.
const BYTES_MAX: usize = 1_000_000;

const SCHEMA: u32 = 1;

/// The workload of OpenShift's version operator, which would apply all others again.
pub const VERSION_OPERATOR: (&str, &str) =
    ("openshift-cluster-version", "cluster-version-operator");

/// Fields that the API server sets.
const OF_SERVER: [&str; 7] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
    "ownerReferences",
];

/// What was taken over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Adoption {
    schema: u32,
    /// Objects as they were, in the order of application.
    pub objects: Vec<Value>,
    /// Overrides that ClusterVersion got.
    #[serde(default)]
    pub overrides: Vec<Override>,
}

/// An object that OpenShift's version operator leaves alone: an entry of `spec.overrides`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Override {
    kind: String,
    group: String,
    namespace: String,
    name: String,
    unmanaged: bool,
}

/// Why an adoption cannot be kept or followed.
#[derive(Debug, thiserror::Error)]
pub enum AdoptionError {
    /// The ConfigMap has no such key.
    #[error("ConfigMap {}/{} has no {KEY}", CONFIG_MAP.0, CONFIG_MAP.1)]
    NoAdoption,
    /// Its text is none.
    #[error("{KEY} of ConfigMap {}/{} cannot be parsed", CONFIG_MAP.0, CONFIG_MAP.1)]
    Parse(#[source] serde_json::Error),
    /// A newer version wrote it.
    #[error("{KEY} of ConfigMap {}/{} has schema {schema}, and {SCHEMA} is supported", CONFIG_MAP.0, CONFIG_MAP.1)]
    Schema {
        /// That of the text.
        schema: u32,
    },
    /// The objects do not fit.
    #[error(
        "the objects that are taken over have {bytes} bytes as JSON; a ConfigMap has room for {BYTES_MAX}"
    )]
    TooLarge {
        /// Their size.
        bytes: usize,
    },
}

impl Adoption {
    /// Reads the ConfigMap's data.
    ///
    /// # Errors
    /// Any of [`AdoptionError`] but `TooLarge`.
    pub fn read(data: &BTreeMap<String, String>) -> Result<Self, AdoptionError> {
        let text = data.get(KEY).ok_or(AdoptionError::NoAdoption)?;
        let this: Self = serde_json::from_str(text).map_err(AdoptionError::Parse)?;
        if this.schema != SCHEMA {
            return Err(AdoptionError::Schema {
                schema: this.schema,
            });
        }
        Ok(this)
    }

    /// Its text.
    ///
    /// # Errors
    /// [`AdoptionError::TooLarge`].
    pub fn text(&self) -> Result<String, AdoptionError> {
        let text = json!(self).to_string();
        let bytes = text.len();
        (bytes <= BYTES_MAX)
            .then_some(text)
            .ok_or(AdoptionError::TooLarge { bytes })
    }

    /// What was taken over so far and these objects: what is in both stays as it was first.
    ///
    /// Shape: `objects` as the API server has them.
    #[must_use]
    pub fn with(self, objects: &[Value], overrides: Vec<Override>) -> Self {
        let stored: BTreeSet<ObjectId> = self.objects.iter().filter_map(id).collect();
        let mut all = self.objects;
        let is_new = |object: &&Value| id(object).is_some_and(|id| !stored.contains(&id));
        all.extend(objects.iter().filter(is_new).map(as_it_was));
        all.sort_by_key(|object| id(object).map(|id| order::rank(&id)));
        let mut set: BTreeSet<_> = self.overrides.into_iter().collect();
        set.extend(overrides);
        Self {
            schema: SCHEMA,
            objects: all,
            overrides: set.into_iter().collect(),
        }
    }

    /// Which objects are restored.
    pub fn ids(&self) -> BTreeSet<ObjectId> {
        self.objects.iter().filter_map(id).collect()
    }
}

/// The object without what the API server sets.
fn as_it_was(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !OF_SERVER.contains(&field.as_str()));
    }
    if let Some(all) = object.as_object_mut() {
        all.remove("status");
    }
    object
}

/// What tells an object from all others; none of an object without kind or name.
pub fn id(object: &Value) -> Option<ObjectId> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let recorded = RecordedObject {
        api_version: text("/apiVersion")?.to_owned(),
        kind: text("/kind")?.to_owned(),
        namespace: text("/metadata/namespace").unwrap_or_default().to_owned(),
        name: text("/metadata/name")?.to_owned(),
        was_there: true,
    };
    Some(recorded.id())
}

/// Overrides for objects. Definitions and namespaces are the same with both operators.
pub fn overrides<'a>(objects: impl IntoIterator<Item = &'a ObjectId>) -> Vec<Override> {
    let objects = objects.into_iter();
    let taken = objects.filter(|id| !order::is_definition(id) && id.kind != "Namespace");
    let entry = taken.map(|id| Override {
        kind: id.kind.clone(),
        group: id.group.clone(),
        namespace: id.namespace.clone(),
        name: id.name.clone(),
        unmanaged: true,
    });
    entry.collect()
}

/// Of overrides those without an entry yet: an entry of others is theirs.
///
/// Shape: `present` is `spec.overrides`, null where it is absent.
pub fn absent(present: &Value, overrides: Vec<Override>) -> Vec<Override> {
    let entries = present.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_of = |entry: &Value, it: &Override| {
        let fields = [
            ("kind", &it.kind),
            ("group", &it.group),
            ("namespace", &it.namespace),
            ("name", &it.name),
        ];
        fields.iter().all(|(field, value)| {
            entry.get(field).and_then(Value::as_str).unwrap_or_default() == *value
        })
    };
    let mut overrides = overrides;
    overrides.retain(|it| !entries.iter().any(|entry| is_of(entry, it)));
    overrides
}

/// `spec.overrides` with `add` and without `remove`; none where nothing changes. Entries of others
/// stay as they are, also where one is for an object of `add`.
///
/// Shape: `present` is the field, null where it is absent.
pub fn merge(present: &Value, add: &[Override], remove: &[Override]) -> Option<Vec<Value>> {
    let entries = present.as_array().map(Vec::as_slice).unwrap_or_default();
    let key = |entry: &Value| {
        ["kind", "group", "namespace", "name"].map(|field| {
            entry
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        })
    };
    let of = |it: &Override| [&it.kind, &it.group, &it.namespace, &it.name].map(Clone::clone);
    let removed: BTreeSet<_> = remove.iter().map(of).collect();
    let mut merged: Vec<Value> = entries.to_vec();
    merged.retain(|entry| !removed.contains(&key(entry)) || entry["unmanaged"] != true);
    let there: BTreeSet<_> = merged.iter().map(key).collect();
    let new = add.iter().filter(|it| !there.contains(&of(it)));
    merged.extend(new.map(|it| json!(it)));
    (merged != entries).then_some(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, name: &str, label: &str) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": kind,
            "metadata": {
                "name": name, "namespace": "n", "uid": "1", "resourceVersion": "7", "generation": 3,
                "managedFields": [], "creationTimestamp": "t", "labels": { "l": label },
            },
            "spec": { "a": 1 }, "status": { "b": 2 },
        })
    }

    #[test]
    fn an_object_is_kept_as_it_was_first() {
        let adoption = Adoption::default().with(
            &[
                object("DaemonSet", "d", "theirs"),
                object("Role", "r", "theirs"),
            ],
            Vec::new(),
        );
        let kept = json!({
            "apiVersion": "apps/v1", "kind": "Role",
            "metadata": { "name": "r", "namespace": "n", "labels": { "l": "theirs" } },
            "spec": { "a": 1 },
        });
        assert_eq!(adoption.objects[0], kept);
        // Interrupted and run again: the object is ours by now.
        let again = adoption
            .clone()
            .with(&[object("DaemonSet", "d", "ours")], Vec::new());
        assert_eq!(again, adoption);
        let data = BTreeMap::from([(KEY.to_owned(), adoption.text().unwrap())]);
        assert_eq!(Adoption::read(&data).unwrap(), adoption);
    }

    #[test]
    fn what_cannot_be_kept_is_named() {
        let large = "x".repeat(BYTES_MAX);
        let adoption = Adoption::default().with(&[object("Role", &large, "")], Vec::new());
        assert!(matches!(
            adoption.text(),
            Err(AdoptionError::TooLarge { .. })
        ));
        let read = |text: &str| {
            let data = BTreeMap::from([(KEY.to_owned(), text.to_owned())]);
            Adoption::read(&data).unwrap_err().to_string()
        };
        let name = "adopted.json of ConfigMap kube-system/slipway-adopted";
        assert_eq!(
            read(r#"{"schema": 4, "objects": []}"#),
            format!("{name} has schema 4, and 1 is supported")
        );
        assert_eq!(read("x"), format!("{name} cannot be parsed"));
        let none = Adoption::read(&BTreeMap::new()).unwrap_err().to_string();
        assert_eq!(
            none,
            "ConfigMap kube-system/slipway-adopted has no adopted.json"
        );
    }

    #[test]
    fn overrides_of_people_stay() {
        let ids = ["d", "e"].map(|name| id(&object("DaemonSet", name, "")).unwrap());
        let [d, e] = &overrides(&ids)[..] else {
            panic!("two overrides");
        };
        let mine = json!({ "kind": "Deployment", "group": "apps", "namespace": "x", "name": "y", "unmanaged": true });
        let managed = json!({ "kind": "DaemonSet", "group": "apps", "namespace": "n", "name": "e", "unmanaged": false });
        let d = std::slice::from_ref(d);
        // One that a person has set stays theirs.
        let theirs = json!([json!(e)]);
        assert_eq!(absent(&theirs, vec![d[0].clone(), e.clone()]), d);
        assert_eq!(absent(&Value::Null, d.to_vec()), d);
        assert_eq!(merge(&Value::Null, d, &[]), Some(vec![json!(d[0])]));
        let both = json!([mine, managed]);
        assert_eq!(
            merge(&both, &[d[0].clone(), e.clone()], &[]),
            Some(vec![mine.clone(), managed.clone(), json!(d[0])])
        );
        let all = json!([mine, json!(d[0])]);
        assert_eq!(merge(&all, d, &[]), None);
        assert_eq!(merge(&all, &[], d), Some(vec![mine]));
        assert_eq!(merge(&json!([managed]), &[], std::slice::from_ref(e)), None);
    }

    #[test]
    fn definitions_need_no_override() {
        let ids = ["CustomResourceDefinition", "Namespace", "Role"];
        let ids = ids.map(|kind| id(&object(kind, "a", "")).unwrap());
        let kinds: Vec<_> = overrides(&ids).into_iter().map(|it| it.kind).collect();
        assert_eq!(kinds, ["Role"]);
    }
}
