//! The objects that `deploy/` and its optional folders apply, file by file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use release::manifest::{Manifest, ObjectId};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::values::Switch;
use crate::kustomization::{Generator, GeneratorOptions, Kustomization, Operation, Target};
use crate::{files, images};

/// Folders with a switch of their own; a folder below one needs both.
const SWITCHES: [(&str, Switch); 5] = [
    ("config-server", Switch::ConfigServer),
    ("cvo", Switch::VersionOperator),
    ("managed-upgrade", Switch::ManagedUpgrade),
    ("monitoring", Switch::Monitoring),
    ("update-service", Switch::UpdateService),
];

/// Folders that are applied, in this order: an object of two folders stands in the first.
const FOLDERS: [&str; 6] = [
    "",
    "cvo",
    "managed-upgrade",
    "monitoring",
    "update-service",
    "update-service/monitoring",
];

/// Digits of the digest in the name of a generated ConfigMap.
const HASH_DIGITS: usize = 10;

/// A file of objects.
#[derive(Debug)]
pub(crate) struct ObjectFile {
    /// Relative to `deploy/`.
    pub(crate) path: PathBuf,
    /// All must be on.
    pub(crate) switches: BTreeSet<Switch>,
    pub(crate) documents: Vec<Document>,
}

/// An object of a file.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) manifest: Manifest,
    /// As the file has it, or printed if kustomize changes the object.
    pub(crate) text: String,
    /// Other files with the same object, relative to `deploy/`.
    pub(crate) also: Vec<PathBuf>,
    /// What the object is instead while a switch is on.
    pub(crate) patched: Option<(Switch, Value)>,
}

/// The operations of a component's patches.
#[derive(Debug)]
struct Patch {
    switch: Switch,
    target: Target,
    operations: Vec<Operation>,
}

/// All files of objects.
///
/// # Errors
/// A file cannot be read, or kustomize is asked for what is not imitated here.
pub(crate) fn of(deploy: &Path) -> Result<Vec<ObjectFile>> {
    let mut patches = Vec::new();
    for component in Kustomization::read(deploy)?.components {
        patches.extend(patches_of(deploy, &component)?);
    }
    let mut all = Vec::new();
    for folder in FOLDERS {
        collect(deploy, Path::new(folder), &mut all)?;
    }
    keep_first(&mut all)?;
    for document in all.iter_mut().flat_map(|file| &mut file.documents) {
        document.patch(&patches)?;
    }
    for patch in &patches {
        let is_target = |document: &Document| patch.is_of(&document.manifest.id);
        let found = all.iter().flat_map(|file| &file.documents).any(is_target);
        ensure!(
            found,
            "no object for the patch of {} {}",
            patch.target.kind,
            patch.target.name
        );
    }
    Ok(all)
}

/// Leaves an object of several files in the first.
fn keep_first(files: &mut [ObjectFile]) -> Result<()> {
    let mut seen: BTreeMap<ObjectId, BTreeSet<Switch>> = BTreeMap::new();
    let mut also: BTreeMap<ObjectId, Vec<PathBuf>> = BTreeMap::new();
    for file in &mut *files {
        let mut kept = Vec::new();
        for document in std::mem::take(&mut file.documents) {
            let id = &document.manifest.id;
            match seen.get(id) {
                None => {
                    seen.insert(id.clone(), file.switches.clone());
                    kept.push(document);
                }
                Some(first) => {
                    ensure!(
                        first.is_subset(&file.switches),
                        "{}: {id} stands in a file that may be off",
                        file.path.display()
                    );
                    also.entry(id.clone()).or_default().push(file.path.clone());
                }
            }
        }
        file.documents = kept;
    }
    for document in files.iter_mut().flat_map(|file| &mut file.documents) {
        document.also = also.remove(&document.manifest.id).unwrap_or_default();
    }
    Ok(())
}

/// Appends the files that the kustomization of a folder lists, and those of its folders.
fn collect(deploy: &Path, folder: &Path, all: &mut Vec<ObjectFile>) -> Result<()> {
    let kustomization = Kustomization::read(&deploy.join(folder))?;
    let switches = switches(folder);
    let first = all.len();
    for resource in &kustomization.resources {
        let path = folder.join(resource);
        if deploy.join(&path).is_dir() {
            collect(deploy, &path, all)?;
            continue;
        }
        let text = images::without_placeholder(&files::read_text(&deploy.join(&path))?);
        let documents = documents(&path, &text)?;
        all.push(ObjectFile {
            path,
            switches: switches.clone(),
            documents,
        });
    }
    let mut renamed = Vec::new();
    for generator in &kustomization.config_map_generator {
        let object = generated(deploy, folder, &kustomization, generator)?;
        let path = folder.join(generator.files.first().context("a ConfigMap of no file")?);
        let path = path.with_extension("yaml");
        let text = print(&object)?;
        let documents = documents(&path, &text)?;
        if let Some(name) = object.pointer("/metadata/name").and_then(Value::as_str) {
            renamed.push((generator.name.clone(), name.to_owned()));
        }
        all.push(ObjectFile {
            path,
            switches: switches.clone(),
            documents,
        });
    }
    renamed.retain(|(before, after)| before != after);
    for document in all
        .iter_mut()
        .skip(first)
        .flat_map(|file| &mut file.documents)
    {
        document.rename_config_maps(&renamed)?;
        document.check_namespace(kustomization.namespace.as_deref())?;
    }
    Ok(())
}

