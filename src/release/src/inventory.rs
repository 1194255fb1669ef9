//! The manifests of a release that a cluster applies, in their order.

use std::collections::BTreeMap;
use std::fmt;

use crate::inclusion::{Cluster, Exclusion};
use crate::manifest::{self, DELETE, Manifest, ObjectId};
use crate::order::{Place, is_manifest_file};
use crate::template::{self, Values};
use crate::version_hash::VersionHash;
use crate::wellformed;

/// Annotation of an object that is made, and not changed afterwards.
pub const CREATE_ONLY: &str = "release.openshift.io/create-only";

/// A directory of a release image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ManifestDirectory {
    /// The version operator's own, with placeholders. Applied first.
    Own,
    Release,
}

impl ManifestDirectory {
    /// Its name in the image.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own => crate::MANIFESTS,
            Self::Release => crate::RELEASE_MANIFESTS,
        }
    }
}

/// A manifest to apply. The object itself is read from its file when its turn comes: the objects
/// of a release take 15 MB as text and several times that when parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Directory of its file.
    pub directory: ManifestDirectory,
    pub file: String,
    /// Which document of the file it is, from 1.
    pub document: usize,
    pub id: ObjectId,
    /// `apiVersion` of the object.
    pub api_version: String,
    pub annotations: BTreeMap<String, String>,
    /// Hash of its JSON. A file that changes on disk after the release was accepted shows by it.
    pub content: u64,
}

impl Entry {
    /// Run level and component, by the file's name.
    pub fn place(&self) -> Option<Place<'_>> {
        Place::of(&self.file)
    }

    /// Whether the object is removed.
    pub fn is_deletion(&self) -> bool {
        self.annotations.contains_key(DELETE)
    }

    /// Whether an object that exists stays unchanged.
    pub fn is_create_only(&self) -> bool {
        self.annotations
            .get(CREATE_ONLY)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }
}

/// Kind and name, such as `deployment "ns/name"`.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectId {
            kind,
            namespace,
            name,
            ..
        } = &self.id;
        write!(f, "{} \"", kind.to_lowercase())?;
        if !namespace.is_empty() {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{name}\"")
    }
}

/// What a file is made into manifests with.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It has an unknown placeholder.
    #[error("cannot fill in the placeholders: {0}")]
    Template(template::Error),
    /// It is not UTF-8, and has placeholders.
    #[error("it is not UTF-8")]
    Utf8,
    /// It is no list of manifests.
    #[error("{0}")]
    Manifest(manifest::Error),
}

/// Reads the manifests of one file, its placeholders filled in. A file that is not one of manifests
/// has none.
///
/// # Errors
/// [`FileError`].
pub fn read_file(
    directory: ManifestDirectory,
    file: &str,
    bytes: &[u8],
    values: &Values,
) -> Result<Vec<Manifest>, FileError> {
    if !is_manifest_file(file) {
        return Ok(Vec::new());
    }
    if directory == ManifestDirectory::Release {
        return Manifest::parse(file, bytes).map_err(FileError::Manifest);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| FileError::Utf8)?;
    let text = values.render(text).map_err(FileError::Template)?;
    Manifest::parse(file, text.as_bytes()).map_err(FileError::Manifest)
}

/// What is wrong with the manifests of a release: all of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", _0.join("; "))]
pub struct Problems(pub Vec<String>);

/// A manifest or file that is not applied, or not as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassedOver {
    /// The filter excludes the object.
    Manifest(ObjectId, Exclusion),
    /// The whole file, for this reason: it has placeholders of a newer release, or is none of
    /// manifests.
    File(String),
    /// A later file, which is named, describes the object again and counts. This manifest only
    /// makes an object that is missing.
    Again(ObjectId, String),
}

impl PassedOver {
    /// Whether it is none of a release's ordinary choices, so that a person should know.
    pub fn is_unusual(&self) -> bool {
        match self {
            Self::File(_) | Self::Again(..) => true,
            Self::Manifest(_, exclusion) => exclusion.is_malformed(),
        }
    }
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest(id, exclusion) => write!(f, "{id} is left out: {exclusion}"),
            Self::File(why) => write!(f, "the file is left out: {why}"),
            Self::Again(id, later) => {
                write!(f, "{id} is described again in {later}, which counts")
            }
        }
    }
}

