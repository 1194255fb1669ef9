//! Which versions of components the images of a release carry.

use super::ReleaseRequest;
use super::problem::{AssemblyProblem, Fault, ManifestSource};
use crate::component_versions::{Carried, Error};
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

/// The first pair of a label without a name: what it is about is undetermined.
pub(super) fn nameless(label: &str) -> Option<Error> {
    let mut members = label.split(',').map(str::trim);
    let nameless = members.find(|member| member.starts_with('='));
    nameless.map(|member| Error::Pair(member.to_owned()))
}

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
    let (carried, faults) = Carried::of(references);
    for (image, source) in faults {
        let key = annotation::VERSIONS;
        problems
            .push(ManifestSource::image(&image).problem(Fault::ComponentVersions { key, source }));
    }
    for (component, images) in carried.conflicts() {
        let Some((other, other_version)) = images.first() else {
            continue;
        };
        for (image, version) in images
            .iter()
            .filter(|(_, version)| version != other_version)
        {
            problems.push(ManifestSource::image(image).problem(Fault::Conflict {
                component: component.to_owned(),
                version: version.to_string(),
                other: other.clone(),
                other_version: other_version.to_string(),
            }));
        }
    }
    let inconsistent = carried.several().map(|(component, images)| {
        let names = images.iter().map(|(image, _)| image.clone()).collect();
        (component.to_owned(), names)
    });
    let inconsistent = inconsistent.collect();
    let mut components = carried.versions;
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
