//! The files of a release in a directory.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use api::config::{ClusterImagePolicy, Release};
use release::inclusion::Cluster;
use release::inventory::{self, Entry, Inventory, Loader, ManifestDirectory};
use release::manifest::ObjectId;
use release::order::{fault_of_name, is_manifest_file};
use release::template::Values;
use release::verification::{self, SignatureTrust};
use release::version_hash::VersionHash;
use release::{
    METADATA_FILE, Manifest, Metadata, REFERENCES_FILE, References, Version, metadata, references,
};
use serde_json::Value;
use signatures::sigstore::SigstorePolicy;
use signatures::sigstore::policy::InvalidImagePolicy;

use version_update::failure::Failure;

/// Why a directory holds no release.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory cannot be read.
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("file {METADATA_FILE}")]
    Metadata(#[source] metadata::Error),
    #[error("file {REFERENCES_FILE}")]
    References(#[source] references::Error),
    /// The two files name two versions.
    #[error(
        "version from {REFERENCES_FILE} ({references}) differs from {METADATA_FILE} ({metadata})"
    )]
    Version {
        references: String,
        metadata: String,
    },
    /// Manifests are wrong.
    #[error("Error loading manifests from {directory}: {problems}")]
    Manifests {
        directory: PathBuf,
        problems: inventory::Problems,
    },
}

/// Why a release says of no other one whether it is signed.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// It has neither keyrings nor a policy of images.
    #[error(
        "verification is not possible: the running release has no ConfigMap with annotation {}",
        verification::ANNOTATION
    )]
    Find,
    /// Its manifest is not as it was.
    #[error("{}", .0.message)]
    Read(Box<Failure>),
    /// It says what cannot be used. The file comes last, as clients know it.
    #[error("{why}; file {0}", why = chassis::report::Chain(.1))]
    Parse(String, verification::Error),
    #[error("{0}: {1} says nothing")]
    Empty(String, ObjectId),
    /// A policy of images is none.
    #[error("{why}; file {0}", why = chassis::report::Chain(.1))]
    Form(String, serde_json::Error),
    /// It cannot be used.
    #[error("{why}; file {0}", why = chassis::report::Chain(.1))]
    Policy(String, InvalidImagePolicy),
}

/// Threads that parse the files of a release. Nothing is applied meanwhile, and a small control
/// plane has two cores.
const PARSERS: usize = 2;

/// Group and kind of policies of images.
const IMAGE_POLICY: (&str, &str) = ("config.openshift.io", "ClusterImagePolicy");

/// Whose signatures of releases count: each part that there is has to be content.
#[derive(Clone, Debug)]
pub struct ReleaseTrust {
    /// By OpenPGP.
    pub openpgp: Option<SignatureTrust>,
    /// Beside images, by sigstore.
    pub policies: Vec<SigstorePolicy>,
}

/// A release in a directory, without the objects: these are read when their turn comes.
#[derive(Debug)]
pub struct ReleaseFiles {
    pub root: PathBuf,
    values: Values,
    pub release: Release,
    /// Releases from which a cluster may return to it over a minor version; else why the list
    /// cannot be read.
    pub rollback_sources: Result<BTreeSet<Version>, metadata::Error>,
    /// Its manifests, for the cluster that it was loaded for.
    pub inventory: Inventory,
    /// What is left out though the cluster might be meant, and what stands there twice.
    pub warnings: Vec<String>,
}

/// Version and architecture of the release in a directory, its images, and its other metadata.
///
/// # Errors
/// [`Error`] but for [`Error::Manifests`].
fn describe(root: &Path, image: &str) -> Result<(Release, References, Metadata), Error> {
    let directory = root.join(release::RELEASE_MANIFESTS);
    let metadata =
        Metadata::parse(&read(&directory.join(METADATA_FILE))?).map_err(Error::Metadata)?;
    let references = read(&directory.join(REFERENCES_FILE))?;
    let references = References::parse(&references).map_err(Error::References)?;
    let version = metadata.version.to_string();
    if references.name != version {
        return Err(Error::Version {
            references: references.name,
            metadata: version,
        });
    }
    let release = Release {
        architecture: if metadata.is_multi() {
            "Multi".to_owned()
        } else {
            String::new()
        },
        version,
        image: image.to_owned(),
        url: metadata.url().unwrap_or_default().to_owned(),
        channels: metadata.channels().into_iter().map(str::to_owned).collect(),
    };
    Ok((release, references, metadata))
}

impl ReleaseFiles {
    /// What the release in a directory is called, without its manifests.
    ///
    /// # Errors
    /// [`Error`] but for [`Error::Manifests`].
    pub fn describe(root: &Path, image: &str) -> Result<Release, Error> {
        Ok(describe(root, image)?.0)
    }