/// Switches of a folder and of those above it.
pub(crate) fn switches(folder: &Path) -> BTreeSet<Switch> {
    let folders = folder.iter().filter_map(|name| name.to_str());
    let of = |name| SWITCHES.iter().find(|(folder, _)| *folder == name);
    folders.filter_map(of).map(|(_, switch)| *switch).collect()
}

/// The objects of a text, each with its own part of it.
fn documents(path: &Path, text: &str) -> Result<Vec<Document>> {
    let name = path.to_str().context("a file's name is not UTF-8")?;
    let mut documents = Vec::new();
    let text = text.strip_prefix("---\n").unwrap_or(text);
    for text in text.split("\n---\n") {
        let text = format!("{}\n", text.trim_end_matches('\n'));
        let manifests = Manifest::parse(name, text.as_bytes());
        for manifest in manifests.with_context(|| format!("cannot parse {name}"))? {
            documents.push(Document {
                manifest,
                text: text.clone(),
                also: Vec::new(),
                patched: None,
            });
        }
    }
    Ok(documents)
}

fn print(object: &Value) -> Result<String> {
    Ok(serde_saphyr::to_string(object)?)
}

/// The ConfigMap that kustomize makes from files.
///
/// Source: kustomize, `configMapGenerator`; its name ends in a digest of the content, so that pods
/// are replaced with it.
fn generated(
    deploy: &Path,
    folder: &Path,
    kustomization: &Kustomization,
    generator: &Generator,
) -> Result<Value> {
    let mut data = BTreeMap::new();
    for name in &generator.files {
        data.insert(
            name.clone(),
            files::read_text(&deploy.join(folder).join(name))?,
        );
    }
    let GeneratorOptions {
        disable_name_suffix_hash,
        labels,
    } = &kustomization.generator_options;
    let mut name = generator.name.clone();
    if !disable_name_suffix_hash {
        name = format!("{name}-{}", hash(&data)?);
    }
    let mut metadata = Map::from_iter([("name".to_owned(), json!(name))]);
    let namespace = kustomization
        .namespace
        .as_ref()
        .or(generator.namespace.as_ref());
    if let Some(namespace) = namespace {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), json!(labels));
    }
    Ok(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data }))
}

/// The end of a generated ConfigMap's name.
///
/// Source: kustomize, `api/hasher`: JSON as Go prints it, SHA-256, ten digits, some of them as
/// letters. Kustomize reads the name from a field that no object has: it counts as empty.
fn hash(data: &BTreeMap<String, String>) -> Result<String> {
    let object = json!({ "data": data, "kind": "ConfigMap", "name": "" });
    let mut text = serde_json::to_string(&object)?;
    for (character, escaped) in [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ] {
        text = text.replace(character, escaped);
    }
    let digits = hex::encode(Sha256::digest(text));
    let letter = |digit| match digit {
        '0' => 'g',
        '1' => 'h',
        '3' => 'k',
        'a' => 'm',
        'e' => 't',
        other => other,
    };
    Ok(digits.chars().take(HASH_DIGITS).map(letter).collect())
}

/// The patches of a component.
fn patches_of(deploy: &Path, component: &str) -> Result<Vec<Patch>> {
    let folder = Path::new(component);
    let switches = switches(folder);
    let switch = switches.first().copied();
    let switch = switch.with_context(|| format!("component {component} has no switch"))?;
    let mut patches = Vec::new();
    for patch in Kustomization::read(&deploy.join(folder))?.patches {
        let path = deploy.join(folder).join(&patch.path);
        let operations = serde_saphyr::from_str(&files::read_text(&path)?)
            .with_context(|| format!("cannot parse {}", path.display()))?;
        patches.push(Patch {
            switch,
            target: patch.target,
            operations,
        });
    }
    Ok(patches)
}

impl Patch {
    fn is_of(&self, id: &ObjectId) -> bool {
        (&self.target.kind, &self.target.name) == (&id.kind, &id.name)
    }
}

impl Document {
    fn patch(&mut self, patches: &[Patch]) -> Result<()> {
        for patch in patches.iter().filter(|it| it.is_of(&self.manifest.id)) {
            let object = self.manifest.object.clone();
            let (switch, object) = self.patched.get_or_insert((patch.switch, object));
            ensure!(
                *switch == patch.switch,
                "{}: two components",
                self.manifest.id
            );
            for operation in &patch.operations {
                operation.apply(object)?;
            }
        }
        Ok(())
    }

    /// Has the volumes of pods name what was generated under another name.
    fn rename_config_maps(&mut self, renamed: &[(String, String)]) -> Result<()> {
        let volumes = self
            .manifest
            .object
            .pointer_mut("/spec/template/spec/volumes");
        let volumes = volumes.and_then(Value::as_array_mut);
        let mut is_changed = false;
        for volume in volumes.into_iter().flatten() {
            let Some(name) = volume.pointer_mut("/configMap/name") else {
                continue;
            };
            if let Some((_, after)) = renamed.iter().find(|(before, _)| name == before) {
                *name = json!(after);
                is_changed = true;
            }
        }
        if is_changed {
            self.text = print(&self.manifest.object)?;
        }
        Ok(())
    }

    /// Kustomize would set the namespace of an object that has none.
    fn check_namespace(&self, namespace: Option<&str>) -> Result<()> {
        let id = &self.manifest.id;
        let of_cluster = id.kind == "Namespace";
        if let Some(namespace) = namespace
            && !of_cluster
            && id.namespace != namespace
        {
            bail!("{id}: the kustomization sets namespace {namespace}, the object does not");
        }
        Ok(())
    }
}
