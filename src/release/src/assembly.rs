//! The files of a release image, made from the images that it consists of.
//!
//! - `components`: which versions the images carry
//! - `os_streams`: which streams of OS images they are
//! - `problem`: what keeps images from being a release, with image and file

mod components;
mod os_streams;
mod problem;

use std::collections::{BTreeMap, BTreeSet};

use crate::component_versions::ComponentVersions;
use crate::digest::ImageDigest;
use crate::image_policy;
use crate::manifest::Manifest;
use crate::metadata::Metadata;
use crate::order::{fault_of_name, is_manifest_file, name_in_release, numbered};
use crate::payload::Files;
use crate::pull_spec::PullSpec;
use crate::references::{COPIED_LABELS, References, Tag, annotation};
use crate::substitution::{Images, Versions};
use crate::verification::{self, SignatureTrust};
use crate::{METADATA_FILE, OPERATOR_LABEL, REFERENCES_FILE};

pub use self::problem::{AssemblyProblem, Fault, ManifestSource};

/// The image that a release image stands on, which is always kept.
pub const BASE: &str = "cluster-version-operator";

/// What a release is made of.
#[derive(Clone, Debug)]
pub struct ReleaseRequest {
    /// Version, neighbours and metadata of the release.
    pub metadata: Metadata,
    /// Annotations of the release's images as a whole.
    pub annotations: BTreeMap<String, String>,
    /// Images by name.
    pub images: BTreeMap<String, ComponentImage>,
    /// Names of images that are kept although no manifest needs them.
    pub include: BTreeSet<String>,
    /// Versions of components that no image carries.
    pub component_versions: ComponentVersions,
    /// Whose signatures clusters ask for; none leaves that to the operators' manifests.
    pub verification: Option<SignatureTrust>,
    /// The file of the ClusterImagePolicy `openshift`; none leaves that to operators' manifests.
    pub image_policy: Option<Vec<u8>>,
    /// Whether placeholders of images that are missing stay.
    pub allow_missing_images: bool,
    /// Whether the release names the streams of OS images that labels of its images name.
    pub os_streams: bool,
}

