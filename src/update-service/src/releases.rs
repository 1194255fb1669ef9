//! Releases, read from a registry or a directory. What was read once is not read again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use chassis::report::Chain;
use futures::{StreamExt as _, stream};
use images::budget::BudgetLimits;
use images::content::{self, Layers};
use images::{Credentials, Image, ImageLocation, Stores};
use release::{ImageDigest, METADATA_FILE, Metadata, RELEASE_LABEL, RELEASE_MANIFESTS, Version};
use tokio::sync::Semaphore;
use update_graph::{ScrapedRelease, SourceProblem};

use crate::settings::{RegistryAccess, ReleaseSettings};

/// Largest file of metadata. That of a release with a thousand neighbours has 20 kB.
const METADATA_MAX_BYTES: u64 = 1 << 20;

/// What reading one image may cost. A person who may push an image decides what is in it, and
/// [`ReleaseSettings::concurrency`] of them are read at once in 256 MiB of memory.
const LIMITS: BudgetLimits = BudgetLimits {
    layer_bytes: (ROOM_MIB as u64) << 20,
    // A release is made upon an image of an OS, whose layers may have to be passed over.
    unpacked_bytes: 4 << 30,
    entries: 500_000,
    // Of the directory of manifests alone; there are a thousand.
    paths_bytes: 1 << 20,
    kept_bytes: METADATA_MAX_BYTES,
};

/// Mebibytes of layers that lie in the directory of temporary files at once: half of what the
/// deployment gives it.
const ROOM_MIB: u32 = 1024;

/// Between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Tags with these ends are signatures and other attachments.
const ATTACHMENTS: [&str; 3] = [".sig", ".att", ".sbom"];

/// A release that was read, as small as it can be kept: read, the neighbours of 3000 releases take
/// 40 MB. Its metadata is the text of the file, which releases of one version share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRelease {
    version: Version,
    architecture: String,
    digest: ImageDigest,
    repository: Arc<str>,
    metadata: Arc<[u8]>,
}

impl KnownRelease {
    /// A release with this metadata file.
    ///
    /// # Errors
    /// The file is none.
    pub fn new(
        architecture: String,
        repository: &Arc<str>,
        digest: ImageDigest,
        metadata: Arc<[u8]>,
    ) -> Result<Self, release::metadata::Error> {
        Ok(Self {
            version: Metadata::parse(&metadata)?.version,
            architecture,
            digest,
            repository: Arc::clone(repository),
            metadata,
        })
    }

    /// Its version, without an architecture.
    pub const fn version(&self) -> &Version {
        &self.version
    }

    /// Its architecture, in the words of images.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// The release as its file says it.
    ///
    /// # Errors
    /// Never: the file was read before.
    pub fn read(&self) -> Result<ScrapedRelease, release::metadata::Error> {
        Ok(ScrapedRelease {
            architecture: self.architecture.clone(),
            payload: format!("{}@{}", self.repository, self.digest),
            digest: self.digest.clone(),
            metadata: Metadata::parse(&self.metadata)?,
        })
    }
}

#[derive(Clone, Debug)]
enum Found {
    Release(Arc<KnownRelease>),
    /// No release: it has no label of one.
    Other,
    /// One architecture's part of a release for several, which has an image of its own.
    Part,
    /// It says that it is a release, and cannot be read.
    Bad {
        field: String,
        reason: String,
    },
}

