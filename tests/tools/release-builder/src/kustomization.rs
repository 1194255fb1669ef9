//! `kustomization.yaml`, as far as `deploy/` uses it. Another field is an error, so that none is
//! left out where the chart imitates kustomize.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::files;

/// The file's name.
pub(crate) const NAME: &str = "kustomization.yaml";

/// Source: kustomize, `Kustomization` and `Component`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Kustomization {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    /// What every object of a namespace is in.
    pub(crate) namespace: Option<String>,
    /// Files, and folders with their own kustomization.
    #[serde(default)]
    pub(crate) resources: Vec<String>,
    /// Folders of patches.
    #[serde(default)]
    pub(crate) components: Vec<String>,
    #[serde(default)]
    pub(crate) patches: Vec<PatchFile>,
    #[serde(default)]
    pub(crate) config_map_generator: Vec<Generator>,
    #[serde(default)]
    pub(crate) generator_options: GeneratorOptions,
}

/// A file of operations by JSON patch, and the object that they change.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PatchFile {
    pub(crate) path: String,
    pub(crate) target: Target,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// A ConfigMap that is made from files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Generator {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) files: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GeneratorOptions {
    /// Whether names are without a digest of the content.
    #[serde(default)]
    pub(crate) disable_name_suffix_hash: bool,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
}

impl Kustomization {
    /// Reads that of a folder.
    ///
    /// # Errors
    /// There is none, or it has a field that is not read here.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(NAME);
        serde_saphyr::from_str(&files::read_text(&path)?)
            .with_context(|| format!("cannot parse {}", path.display()))
    }
}

/// An operation of a JSON patch: those that `deploy/` has.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Operation {
    /// Appends to a list: the path ends in `/-`.
    Add {
        path: String,
        value: Value,
    },
    Test {
        path: String,
        value: Value,
    },
    /// Removes an item of a list.
    Remove {
        path: String,
    },
}

impl Operation {
    /// Changes an object.
    ///
    /// # Errors
    /// The object has no such place, or another value than is tested.
    ///
    /// Source: RFC 6902.
    pub(crate) fn apply(&self, object: &mut Value) -> Result<()> {
        let (Self::Add { path, .. } | Self::Test { path, .. } | Self::Remove { path }) = self;
        self.apply_at(object, path)
            .with_context(|| format!("the patch does not apply at {path}"))
    }

    fn apply_at(&self, object: &mut Value, path: &str) -> Option<()> {
        let (parent, last) = path.rsplit_once('/')?;
        match self {
            Self::Test { value, .. } => (object.pointer(path)? == value).then_some(()),
            Self::Add { value, .. } => {
                let items = object.pointer_mut(parent)?.as_array_mut()?;
                (last == "-").then(|| items.push(value.clone()))
            }
            Self::Remove { .. } => {
                let items = object.pointer_mut(parent)?.as_array_mut()?;
                let index: usize = last.parse().ok()?;
                (index < items.len()).then(|| drop(items.remove(index)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_change_lists_and_refuse_other_places() {
        let operations: Vec<Operation> = serde_json::from_value(json!([
            {"op": "test", "path": "/a/0", "value": 1},
            {"op": "remove", "path": "/a/0"},
            {"op": "add", "path": "/a/-", "value": 3},
        ]))
        .unwrap();
        let mut object = json!({"a": [1, 2]});
        for operation in &operations {
            operation.apply(&mut object).unwrap();
        }
        assert_eq!(object, json!({"a": [2, 3]}));
        let error = operations[0].apply(&mut object).unwrap_err().to_string();
        assert_eq!(error, "the patch does not apply at /a/0");
    }
}