/// An image that may become part of a release.
#[derive(Clone, Debug)]
pub struct ComponentImage {
    pub pull_spec: PullSpec,
    /// Annotations that it has by now, from an image stream or an earlier release.
    pub annotations: BTreeMap<String, String>,
    /// Labels of its configuration.
    pub labels: BTreeMap<String, String>,
    /// Files of its `/manifests`; none where it is no operator's.
    pub manifests: Option<Files>,
    /// Whether it was named for this release alone, in place of another.
    pub is_override: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembly {
    /// Files of `release-manifests` by name.
    pub files: Files,
    pub references: References,
    /// Where each file of manifests comes from.
    pub sources: BTreeMap<String, ManifestSource>,
    /// What a person should know and what keeps nothing from working.
    pub warnings: Vec<String>,
}

/// Whether labels say that an image is an operator's: any value that is not empty.
pub fn is_operator(labels: &BTreeMap<String, String>) -> bool {
    labels
        .get(OPERATOR_LABEL)
        .is_some_and(|value| !value.is_empty())
}

/// Makes the files of a release.
///
/// Operators and their files are taken in the order of their names; an image under several names is
/// one operator, by the first of them. An image is kept if it has
/// manifests, if an operator names it in `image-references`, if it is included, if it is of a
/// stream of OS images that the release names, or if it is the [`BASE`]. Placeholders of versions
/// are replaced in all files, those of images in files of operators that have `image-references`.
///
/// # Errors
/// All [`AssemblyProblem`]s, each with image and file.
///
/// Source: `docs/reference/cli.md`, "Release new".
pub fn assemble(request: &ReleaseRequest) -> Result<Assembly, Vec<AssemblyProblem>> {
    let mut problems = Vec::new();
    let operators = operators(request, &mut problems);
    let named: BTreeSet<&str> = operators
        .iter()
        .filter_map(|operator| operator.references.as_ref())
        .flat_map(|references| references.tags.keys().map(String::as_str))
        .collect();
    let is_kept = |name: &str, image: &ComponentImage| {
        let is_of_a_stream = request.os_streams && os_streams::is_of_a_stream(&image.labels);
        let is_asked_for = name == BASE || request.include.contains(name) || is_of_a_stream;
        image.manifests.is_some() || named.contains(name) || is_asked_for
    };
    let mut references = References {
        name: request.metadata.version.to_string(),
        annotations: request.annotations.clone(),
        tags: BTreeMap::new(),
    };
    let mut warnings = Vec::new();
    for (name, image) in &request.images {
        if is_kept(name, image) {
            let tag = tag(name, image, &mut warnings, &mut problems);
            references.tags.insert(name.clone(), tag);
        } else {
            warnings.push(format!(
                "image {name} is left out: it has no manifests, and no operator names it"
            ));
        }
    }
    for operator in &operators {
        for file in operator.files.keys() {
            if let Some(why) = fault_of_name(file) {
                let name = operator.name;
                warnings.push(format!(
                    "image {name}: file {file} is applied by no cluster: {why}"
                ));
            }
        }
    }
    let versions = components::versions(request, &references, &mut problems);

    let mut made = Made::default();
    for operator in &operators {
        operator.add_files(request, &references, &versions, &mut made, &mut problems);
    }
    if let Some(verification) = &request.verification {
        let source = ManifestSource::file(verification::FILE);
        match verification.print() {
            Ok(bytes) => made.add(verification::FILE, bytes, source, &mut problems),
            Err(error) => problems.push(source.problem(Fault::SignatureTrust(error))),
        }
    }
    if let Some(policy) = &request.image_policy {
        let source = ManifestSource::file(image_policy::FILE);
        made.add(image_policy::FILE, policy.clone(), source, &mut problems);
    }
    if made.files.is_empty() && problems.is_empty() {
        problems.push(ManifestSource::default().problem(Fault::NoOperator));
    }
    let mut files = made.files;
    if problems.is_empty()
        && request.os_streams
        && let Err(fault) = os_streams::write(request, &references, &mut files)
    {
        problems.push(ManifestSource::default().problem(fault));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    files.insert(METADATA_FILE.to_owned(), request.metadata.print());
    files.insert(REFERENCES_FILE.to_owned(), references.print());
    Ok(Assembly {
        files,
        references,
        sources: made.sources,
        warnings,
    })
}

struct Operator<'a> {
    name: &'a str,
    digest: &'a ImageDigest,
    files: &'a Files,
    references: Option<References>,
}

fn operators<'a>(
    request: &'a ReleaseRequest,
    problems: &mut Vec<AssemblyProblem>,
) -> Vec<Operator<'a>> {
    let mut operators: Vec<Operator<'_>> = Vec::new();
    for (name, image) in &request.images {
        let Some(files) = &image.manifests else {
            continue;
        };
        let digest = image.pull_spec.digest();
        let is_alias = |other: &Operator<'_>| other.digest == digest && other.files == files;
        if operators.iter().any(is_alias) {
            continue;
        }
        let has_manifests = files.keys().any(|file| is_manifest_file(file));
        if !has_manifests {
            problems.push(ManifestSource::image(name).problem(Fault::NoManifests));
        }
        let references = files
            .get(REFERENCES_FILE)
            .map(|bytes| References::parse(bytes));
        let references = references.transpose().unwrap_or_else(|error| {
            let source = ManifestSource::new(name, REFERENCES_FILE);
            problems.push(source.problem(Fault::References(error)));
            None
        });
        operators.push(Operator {
            name,
            digest,
            files,
            references,
        });
    }
    operators
}

/// Files that are made, with all manifests in them.
#[derive(Default)]
struct Made {
    files: Files,
    sources: BTreeMap<String, ManifestSource>,
    manifests: Vec<Manifest>,
}

impl Made {
    /// Adds a file under its name in the release, or a numbered one where that is taken.
    fn add(
        &mut self,
        name: &str,
        bytes: Vec<u8>,
        source: ManifestSource,
        problems: &mut Vec<AssemblyProblem>,
    ) {
        let mut free = name.to_owned();
        let mut number = 1;
        while self.files.contains_key(&free) {
            number += 1;
            free = numbered(name, number);
        }
        if is_manifest_file(&free) {
            match Manifest::parse(&free, &bytes) {
                Ok(manifests) => self.add_manifests(manifests, &source, problems),
                Err(error) => problems.push(source.problem(Fault::Manifest(error))),
            }
        }
        self.sources.insert(free.clone(), source);
        self.files.insert(free, bytes);
    }

