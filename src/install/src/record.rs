//! What the cluster keeps of an installation: ConfigMap `kube-system/slipway-install`.
//!
//! It is written before the first object, so that an installation that was interrupted is known
//! whole: what it may have made, and what was there before.

use std::collections::{BTreeMap, BTreeSet};

use release::manifest::{Manifest, ObjectId};
use serde::{Deserialize, Serialize};

use crate::component::InstallComponent;
use crate::order;

/// Namespace and name of the ConfigMap.
pub const CONFIG_MAP: (&str, &str) = ("kube-system", "slipway-install");

/// Its key.
pub const KEY: &str = "record.json";

const SCHEMA: u32 = 1;

/// How far an installation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstallStage {
    /// Objects are applied.
    Installing,
    /// All are.
    Installed,
    /// Objects are removed.
    Removing,
}

/// An installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallRecord {
    schema: u32,
    /// The version whose objects are applied.
    pub version: String,
    /// How far it is.
    pub stage: InstallStage,
    /// What is installed.
    pub components: BTreeSet<InstallComponent>,
    /// Image of the pods that clean hosts; empty where none were touched.
    #[serde(default)]
    pub host_image: String,
    /// What it has made or taken over, in the order of application.
    pub objects: Vec<RecordedObject>,
    /// Nodes whose hosts are clean again, while it is removed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub clean: BTreeSet<String>,
}

/// An object of an installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedObject {
    /// `v1`, `apps/v1` …
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for objects of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Whether it was there before: it is never removed then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_there: bool,
}

/// Why a record cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The ConfigMap has no such key.
    #[error("ConfigMap {}/{} has no {KEY}", CONFIG_MAP.0, CONFIG_MAP.1)]
    NoRecord,
    /// Its text is none.
    #[error("{KEY} of ConfigMap {}/{} cannot be parsed", CONFIG_MAP.0, CONFIG_MAP.1)]
    Parse(#[source] serde_json::Error),
    /// A newer version wrote it.
    #[error(
        "{KEY} of ConfigMap {}/{} has schema {schema}, and {SCHEMA} is supported: take the slipway of version {version}",
        CONFIG_MAP.0,
        CONFIG_MAP.1
    )]
    Schema {
        /// That of the record.
        schema: u32,
        /// The version that is installed.
        version: String,
    },
}

impl InstallRecord {
    /// Reads the ConfigMap's data.
    ///
    /// # Errors
    /// Any of [`RecordError`].
    pub fn read(data: &BTreeMap<String, String>) -> Result<Self, RecordError> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
            #[serde(default)]
            version: String,
        }
        let text = data.get(KEY).ok_or(RecordError::NoRecord)?;
        let Head { schema, version } = serde_json::from_str(text).map_err(RecordError::Parse)?;
        if schema != SCHEMA {
            return Err(RecordError::Schema { schema, version });
        }
        serde_json::from_str(text).map_err(RecordError::Parse)
    }

    /// That of an installation which begins: what the former one has made is its own, too, until
    /// all is applied.
    ///
    /// Shape: `there` are the objects of the cluster before.
    pub fn begin(
        former: Option<&Self>,
        (version, host_image): (&str, &str),
        components: &BTreeSet<InstallComponent>,
        wanted: &[Manifest],
        there: &BTreeSet<ObjectId>,
    ) -> Self {
        let recorded = former.map(|it| it.objects.as_slice()).unwrap_or_default();
        let find = |id: &ObjectId| recorded.iter().find(|it| it.id() == *id);
        let mut objects: Vec<RecordedObject> = Vec::new();
        for manifest in wanted {
            let id = &manifest.id;
            let was_there = find(id).map_or_else(|| there.contains(id), |it| it.was_there);
            objects.push(RecordedObject {
                api_version: manifest.full_api_version(),
                kind: id.kind.clone(),
                namespace: id.namespace.clone(),
                name: id.name.clone(),
                was_there,
            });
        }
        let wanted: BTreeSet<_> = wanted.iter().map(|it| it.id.clone()).collect();
        let stale = recorded.iter().filter(|it| !wanted.contains(&it.id()));
        objects.extend(stale.cloned());
        objects.sort_by_key(|it| order::rank(&it.id()));
        Self {
            schema: SCHEMA,
            version: version.to_owned(),
            stage: InstallStage::Installing,
            components: components.clone(),
            host_image: host_image.to_owned(),
            objects,
            clean: BTreeSet::new(),
        }
    }

    /// That of the same installation with all objects applied and `stale` ones removed.
    #[must_use]
    pub fn finished(mut self, stale: &BTreeSet<ObjectId>) -> Self {
        self.stage = InstallStage::Installed;
        self.objects.retain(|it| !stale.contains(&it.id()));
        self
    }

    /// That of the same installation while it is removed.
    #[must_use]
    pub fn removing(mut self, clean: &[String]) -> Self {
        self.stage = InstallStage::Removing;
        self.clean.extend(clean.iter().cloned());
        self
    }

    /// What it has that is not wanted any more. Namespaces, definitions and objects of defined
    /// kinds stay: objects of people are in them.
    pub fn stale(&self, wanted: &[Manifest]) -> Vec<RecordedObject> {
        let wanted: BTreeSet<_> = wanted.iter().map(|it| &it.id).collect();
        let is_stale =
            |it: &&RecordedObject| !wanted.contains(&it.id()) && !it.was_there && !self.is_data(it);
        self.objects.iter().filter(is_stale).cloned().collect()
    }

    /// Whether people have objects in it, or it is one of a kind that is defined here.
    pub fn is_data(&self, object: &RecordedObject) -> bool {
        let id = object.id();
        let definitions = self
            .objects
            .iter()
            .filter(|it| order::is_definition(&it.id()));
        let mut groups = definitions.filter_map(|it| it.name.split_once('.'));
        order::is_shared(&id) || groups.any(|(_, group)| group == id.group)
    }

    /// That of the same removal with only these objects left.
    #[must_use]
    pub fn reduced(mut self, left: &[RecordedObject]) -> Self {
        self.objects = left.to_vec();
        self
    }

    /// Whether it has the daemon, so that hosts and objects of nodes matter.
    pub fn has_daemon(&self) -> bool {
        self.objects.iter().any(|it| is_daemon(&it.id()))
    }
}