/// The manifests of a release that a cluster applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// In the order of application.
    pub entries: Vec<Entry>,
    /// Hash of all of them.
    pub version_hash: VersionHash,
    /// By file: what is not applied, and why.
    pub passed_over: Vec<(String, PassedOver)>,
}

/// Takes a release file by file, so that few at a time are in memory.
#[derive(Debug)]
pub struct Loader<'a> {
    cluster: &'a Cluster,
    inventory: Inventory,
    /// Last file of each object.
    files: BTreeMap<ObjectId, String>,
    problems: Vec<String>,
}

impl<'a> Loader<'a> {
    /// Loads for this cluster.
    pub fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            inventory: Inventory {
                entries: Vec::new(),
                version_hash: VersionHash::default(),
                passed_over: Vec::new(),
            },
            files: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    /// Adds a file by what [`read_file`] made of it. Files come by directory, and in one directory
    /// by the bytes of their names.
    pub fn add(
        &mut self,
        directory: ManifestDirectory,
        file: &str,
        manifests: Result<Vec<Manifest>, FileError>,
    ) {
        match manifests {
            Ok(manifests) => {
                for manifest in manifests {
                    self.take(directory, &manifest);
                }
            }
            Err(error @ FileError::Template(_)) => self.pass_over(file, &error.to_string()),
            Err(error) => self.fail(file, &error.to_string()),
        }
    }

    /// Notes a file that is not read, and why.
    pub fn pass_over(&mut self, file: &str, why: &str) {
        let passed = PassedOver::File(why.to_owned());
        self.inventory.passed_over.push((file.to_owned(), passed));
    }

    /// Notes a file that cannot be had, and why.
    pub fn fail(&mut self, file: &str, why: &str) {
        self.problems.push(format!("{file}: {why}"));
    }

    fn take(&mut self, directory: ManifestDirectory, manifest: &Manifest) {
        let id = &manifest.id;
        let annotations: BTreeMap<String, String> = manifest
            .annotations()
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        if let Some(reason) = self.cluster.exclusion(id, &annotations) {
            let passed = PassedOver::Manifest(id.clone(), reason);
            self.inventory
                .passed_over
                .push((manifest.file.clone(), passed));
            return;
        }
        let faults = wellformed::faults(manifest);
        if !faults.is_empty() {
            let file = &manifest.file;
            let faults = faults.iter().map(|fault| format!("{file}: {id}: {fault}"));
            self.problems.extend(faults);
            return;
        }
        let place = format!("{}/{}", directory.name(), manifest.file);
        if let Some(earlier) = self.files.insert(id.clone(), place.clone()) {
            let again = PassedOver::Again(id.clone(), place);
            self.inventory.passed_over.push((earlier, again));
        }
        let raw = manifest.raw();
        self.inventory.version_hash = self.inventory.version_hash.with(raw.as_bytes());
        self.inventory.entries.push(Entry {
            directory,
            file: manifest.file.clone(),
            document: manifest.document,
            id: id.clone(),
            api_version: manifest.full_api_version(),
            annotations,
            content: VersionHash::default().with(raw.as_bytes()).as_u64(),
        });
    }

    /// The inventory of all files.
    ///
    /// # Errors
    /// [`Problems`], if any file or manifest is wrong.
    pub fn finish(self) -> Result<Inventory, Problems> {
        match self.finish_in_part() {
            (inventory, None) => Ok(inventory),
            (_, Some(problems)) => Err(problems),
        }
    }

    /// The inventory of what is right, and what is wrong with the rest.
    pub fn finish_in_part(self) -> (Inventory, Option<Problems>) {
        let problems = Some(self.problems).filter(|problems| !problems.is_empty());
        (self.inventory, problems.map(Problems))
    }
}

#[cfg(test)]
mod tests;