    fn add_manifests(
        &mut self,
        new: Vec<Manifest>,
        source: &ManifestSource,
        problems: &mut Vec<AssemblyProblem>,
    ) {
        for manifest in &new {
            let is_same = |other: &&Manifest| {
                other.id == manifest.id && other.selection().may_meet(&manifest.selection())
            };
            if let Some(other) = self.manifests.iter().find(is_same) {
                let other = self.sources.get(&other.file).cloned().unwrap_or_default();
                let id = Box::new(manifest.id.clone());
                problems.push(source.problem(Fault::Twice { id, other }));
            }
        }
        self.manifests.extend(new);
    }
}

impl Operator<'_> {
    fn add_files(
        &self,
        request: &ReleaseRequest,
        references: &References,
        versions: &Versions,
        made: &mut Made,
        problems: &mut Vec<AssemblyProblem>,
    ) {
        let images = self.images(request, references, problems);
        // Which images it names, and so which versions these carry, is undetermined.
        let is_broken = self.references.is_none() && self.files.contains_key(REFERENCES_FILE);
        for (file, bytes) in self.files {
            if file == REFERENCES_FILE {
                continue;
            }
            let source = ManifestSource::new(self.name, file);
            let made_of = if is_broken {
                Ok(bytes.clone())
            } else {
                versions.substitute(&images.substitute(bytes))
            };
            match made_of {
                Ok(bytes) => made.add(&name_in_release(self.name, file), bytes, source, problems),
                Err(error) => problems.push(source.problem(Fault::Versions(error))),
            }
        }
    }

    /// Placeholders and pull specs of the images that the operator names.
    fn images<'a>(
        &'a self,
        request: &ReleaseRequest,
        references: &'a References,
        problems: &mut Vec<AssemblyProblem>,
    ) -> Images<'a> {
        let source = ManifestSource::new(self.name, REFERENCES_FILE);
        let mut triples = Vec::new();
        let named = self.references.iter().flat_map(|named| &named.tags);
        for (name, tag) in named {
            if let Some(image) = references.tags.get(name) {
                triples.push((name.as_str(), tag.from.as_str(), image.from.as_str()));
            } else if !request.allow_missing_images {
                problems.push(source.problem(Fault::MissingImage(name.clone())));
            }
        }
        Images::new(triples).unwrap_or_else(|error| {
            problems.push(source.problem(Fault::Ambiguous(error)));
            Images::default()
        })
    }
}

/// An image as the release names it.
fn tag(
    name: &str,
    image: &ComponentImage,
    warnings: &mut Vec<String>,
    problems: &mut Vec<AssemblyProblem>,
) -> Tag {
    let mut annotations = image.annotations.clone();
    for key in COPIED_LABELS {
        let label = image.labels.get(key).filter(|label| !label.is_empty());
        let Some(label) = label else { continue };
        if key == annotation::VERSIONS || key == annotation::VERSION_DISPLAY_NAMES {
            let (kept, left_out) = components::allowed(label);
            if let Some(source) = components::nameless(label) {
                let fault = Fault::ComponentVersions { key, source };
                problems.push(ManifestSource::image(name).problem(fault));
                continue;
            }
            if !left_out.is_empty() {
                let left_out = left_out.join(", ");
                warnings.push(format!("image {name}: label {key}: not among the components that may be named, and left out: {left_out}"));
            }
            if !kept.is_empty() {
                annotations.insert(key.to_owned(), kept);
            }
        } else {
            annotations.insert(key.to_owned(), label.clone());
        }
    }
    if image.is_override {
        annotations.insert(annotation::OVERRIDE.to_owned(), "true".to_owned());
    }
    Tag {
        from: image.pull_spec.to_string(),
        annotations,
    }
}

#[cfg(test)]
mod tests;