#[derive(Debug)]
pub struct ReleaseSource {
    settings: ReleaseSettings,
    stores: Stores,
    /// By digest: an image does not change. A bad one is in it too, and is not read again.
    found: Mutex<BTreeMap<ImageDigest, Found>>,
    /// Metadata files of releases in `found`, each once.
    files: Mutex<BTreeSet<Arc<[u8]>>>,
    repository: Arc<str>,
    /// What each place of an image was last.
    last: Mutex<BTreeMap<String, ImageDigest>>,
    /// Room for layers, in mebibytes.
    room: Semaphore,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct ScrapedReleases {
    /// Releases, in the order of their places.
    pub releases: Vec<Arc<KnownRelease>>,
    pub problems: Vec<SourceProblem>,
}

/// Access to registries.
///
/// # Errors
/// A file cannot be read.
pub fn stores(settings: &RegistryAccess) -> anyhow::Result<Stores> {
    let read = |path: &Path| {
        std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let credentials = match &settings.credentials {
        Some(path) => {
            Credentials::parse(&read(path)?).with_context(|| format!("file {}", path.display()))?
        }
        None => Credentials::default(),
    };
    let mut stores =
        Stores::new(credentials, settings.is_insecure).with_patience(settings.patience);
    if let Some(path) = &settings.authority {
        stores = stores.trusting(read(path)?);
    }
    Ok(stores)
}

impl ReleaseSource {
    /// A source that has read nothing.
    ///
    /// # Errors
    /// Credentials or authority cannot be read.
    pub fn new(settings: ReleaseSettings) -> anyhow::Result<Self> {
        Ok(Self {
            stores: stores(&settings.registries)?,
            repository: settings.repository.as_str().into(),
            settings,
            found: Mutex::default(),
            files: Mutex::default(),
            last: Mutex::default(),
            room: Semaphore::new(ROOM_MIB as usize),
        })
    }

    /// Reads what is new. An image that cannot be read now counts as what it was last.
    ///
    /// # Errors
    /// No place lists its images.
    pub async fn scrape(&self) -> anyhow::Result<ScrapedReleases> {
        let (images, mut problems) = self.images().await?;
        let wanted = images.into_iter().filter(|image| {
            let name = image.to_string();
            ATTACHMENTS.iter().all(|end| !name.ends_with(end))
        });
        let read = stream::iter(wanted.map(|image| async move {
            let name = image.to_string();
            let digest = self.read(&image).await;
            (name, digest)
        }));
        let mut read: Vec<(String, anyhow::Result<ImageDigest>)> = read
            .buffer_unordered(self.settings.concurrency)
            .collect()
            .await;
        read.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut scraped = ScrapedReleases::default();
        let mut others = BTreeSet::new();
        let mut digests = lock(&self.last);
        let names: BTreeSet<&String> = read.iter().map(|(name, _)| name).collect();
        digests.retain(|name, _| names.contains(name));
        let mut found = lock(&self.found);
        let mut counted = BTreeSet::new();
        for (name, digest) in read {
            let digest = match digest {
                Ok(digest) => {
                    digests.insert(name.clone(), digest.clone());
                    digest
                }
                Err(error) => {
                    let before = digests.get(&name).cloned();
                    let what = if before.is_some() {
                        "what it was before counts"
                    } else {
                        "it is left out"
                    };
                    let reason = format!("{}; {what}", Chain(error.as_ref()));
                    problems.push(SourceProblem::new(name.as_str(), "", reason));
                    let Some(before) = before else { continue };
                    before
                }
            };
            match found.get(&digest) {
                Some(Found::Release(release)) => {
                    if counted.insert(digest) {
                        scraped.releases.push(Arc::clone(release));
                    }
                }
                Some(Found::Bad { field, reason }) => {
                    problems.push(SourceProblem::new(name, field.as_str(), reason.as_str()));
                }
                Some(Found::Other) => {
                    others.insert(name);
                }
                Some(Found::Part) | None => {}
            }
        }
        problems.extend(no_releases(&others));
        scraped.problems = problems;
        // What no place has any more is forgotten: tags come and go as long as the program runs.
        let present: BTreeSet<&ImageDigest> = digests.values().collect();
        found.retain(|digest, _| present.contains(digest));
        lock(&self.files).retain(|file| Arc::strong_count(file) > 1);
        Ok(scraped)
    }

    /// All images, of the first place that lists them.
    async fn images(&self) -> anyhow::Result<(Vec<ImageLocation>, Vec<SourceProblem>)> {
        let mut problems = Vec::new();
        let mut last = None;
        for place in &self.settings.places {
            match self
                .tried(async || Ok(self.stores.images(place).await?))
                .await
            {
                Ok(images) => return Ok((images, problems)),
                Err(error) => {
                    let reason = format!("{}; the next place is asked", Chain(error.as_ref()));
                    problems.push(SourceProblem::new(place.to_string(), "", reason));
                    last = Some(error);
                }
            }
        }
        let error = last.unwrap_or_else(|| anyhow!("there is no place"));
        Err(error.context("no place lists its images"))
    }

    /// Reads an image, unless its digest was read before.
    async fn read(&self, image: &ImageLocation) -> anyhow::Result<ImageDigest> {
        let digest = self
            .tried(async || Ok(self.stores.digest(image).await?))
            .await?;
        if lock(&self.found).contains_key(&digest) {
            return Ok(digest);
        }
        let by_digest = image.with_digest(&digest);
        let found = self
            .tried(async || self.look(&by_digest, &digest).await)
            .await?;
        lock(&self.found).insert(digest.clone(), found);
        Ok(digest)
    }

    async fn look(&self, image: &ImageLocation, digest: &ImageDigest) -> anyhow::Result<Found> {
        let opened = match Image::open_first(&self.stores, image).await {
            Ok(opened) => opened,
            Err(error) => return bad_or_failed("manifest", error),
        };
        if opened
            .labels()
            .get(RELEASE_LABEL)
            .is_none_or(String::is_empty)
        {
            return Ok(Found::Other);
        }
        let largest = opened.layer_sizes().max();
        let room = largest.unwrap_or_default().div_ceil(1 << 20);
        let room = u32::try_from(room).unwrap_or(ROOM_MIB).min(ROOM_MIB);
        let _room = self.room.acquire_many(room).await?;
        let metadata = content::file(
            &self.stores,
            &opened,
            (RELEASE_MANIFESTS, METADATA_FILE),
            Layers::Uppermost,
            METADATA_MAX_BYTES,
            LIMITS,
        )
        .await;
        let file = format!("{RELEASE_MANIFESTS}/{METADATA_FILE}");
        let bytes = match metadata {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                let reason = "there is no such file".to_owned();
                return Ok(Found::Bad {
                    field: file,
                    reason,
                });
            }
            Err(error) => return bad_or_failed(RELEASE_MANIFESTS, error),
        };
        let metadata = match Metadata::parse(&bytes) {
            Ok(metadata) => metadata,
            Err(error) => {
                let reason = Chain(&error).to_string();
                return Ok(Found::Bad {
                    field: file,
                    reason,
                });
            }
        };
        let architecture = match opened.list() {
            Some(list) if list.platforms.len() > 1 => "multi".to_owned(),
            _ if metadata.is_multi() => return Ok(Found::Part),
            _ => opened.platform().architecture,
        };
        let file = self.shared(&bytes);
        let release = KnownRelease::new(architecture, &self.repository, digest.clone(), file)?;
        Ok(Found::Release(Arc::new(release)))
    }

    /// The one copy of a file.
    fn shared(&self, bytes: &[u8]) -> Arc<[u8]> {
        let mut files = lock(&self.files);
        if let Some(shared) = files.get(bytes) {
            return Arc::clone(shared);
        }
        let file: Arc<[u8]> = bytes.into();
        files.insert(Arc::clone(&file));
        file
    }

    /// Tries until it succeeds, or as often as the settings say.
    async fn tried<T>(&self, work: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let mut attempt = 1;
        loop {
            match work().await {
                Err(error) if attempt < self.settings.registries.attempts && is_worth(&error) => {
                    tracing::debug!(error = %Chain(error.as_ref()), attempt, "asking again");
                    tokio::time::sleep(PAUSE).await;
                    attempt += 1;
                }
                result => return result,
            }
        }
    }
}

/// Whether asking again may help: not where an image or a repository is not there.
fn is_worth(error: &anyhow::Error) -> bool {
    !matches!(
        error.downcast_ref::<images::Error>(),
        Some(images::Error::Missing { .. } | images::Error::File { .. })
    )
}

/// A wrong image stays wrong; a request to a registry that failed is repeated.
fn bad_or_failed(field: &str, error: images::Error) -> anyhow::Result<Found> {
    if error.is_of_image() {
        return Ok(Found::Bad {
            field: field.to_owned(),
            reason: Chain(&error).to_string(),
        });
    }
    Err(error.into())
}

/// One problem for all images that are no releases: a mirror has many.
fn no_releases(names: &BTreeSet<String>) -> Option<SourceProblem> {
    let first = names.first()?;
    let reason = format!(
        "{} images have no label {RELEASE_LABEL} and are left out",
        names.len()
    );
    Some(SourceProblem::new(first.as_str(), "config.Labels", reason))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod tests;
