//! The file of manifests, as a release brings it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use install::manifests::InstallManifests;
use release::PullSpec;
use serde_json::Value;
use testbed::workspace;

/// The version of the manifests.
pub(crate) const VERSION: &str = "0.2.0";

/// Images by name that no registry has: where no pod runs.
pub(crate) fn no_images() -> Result<BTreeMap<&'static str, PullSpec>> {
    let all = image_builder::component::COMPONENTS.iter().enumerate();
    let named = all.map(|(number, it)| {
        let spec = format!("registry.example/slipway/{}@sha256:{number:064x}", it.name);
        Ok((it.name, spec.parse()?))
    });
    named.collect()
}

/// The manifests of this checkout.
pub(crate) fn of(version: &str, images: &BTreeMap<&str, PullSpec>) -> Result<Value> {
    let manifests = release_builder::manifests::of(&workspace().join("deploy"), version, images)?;
    Ok(serde_json::to_value(manifests)?)
}

/// Writes manifests into a folder; the file's path.
pub(crate) fn write(folder: &Path, manifests: &Value) -> Result<PathBuf> {
    let version = manifests["version"].as_str().context("no version")?;
    // A test with other manifests than a release may have tests nothing.
    InstallManifests::parse(manifests.to_string().as_bytes())?;
    let path = folder.join(format!("manifests-{version}.json"));
    std::fs::write(&path, manifests.to_string())?;
    Ok(path)
}

/// The object of this kind and name.
pub(crate) fn object<'a>(
    manifests: &'a mut Value,
    kind: &str,
    name: &str,
) -> Result<&'a mut Value> {
    let objects = manifests["objects"].as_array_mut();
    let mut objects = objects
        .context("no objects")?
        .iter_mut()
        .map(|it| &mut it["object"]);
    let found = objects.find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
    found.with_context(|| format!("there is no {kind} {name}"))
}

/// Removes an object.
pub(crate) fn remove(manifests: &mut Value, kind: &str, name: &str) -> Result<()> {
    let objects = manifests["objects"].as_array_mut().context("no objects")?;
    let before = objects.len();
    objects.retain(|it| {
        let object = &it["object"];
        object["kind"] != kind || object["metadata"]["name"] != name
    });
    anyhow::ensure!(objects.len() + 1 == before, "there is no {kind} {name}");
    Ok(())
}
