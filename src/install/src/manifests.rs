//! The objects of a version, as a release brings them.

use std::collections::{BTreeMap, BTreeSet};

use release::manifest::{Manifest, ObjectId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::component::InstallComponent;
use crate::order;

/// Version of the document's form.
const SCHEMA: u32 = 1;

/// All objects of a version of Slipway, with each image by digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstallManifests {
    schema: u32,
    /// The version, as `slipway --version` says it.
    pub version: String,
    /// Pull spec of each image, by name, such as `slipway-mcd`.
    pub images: BTreeMap<String, String>,
    objects: Vec<InstallObject>,
}

/// An object, and when it is applied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstallObject {
    /// All of one of these sets have to be installed.
    pub components: Vec<BTreeSet<InstallComponent>>,
    /// The object.
    pub object: Value,
    /// What it is instead while another component is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<ObjectWith>,
}

/// What an object is while a component is installed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectWith {
    /// The component.
    pub component: InstallComponent,
    /// The object.
    pub object: Value,
}

/// Why a document is no list of objects to install.
#[derive(Debug, thiserror::Error)]
pub enum ManifestsError {
    /// It is no JSON of this form.
    #[error("cannot parse the manifests")]
    Parse(#[source] serde_json::Error),
    /// A newer version made it.
    #[error(
        "schema of the manifests is {schema}, and {SCHEMA} is supported: take the slipway of version {version}"
    )]
    Schema {
        /// That of the document.
        schema: u32,
        /// The version whose objects it has.
        version: String,
    },
    /// An object lacks its name or kind.
    #[error("object {index} of the manifests is none")]
    Object {
        /// Which one, from 0.
        index: usize,
        /// What it lacks.
        source: release::manifest::Error,
    },
    /// An object has no component, so that it would never be applied.
    #[error("{id} of the manifests has no component")]
    NoComponent {
        /// The object.
        id: Box<ObjectId>,
    },
    /// Two objects have one name.
    #[error("{id} is twice in the manifests")]
    Twice {
        /// The object.
        id: Box<ObjectId>,
    },
}

impl InstallManifests {
    /// Those of a version.
    ///
    /// # Errors
    /// Any of [`ManifestsError`] but `Parse`.
    pub fn new(
        version: &str,
        images: BTreeMap<String, String>,
        objects: Vec<InstallObject>,
    ) -> Result<Self, ManifestsError> {
        let this = Self {
            schema: SCHEMA,
            version: version.to_owned(),
            images,
            objects,
        };
        this.check()?;
        Ok(this)
    }

    /// Reads the document.
    ///
    /// # Errors
    /// Any of [`ManifestsError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestsError> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
            #[serde(default)]
            version: String,
        }
        let Head { schema, version } =
            serde_json::from_slice(bytes).map_err(ManifestsError::Parse)?;
        if schema != SCHEMA {
            return Err(ManifestsError::Schema { schema, version });
        }
        let this: Self = serde_json::from_slice(bytes).map_err(ManifestsError::Parse)?;
        this.check()?;
        Ok(this)
    }

    fn check(&self) -> Result<(), ManifestsError> {
        let mut seen = BTreeSet::new();
        for (index, entry) in self.objects.iter().enumerate() {
            let with = entry.with.iter().map(|with| &with.object);
            let mut id = None;
            for object in with.chain([&entry.object]) {
                let read = read(object);
                let read = read.map_err(|source| ManifestsError::Object { index, source })?;
                id = Some(read.id);
            }
            let Some(id) = id else { continue };
            if entry.components.iter().all(BTreeSet::is_empty) {
                return Err(ManifestsError::NoComponent { id: Box::new(id) });
            }
            if !seen.insert(id.clone()) {
                return Err(ManifestsError::Twice { id: Box::new(id) });
            }
        }
        Ok(())
    }

    /// The objects of these components, in the order in which they are applied.
    pub fn of(&self, components: &BTreeSet<InstallComponent>) -> Vec<Manifest> {
        let is_on = |entry: &&InstallObject| {
            let mut sets = entry.components.iter();
            sets.any(|set| !set.is_empty() && set.is_subset(components))
        };
        let objects = self.objects.iter().filter(is_on).map(|entry| {
            let with = entry.with.as_ref();
            let with = with.filter(|with| components.contains(&with.component));
            with.map_or(&entry.object, |with| &with.object)
        });
        // `check` has read each of them.
        let mut objects: Vec<_> = objects.filter_map(|object| read(object).ok()).collect();
        objects.sort_by_key(|object| order::rank(&object.id));
        objects
    }
}