    /// Loads the release `image` from a directory.
    ///
    /// Shape: `manifests` and `release-manifests` below `root`. The major version that manifests
    /// may ask for is the release's own.
    ///
    /// # Errors
    /// All of [`Error`].
    pub fn load(root: &Path, image: &str, cluster: &Cluster) -> Result<Self, Error> {
        match Self::load_in_part(root, image, cluster)? {
            (files, None) => Ok(files),
            (_, Some(fault)) => Err(fault),
        }
    }

    /// Does the same, and leaves out files and manifests that are wrong: they are in the second
    /// part, as [`Error::Manifests`].
    ///
    /// # Errors
    /// The other ones of [`Error`].
    pub fn load_in_part(
        root: &Path,
        image: &str,
        cluster: &Cluster,
    ) -> Result<(Self, Option<Error>), Error> {
        let (release, references, metadata) = describe(root, image)?;
        let images = references
            .tags
            .into_iter()
            .map(|(name, tag)| (name, tag.from));
        let values = Values {
            release_image: image.to_owned(),
            cluster_profile: cluster.profile.clone(),
            images: images.collect(),
        };
        let version: Option<Version> = release.version.parse().ok();
        let cluster = Cluster {
            major: version.map(|version| version.minor().0),
            ..cluster.clone()
        };
        let mut loader = Loader::new(&cluster);
        for directory in [ManifestDirectory::Own, ManifestDirectory::Release] {
            let path = root.join(directory.name());
            let (files, others) = files(&path)?;
            for (other, why) in others {
                loader.pass_over(&other, why);
            }
            let parse = |file: &str| {
                let bytes = read(&path.join(file))?;
                Ok(inventory::read_file(directory, file, &bytes, &values))
            };
            in_parallel(
                &files,
                parse,
                |file, parsed: Result<_, Error>| match parsed {
                    Ok(manifests) => loader.add(directory, file, manifests),
                    Err(error) => loader.fail(file, &chassis::report::Chain(&error).to_string()),
                },
            );
        }
        let (inventory, problems) = loader.finish_in_part();
        let fault = problems.map(|problems| Error::Manifests {
            directory: root.to_owned(),
            problems,
        });
        let left_out = metadata.left_out().into_iter();
        let left_out = left_out.map(|what| format!("{METADATA_FILE}: {what}"));
        let unusual = inventory.passed_over.iter();
        let unusual = unusual.filter(|(_, passed)| passed.is_unusual());
        let unusual = unusual.map(|(file, passed)| format!("{file}: {passed}"));
        let warnings = left_out.chain(unusual).collect();
        let rollback_sources = metadata.rollback_sources();
        let files = Self {
            root: root.to_owned(),
            values,
            release,
            rollback_sources,
            inventory,
            warnings,
        };
        Ok((files, fault))
    }

    /// Reads the object of a manifest.
    ///
    /// # Errors
    /// A failure that names the file, if it is not as it was when the release was loaded.
    pub fn object(&self, entry: &Entry) -> Result<Value, Failure> {
        Ok(self.manifest(entry)?.object)
    }

    /// Whose signatures of other releases count.
    ///
    /// # Errors
    /// Why none can be verified.
    pub fn trust(&self) -> Result<ReleaseTrust, TrustError> {
        let trust = ReleaseTrust {
            openpgp: self.openpgp()?,
            policies: self.policies()?,
        };
        if trust.openpgp.is_none() && trust.policies.is_empty() {
            return Err(TrustError::Find);
        }
        Ok(trust)
    }

    /// Its policies of images.
    ///
    /// # Errors
    /// One cannot be used.
    pub fn policies(&self) -> Result<Vec<SigstorePolicy>, TrustError> {
        let entries = self.inventory.entries.iter();
        let policies = entries.filter(|entry| {
            let id = (entry.id.group.as_str(), entry.id.kind.as_str());
            id == IMAGE_POLICY && !entry.is_deletion()
        });
        let policies = policies.map(|entry| {
            let manifest = self.manifest(entry);
            let manifest = manifest.map_err(|failure| TrustError::Read(Box::new(failure)))?;
            let policy: ClusterImagePolicy = serde_json::from_value(manifest.object)
                .map_err(|why| TrustError::Form(entry.file.clone(), why))?;
            SigstorePolicy::parse(&policy)
                .map_err(|why| TrustError::Policy(entry.file.clone(), why))
        });
        policies.collect()
    }

    /// Its images by name: its own, and those that it names.
    pub fn images(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = ("release", self.values.release_image.as_str());
        let images = self.values.images.iter();
        let images = images.map(|(name, image)| (name.as_str(), image.as_str()));
        [own].into_iter().chain(images)
    }

