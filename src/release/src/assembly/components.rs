//! Which versions of components the images of a release carry.

use std::collections::{BTreeMap, BTreeSet};

use super::ReleaseRequest;
use super::problem::{AssemblyProblem, Fault, ManifestSource};
use crate::component_versions::{self, ComponentVersion, ComponentVersions};
use crate::references::{References, annotation};
use crate::substitution::Versions;

/// Components whose versions an image's labels may name for the release.
const ALLOWED: [&str; 6] = [
    "crio",
    "kernel",
    "kubectl",
    "kubernetes",
    "kubernetes-tests",
    "machine-os",
];

/// May differ between images: a release may hold several operating systems.
const MAY_DIFFER: &str = "machine-os";

/// Is built into many images, and counts from these only.
const KUBECTL: &str = "kubectl";
const KUBECTL_IMAGES: [&str; 2] = ["cli", "cli-artifacts"];

/// The members of a label whose component may be named, and the names of the others.
pub(super) fn allowed(label: &str) -> (String, Vec<&str>) {
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for member in label.split(',').map(str::trim) {
        match member.split_once('=') {
            Some((name, _)) if !ALLOWED.contains(&name) => left_out.push(name),
            // What is no pair is found where all are read.
            _ => kept.push(member),
        }
    }
    (kept.join(","), left_out)
}

/// Versions by component, of all images and of the request.
///
/// A component in two versions is a problem, except for the operating system's, which cannot be put
/// into manifests then.
pub(super) fn versions(
    request: &ReleaseRequest,
    references: &References,
    problems: &mut Vec<AssemblyProblem>,
) -> Versions {
    let mut components = ComponentVersions::new();
    let mut first: BTreeMap<String, &str> = BTreeMap::new();
    let mut inconsistent: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (image, tag) in &references.tags {
        let carried = match carried(&tag.annotations) {
            Ok(carried) => carried,
            Err(fault) => {
                problems.push(ManifestSource::image(image).problem(fault));
                continue;
            }
        };
        for (component, version) in carried {
            if component == KUBECTL && !KUBECTL_IMAGES.contains(&image.as_str()) {
                continue;
            }
            let Some(known) = components.get(&component) else {
                first.insert(component.clone(), image);
                components.insert(component, version);
                continue;
            };
            if known.version == version.version {
                continue;
            }
            let other = first.get(&component).copied().unwrap_or_default();
            if component == MAY_DIFFER {
                let images = inconsistent.entry(component).or_default();
                images.extend([other.to_owned(), image.clone()]);
            } else {
                problems.push(ManifestSource::image(image).problem(Fault::Conflict {
                    other_version: known.version.to_string(),
                    version: version.version.to_string(),
                    other: other.to_owned(),
                    component,
                }));
            }
        }
    }
    for (component, version) in &request.component_versions {
        components
            .entry(component.clone())
            .or_insert_with(|| version.clone());
    }
    Versions {
        release: Some(request.metadata.version.without_architecture()),
        components,
        inconsistent,
    }
}

fn carried(
    annotations: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, ComponentVersion>, Fault> {
    let text = |key| annotations.get(key).map_or("", String::as_str);
    let key = annotation::VERSIONS;
    component_versions::parse(text(key), text(annotation::VERSION_DISPLAY_NAMES))
        .map_err(|source| Fault::ComponentVersions { key, source })
}
