//! The objects that `slipway install` applies: those of the bundle, by component, as one document.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use install::component::InstallComponent;
use install::manifests::{InstallManifests, InstallObject, ObjectWith};
use release::PullSpec;
use serde_json::Value;

use crate::chart::objects;
use crate::chart::values::Switch;
use crate::images;

/// Folders of components that stand alone. What is in no folder of these belongs to
/// `machine-config`.
const ALONE: [&str; 3] = ["cvo", "managed-upgrade", "update-service"];

/// The file's name in a release.
pub fn name(version: &str) -> String {
    format!("slipway-{version}-manifests.json")
}

/// The document.
///
/// `images` has the pull spec of each of [`image_builder::component::COMPONENTS`], by name.
///
/// # Errors
/// A component has no pull spec, a file cannot be read, or `deploy/` asks kustomize for something
/// that is not imitated here.
pub fn of(
    deploy: &Path,
    version: &str,
    images: &BTreeMap<&str, PullSpec>,
) -> Result<InstallManifests> {
    let mut entries = Vec::new();
    for file in objects::of(deploy)? {
        for document in file.documents {
            let files = [&file.path].into_iter().chain(&document.also);
            let components = files.map(|path| components(path)).collect();
            let with = document.patched.map(|(switch, object)| {
                anyhow::Ok(ObjectWith {
                    component: component(switch),
                    object: resolve(&object, images)?,
                })
            });
            entries.push(InstallObject {
                components,
                object: resolve(&document.manifest.object, images)?,
                with: with.transpose()?,
            });
        }
    }
    let named = images.iter();
    let named = named.map(|(name, image)| ((*name).to_owned(), image.to_string()));
    Ok(InstallManifests::new(version, named.collect(), entries)?)
}

/// Components of a file.
fn components(path: &Path) -> BTreeSet<InstallComponent> {
    let switches = objects::switches(path).into_iter();
    let mut components: BTreeSet<_> = switches.map(component).collect();
    let folder = path.iter().next().unwrap_or_default();
    if !ALONE.iter().any(|alone| folder == *alone) {
        components.insert(InstallComponent::MachineConfig);
    }
    components
}

const fn component(switch: Switch) -> InstallComponent {
    match switch {
        Switch::ConfigServer => InstallComponent::ConfigServer,
        Switch::VersionOperator => InstallComponent::VersionOperator,
        Switch::ManagedUpgrade => InstallComponent::ManagedUpgrade,
        Switch::UpdateService => InstallComponent::UpdateService,
        Switch::Monitoring => InstallComponent::Monitoring,
    }
}

/// The object with pull specs for the names of components' images.
fn resolve(object: &Value, images: &BTreeMap<&str, PullSpec>) -> Result<Value> {
    let text = images::replace(&object.to_string(), |component| {
        Ok(images::of(images, component)?.to_string())
    })?;
    serde_json::from_str(&text).context("an image's name is no text of JSON")
}