/// The one manifest of an object.
fn read(object: &Value) -> Result<Manifest, release::manifest::Error> {
    let mut read = Manifest::parse("manifests.json", object.to_string().as_bytes())?;
    let none = release::manifest::Error::NoObject { document: 1 };
    read.pop().ok_or(none)
}

#[cfg(test)]
mod tests {
    use InstallComponent::{ConfigServer, MachineConfig, Monitoring};
    use serde_json::json;

    use super::*;

    fn object(kind: &str, name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "n"}})
    }

    fn entry(components: &[InstallComponent], object: Value) -> InstallObject {
        InstallObject {
            components: vec![components.iter().copied().collect()],
            object,
            with: None,
        }
    }

    fn names(manifests: &InstallManifests, components: &[InstallComponent]) -> Vec<String> {
        let components = components.iter().copied().collect();
        let objects = manifests.of(&components);
        let name = |it: &Manifest| format!("{} {}", it.id.kind, it.object["metadata"]["name"]);
        objects
            .iter()
            .map(name)
            .map(|name| name.replace('"', ""))
            .collect()
    }

    #[test]
    fn components_choose_objects_and_their_form() {
        let mut daemon = entry(&[MachineConfig], object("DaemonSet", "d"));
        let mut changed = object("DaemonSet", "d");
        changed["spec"] = json!(1);
        daemon.with = Some(ObjectWith {
            component: ConfigServer,
            object: changed.clone(),
        });
        let objects = vec![
            daemon,
            entry(&[MachineConfig, Monitoring], object("ConfigMap", "alerts")),
            entry(&[MachineConfig], object("Namespace", "n")),
            entry(&[ConfigServer], object("Service", "s")),
        ];
        let manifests = InstallManifests::new("1", BTreeMap::new(), objects).unwrap();
        assert_eq!(
            names(&manifests, &[MachineConfig]),
            ["Namespace n", "DaemonSet d"]
        );
        assert_eq!(
            names(&manifests, &[MachineConfig, Monitoring]),
            ["Namespace n", "ConfigMap alerts", "DaemonSet d"]
        );
        let with = manifests.of(&BTreeSet::from([MachineConfig, ConfigServer]));
        assert_eq!(with.last().unwrap().object, changed);
        let text = serde_json::to_vec(&manifests).unwrap();
        assert_eq!(InstallManifests::parse(&text).unwrap(), manifests);
    }

    #[test]
    fn documents_of_another_form_are_refused() {
        let with =
            |objects: Value| json!({"schema": 1, "version": "1", "images": {}, "objects": objects});
        let good = json!({"components": [["machine-config"]], "object": object("Service", "s")});
        for (document, expected) in [
            (json!({}), "cannot parse the manifests"),
            (
                json!({"schema": 2, "version": "0.9.0"}),
                "schema of the manifests is 2, and 1 is supported: take the slipway of version 0.9.0",
            ),
            (
                with(json!([{"components": [["machine-config"]], "object": {}}])),
                "object 0 of the manifests is none",
            ),
            (
                with(json!([{"components": [["other"]], "object": {}}])),
                "cannot parse the manifests",
            ),
            (
                with(json!([{"components": [], "object": object("Service", "s")}])),
                "Service n/s of the manifests has no component",
            ),
            (
                with(json!([good, good])),
                "Service n/s is twice in the manifests",
            ),
        ] {
            let error = InstallManifests::parse(document.to_string().as_bytes());
            let error = error.unwrap_err().to_string();
            assert!(error.contains(expected.trim()), "{error}");
        }
    }
}