    /// Keyrings and stores of signatures.
    fn openpgp(&self) -> Result<Option<SignatureTrust>, TrustError> {
        let entries = &self.inventory.entries;
        let is_one = |entry: &&Entry| {
            (entry.id.group.as_str(), entry.id.kind.as_str()) == ("", "ConfigMap")
                && entry.annotations.contains_key(verification::ANNOTATION)
        };
        let Some(entry) = entries.iter().find(is_one) else {
            return Ok(None);
        };
        let manifest = self.manifest(entry);
        let manifest = manifest.map_err(|failure| TrustError::Read(Box::new(failure)))?;
        let file = entry.file.clone();
        match SignatureTrust::of(&[manifest]) {
            Some(Ok(trust)) => Ok(Some(trust)),
            Some(Err(why)) => Err(TrustError::Parse(file, why)),
            None => Err(TrustError::Empty(file, entry.id.clone())),
        }
    }

    fn manifest(&self, entry: &Entry) -> Result<Manifest, Failure> {
        let path = self.root.join(entry.directory.name()).join(&entry.file);
        let changed =
            |why: &str| Failure::integrity(format!("{}: {}: {why}", entry.file, entry.id));
        let bytes =
            read(&path).map_err(|error| changed(&chassis::report::Chain(&error).to_string()))?;
        let manifests = inventory::read_file(entry.directory, &entry.file, &bytes, &self.values);
        let manifests = manifests.map_err(|error| changed(&error.to_string()))?;
        let mut manifests = manifests.into_iter();
        let manifest = manifests.find(|manifest| manifest.document == entry.document);
        match manifest {
            Some(manifest)
                if VersionHash::default()
                    .with(manifest.raw().as_bytes())
                    .as_u64()
                    == entry.content =>
            {
                Ok(manifest)
            }
            _ => Err(changed("the file has changed since the release was loaded")),
        }
    }
}

/// Does something with each file in several threads, and takes what came of it in their order.
///
/// A thread is at most two files ahead, so that few of them are in memory.
fn in_parallel<T: Send>(
    files: &[String],
    parse: impl Fn(&str) -> T + Sync,
    mut take: impl FnMut(&str, T),
) {
    std::thread::scope(|scope| {
        let parse = &parse;
        let parser = |first| {
            let (sender, parsed) = mpsc::sync_channel(1);
            scope.spawn(move || {
                for file in files.iter().skip(first).step_by(PARSERS) {
                    if sender.send(parse(file)).is_err() {
                        break;
                    }
                }
            });
            parsed
        };
        let parsers: Vec<_> = (0..PARSERS).map(parser).collect();
        for (file, parsed) in files.iter().zip(parsers.iter().cycle()) {
            // A parser that panics ends the process.
            if let Ok(parsed) = parsed.recv() {
                take(file, parsed);
            }
        }
    });
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}

/// A file that is not read, and why.
type Unread = (String, &'static str);

/// Names of the files of manifests in a directory, by their bytes, and what else is there.
fn files(path: &Path) -> Result<(Vec<String>, Vec<Unread>), Error> {
    let failed = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let (mut names, mut others) = (Vec::new(), Vec::new());
    for file in std::fs::read_dir(path).map_err(failed)? {
        let file = file.map_err(failed)?;
        let is_directory = file.file_type().map_err(failed)?.is_dir();
        match file.file_name().into_string() {
            Ok(name) if is_directory => others.push((name, "it is a directory")),
            Ok(name) => match fault_of_name(&name) {
                Some(why) => others.push((name, why)),
                None => names.push(name),
            },
            Err(name) => {
                let name = name.to_string_lossy().into_owned();
                others.push((name, "its name is not UTF-8"));
            }
        }
    }
    names.retain(|name| is_manifest_file(name));
    names.sort_unstable();
    others.sort_unstable();
    Ok((names, others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_read_of_a_directory_is_named() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path();
        for name in ["b.yaml", "a.json", "c.YAML", METADATA_FILE, REFERENCES_FILE] {
            std::fs::File::create(path.join(name)).unwrap();
        }
        std::fs::create_dir(path.join("more.yaml")).unwrap();
        let (files, others) = files(path).unwrap();
        assert_eq!(files, ["a.json", "b.yaml"]);
        let ends = "its name ends in neither .yaml nor .yml nor .json";
        let expected = [("c.YAML", ends), ("more.yaml", "it is a directory")];
        let others: Vec<(&str, &str)> = others.iter().map(|(name, why)| (&**name, *why)).collect();
        assert_eq!(others, expected);
    }
}