/// Whether it is the workload on every host.
pub fn is_daemon(id: &ObjectId) -> bool {
    id.kind == "DaemonSet" && id.name == "machine-config-daemon"
}

impl RecordedObject {
    /// What tells it from all others.
    pub fn id(&self) -> ObjectId {
        let group = self.api_version.split_once('/').map(|(group, _)| group);
        ObjectId {
            group: group.unwrap_or_default().to_owned(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub(crate) fn manifest(kind: &str, name: &str) -> Manifest {
        let namespace = if kind == "Namespace" { "" } else { "n" };
        let object = json!({
            "apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace},
        });
        of(&object)
    }

    pub(crate) fn of(object: &Value) -> Manifest {
        let read = Manifest::parse("a.json", object.to_string().as_bytes());
        read.unwrap().remove(0)
    }

    fn names(objects: &[RecordedObject]) -> Vec<(&str, bool)> {
        let name = |it: &'_ RecordedObject| (it.name.clone().leak() as &str, it.was_there);
        objects.iter().map(name).collect()
    }

    #[test]
    fn a_newer_version_keeps_what_the_former_made_until_it_is_applied() {
        let components = BTreeSet::from([InstallComponent::MachineConfig]);
        let (a, b, c) = (
            manifest("Namespace", "a"),
            manifest("Service", "b"),
            manifest("Deployment", "c"),
        );
        let there = BTreeSet::from([a.id.clone()]);
        let first = [a.clone(), b.clone()];
        let record = InstallRecord::begin(None, ("1", "i"), &components, &first, &there);
        assert_eq!(names(&record.objects), [("a", true), ("b", false)]);

        // Interrupted and begun again: what it has made itself does not count as there before.
        let there = BTreeSet::from([a.id.clone(), b.id.clone()]);
        let again = InstallRecord::begin(Some(&record), ("1", "i"), &components, &first, &there);
        assert_eq!(again, record);

        let record = record.finished(&BTreeSet::new());
        let wanted = [c];
        let next = InstallRecord::begin(Some(&record), ("2", "i"), &components, &wanted, &there);
        assert_eq!(
            names(&next.objects),
            [("a", true), ("b", false), ("c", false)]
        );
        assert_eq!(next.stage, InstallStage::Installing);
        assert_eq!(names(&next.stale(&wanted)), [("b", false)]);
        // What people have objects in is kept, also where a version does not have it any more.
        let namespace = [manifest("Namespace", "own"), manifest("Service", "b")];
        let own = InstallRecord::begin(None, ("1", "i"), &components, &namespace, &BTreeSet::new());
        assert_eq!(names(&own.stale(&wanted)), [("b", false)]);
        let stale = BTreeSet::from([a.id, b.id]);
        let next = next.finished(&stale);
        assert_eq!(names(&next.objects), [("c", false)]);

        let text = serde_json::to_string(&next).unwrap();
        let data = BTreeMap::from([(KEY.to_owned(), text)]);
        assert_eq!(InstallRecord::read(&data).unwrap(), next);
    }

    #[test]
    fn what_is_no_record_is_named() {
        let read = |text: Option<&str>| {
            let data = text.map(|text| (KEY.to_owned(), text.to_owned()));
            let read = InstallRecord::read(&data.into_iter().collect());
            read.unwrap_err().to_string()
        };
        let name = "ConfigMap kube-system/slipway-install";
        assert_eq!(read(None), format!("{name} has no record.json"));
        assert_eq!(
            read(Some("")),
            format!("record.json of {name} cannot be parsed")
        );
        assert_eq!(
            read(Some(r#"{"schema": 3, "version": "9"}"#)),
            format!(
                "record.json of {name} has schema 3, and 1 is supported: take the slipway of \
                 version 9"
            )
        );
        assert_eq!(
            read(Some(r#"{"schema": 1, "version": "9"}"#)),
            format!("record.json of {name} cannot be parsed")
        );
    }
}
