//! Objects that a release dropped: the inventory of the release before, compared. Values in, values
//! out.

use std::collections::{BTreeMap, BTreeSet};

use release::inventory::Entry;
use serde_json::{Value, json};

/// Name of the ConfigMap that keeps the inventory, in the version operator's namespace.
pub const NAME: &str = "release-inventory";

/// Keys in it.
const RELEASE: &str = "release";
const OBJECTS: &str = "objects";

/// Stands for no namespace.
const NO_NAMESPACE: &str = "-";

/// Kinds that hold what users made: they are reported, and a person removes them.
const KEPT: [&str; 4] = [
    "CustomResourceDefinition",
    "Namespace",
    "PersistentVolume",
    "PersistentVolumeClaim",
];

/// An object of a release.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InventoryObject {
    pub api_version: String,
    pub kind: String,
    /// Namespace; empty for none.
    pub namespace: String,
    pub name: String,
}

impl InventoryObject {
    /// What tells it from others: its version does not.
    fn key(&self) -> (&str, &str, &str, &str) {
        let group = self.api_version.rsplit_once('/');
        let group = group.map_or("", |(group, _)| group);
        (group, &self.kind, &self.namespace, &self.name)
    }

    /// Whether it is removed by a person only.
    pub fn is_kept(&self) -> bool {
        KEPT.contains(&self.kind.as_str())
    }
}

/// The objects of a release.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReleaseInventory {
    /// Pull spec of the release.
    pub release: String,
    /// Its objects, without those that it removes itself.
    pub objects: BTreeSet<InventoryObject>,
}

impl ReleaseInventory {
    /// The objects of `entries`, whether or not an override keeps them from the cluster.
    pub fn of(release: &str, entries: &[Entry]) -> Self {
        let entries = entries.iter().filter(|entry| !entry.is_deletion());
        let objects = entries.map(|entry| InventoryObject {
            api_version: entry.api_version.clone(),
            kind: entry.id.kind.clone(),
            namespace: entry.id.namespace.clone(),
            name: entry.id.name.clone(),
        });
        Self {
            release: release.to_owned(),
            objects: objects.collect(),
        }
    }

    /// Reads the ConfigMap's data. A line that is none is left out: its object stays.
    pub fn parse(data: &BTreeMap<String, String>) -> Self {
        let text = |key: &str| data.get(key).map(String::as_str).unwrap_or_default();
        let object = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            let mut next = || words.next();
            let (api_version, kind) = (next()?, next()?);
            let (namespace, name) = (next()?, next()?);
            Some(InventoryObject {
                api_version,
                kind,
                namespace: Some(namespace)
                    .filter(|namespace| namespace != NO_NAMESPACE)
                    .unwrap_or_default(),
                name,
            })
        };
        Self {
            release: text(RELEASE).to_owned(),
            objects: text(OBJECTS).lines().filter_map(object).collect(),
        }
    }

    pub fn to_object(&self, namespace: &str) -> Value {
        let lines = self.objects.iter().map(|one| {
            let namespace = match one.namespace.as_str() {
                "" => NO_NAMESPACE,
                namespace => namespace,
            };
            format!("{} {} {namespace} {}", one.api_version, one.kind, one.name)
        });
        let lines: Vec<String> = lines.collect();
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": NAME, "namespace": namespace },
            "data": { RELEASE: self.release, OBJECTS: lines.join("\n") }
        })
    }

    /// Objects of the release before that this one does not have. None of the same release: what a
    /// cluster's settings leave out of it was not dropped.
    pub fn dropped(&self, before: &Self) -> Vec<InventoryObject> {
        if before.release == self.release {
            return Vec::new();
        }
        let kept: BTreeSet<_> = self.objects.iter().map(InventoryObject::key).collect();
        let dropped = before
            .objects
            .iter()
            .filter(|one| !kept.contains(&one.key()));
        dropped.cloned().collect()
    }
}

/// Whether an object still belongs to the cluster's release: no other owner has it.
pub fn is_ours(object: &Value, cluster_version_uid: &str) -> bool {
    let owners = object.pointer("/metadata/ownerReferences");
    let mut owners = owners.and_then(Value::as_array).into_iter().flatten();
    let is_owned = owners.any(|owner| {
        let text = |key| owner.get(key).and_then(Value::as_str);
        text("kind") == Some("ClusterVersion") && text("uid") == Some(cluster_version_uid)
    });
    is_owned && object.pointer("/metadata/deletionTimestamp").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(release: &str, lines: &str) -> ReleaseInventory {
        let data = [(RELEASE, release), (OBJECTS, lines)];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
        ReleaseInventory::parse(&data.into())
    }

    /// What a release drops is found by its inventory. Row 7 of
    /// `docs/reference/known-weaknesses.md`, "Version operator".
    #[test]
    fn objects_that_a_release_dropped_are_found_once() {
        let before = inventory(
            "r1",
            "v1 ConfigMap n gone\nv1 ConfigMap n kept\napps/v1beta1 Deployment n d\nv1 Namespace - n\nbroken",
        );
        assert_eq!(before.objects.len(), 4);
        let now = inventory(
            "r2",
            "v1 ConfigMap n kept\napps/v1 Deployment n d\nv1 Secret n gone",
        );
        let dropped = now.dropped(&before);
        let names: Vec<String> = dropped
            .iter()
            .map(|one| format!("{} {} {}", one.kind, one.name, one.is_kept()))
            .collect();
        assert_eq!(names, ["ConfigMap gone false", "Namespace n true"]);
        // Of the same release, the cluster's settings leave objects out.
        let same = inventory("r1", "v1 ConfigMap n kept");
        assert_eq!(same.dropped(&before), []);
        let printed = before.to_object("ns");
        let data: BTreeMap<String, String> =
            serde_json::from_value(printed["data"].clone()).unwrap();
        assert_eq!(ReleaseInventory::parse(&data), before);
    }

    #[test]
    fn object_of_another_owner_is_not_ours() {
        let owned = |kind: &str, uid: &str| json!({ "metadata": { "ownerReferences": [{ "kind": kind, "uid": uid }] } });
        assert!(is_ours(&owned("ClusterVersion", "u"), "u"));
        assert!(!is_ours(&owned("ClusterVersion", "other"), "u"));
        assert!(!is_ours(&owned("Deployment", "u"), "u"));
        assert!(!is_ours(&json!({ "metadata": {} }), "u"));
        let mut dying = owned("ClusterVersion", "u");
        dying["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(!is_ours(&dying, "u"));
    }
}
