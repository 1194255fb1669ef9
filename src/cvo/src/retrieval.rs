//! How another release comes to this program's disk.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use images::image::Platform;
use images::{Credentials, Image, ImageLocation, Stores, content, credentials};
use md5::{Digest as _, Md5};
use release::{MANIFESTS, METADATA_FILE, REFERENCES_FILE, RELEASE_MANIFESTS};
use tokio::task::JoinError;
use tokio::time::Instant;

use crate::retrieval_job::{RetrievalJob, RetrievalJobError};

#[derive(Debug, Clone)]
pub struct RetrievalSettings {
    /// Directory of releases.
    pub directory: PathBuf,
    pub method: RetrievalMethod,
    /// How long verification and retrieval may take.
    pub limit: Duration,
}

/// By whom an image is pulled.
#[derive(Debug, Clone)]
pub enum RetrievalMethod {
    /// By the container runtime, for a Job on this node.
    Job(RetrievalJob),
    /// By this program.
    Pull {
        /// File with credentials for registries.
        credentials: Option<PathBuf>,
        /// Whether registries without TLS are taken.
        is_insecure: bool,
    },
}

/// Why a release is not on disk.
#[derive(Debug, thiserror::Error)]
pub enum RetrievalError {
    #[error(transparent)]
    Job(#[from] RetrievalJobError),
    /// Other releases cannot be removed.
    #[error("directory {}", .0.display())]
    Tidy(PathBuf, #[source] io::Error),
    /// The credentials cannot be read.
    #[error("{}", .0.display())]
    ReadCredentials(PathBuf, #[source] io::Error),
    /// They are none.
    #[error("{}", .0.display())]
    ParseCredentials(PathBuf, #[source] credentials::Error),
    /// The pull spec is none.
    #[error(transparent)]
    ParseLocation(images::location::Error),
    /// There is no place to unpack the image.
    #[error("{}", .0.display())]
    MakeDirectory(PathBuf, #[source] io::Error),
    /// The image cannot be pulled or unpacked.
    #[error(transparent)]
    Pull(images::Error),
    #[error(transparent)]
    Unpack(JoinError),
    /// The files cannot be moved to their place.
    #[error("{}", .0.display())]
    Move(PathBuf, #[source] io::Error),
    #[error("the image was not there within {} s", .0.as_secs())]
    Await(Duration),
    /// The image is no release.
    #[error(
        "{0} is no release image: {MANIFESTS}, {RELEASE_MANIFESTS}, {METADATA_FILE} and \
         {REFERENCES_FILE} must be in it"
    )]
    FindParts(String),
}

impl RetrievalSettings {
    /// Directory of a release: by the hash of its pull spec.
    pub fn root(&self, image: &str) -> PathBuf {
        let hash = Md5::digest(image.as_bytes());
        self.directory.join(BASE64_URL_SAFE_NO_PAD.encode(hash))
    }

    /// Has a release on disk, and returns its directory. `kept` is the directory of the running
    /// release; all others are removed. `began` is when its verification began.
    ///
    /// # Errors
    /// All of [`RetrievalError`].
    pub async fn retrieve(
        &self,
        access: &cluster::access::Access,
        version: &str,
        image: &str,
        kept: &Path,
        began: Instant,
    ) -> Result<PathBuf, RetrievalError> {
        let root = self.root(image);
        if is_complete(&root) {
            return Ok(root);
        }
        let work = async {
            match &self.method {
                RetrievalMethod::Job(job) => {
                    let roots = (root.as_path(), kept);
                    let ran = job.run(access, version, image, &self.directory, roots);
                    Ok(ran.await?)
                }
                RetrievalMethod::Pull {
                    credentials,
                    is_insecure,
                } => {
                    self.tidy(kept)?;
                    pull(
                        image,
                        credentials.as_deref(),
                        *is_insecure,
                        &self.directory,
                        &root,
                    )
                    .await
                }
            }
        };
        match tokio::time::timeout_at(began + self.limit, work).await {
            Ok(result) => result?,
            Err(_) => return Err(RetrievalError::Await(self.limit)),
        }
        if is_complete(&root) {
            Ok(root)
        } else {
            Err(RetrievalError::FindParts(image.to_owned()))
        }
    }

    /// Removes releases that are not needed any more.
    fn tidy(&self, kept: &Path) -> Result<(), RetrievalError> {
        let failed = |error| RetrievalError::Tidy(self.directory.clone(), error);
        std::fs::create_dir_all(&self.directory).map_err(failed)?;
        for entry in std::fs::read_dir(&self.directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path != kept && path.is_dir() {
                std::fs::remove_dir_all(&path).map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// Whether a directory holds a whole release.
fn is_complete(root: &Path) -> bool {
    let release = root.join(RELEASE_MANIFESTS);
    root.join(MANIFESTS).is_dir()
        && release.join(METADATA_FILE).is_file()
        && release.join(REFERENCES_FILE).is_file()
}

/// Credentials of a file; none where none is named.
///
/// # Errors
/// It cannot be read, or holds none.
pub(crate) fn read_credentials(file: Option<&Path>) -> Result<Credentials, RetrievalError> {
    let Some(path) = file else {
        return Ok(Credentials::default());
    };
    match std::fs::read(path) {
        Ok(bytes) => Credentials::parse(&bytes)
            .map_err(|error| RetrievalError::ParseCredentials(path.to_owned(), error)),
        Err(error) => Err(RetrievalError::ReadCredentials(path.to_owned(), error)),
    }
}

/// Pulls an image by its digest, and moves its manifests to `root` when all are there.
async fn pull(
    image: &str,
    credentials: Option<&Path>,
    is_insecure: bool,
    directory: &Path,
    root: &Path,
) -> Result<(), RetrievalError> {
    let credentials = read_credentials(credentials)?;
    let location: ImageLocation = image.parse().map_err(RetrievalError::ParseLocation)?;
    let temporary = tempfile::tempdir_in(directory);
    let temporary =
        temporary.map_err(|error| RetrievalError::MakeDirectory(directory.to_owned(), error))?;
    let (to, root) = (temporary.path().to_owned(), root.to_owned());
    let stores = Stores::new(credentials, is_insecure);
    // Layers are unpacked without a pause: not on the thread that renews the lease.
    let runtime = tokio::runtime::Handle::current();
    let work = move || {
        runtime.block_on(async {
            let image = Image::open(&stores, &location, &Platform::of_this_machine()).await?;
            for name in [MANIFESTS, RELEASE_MANIFESTS] {
                let target = to.join(name);
                std::fs::create_dir_all(&target).map_err(|source| images::Error::File {
                    image: location.to_string(),
                    what: "make",
                    path: target.clone(),
                    source,
                })?;
                content::unpack(&stores, &image, name, &target).await?;
            }
            Ok::<_, images::Error>(to)
        })
    };
    let unpacked = tokio::task::spawn_blocking(work).await;
    let unpacked = unpacked.map_err(RetrievalError::Unpack)?;
    let to = unpacked.map_err(RetrievalError::Pull)?;
    std::fs::rename(&to, &root).map_err(|error| RetrievalError::Move(root, error))?;
    // It has moved: there is nothing to remove.
    drop(temporary.keep());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_has_the_directory_of_its_pull_spec() {
        let settings = RetrievalSettings {
            directory: "/etc/cvo/updatepayloads".into(),
            method: RetrievalMethod::Pull {
                credentials: None,
                is_insecure: false,
            },
            limit: Duration::from_secs(1),
        };
        assert_eq!(
            settings.root("image/image:1"),
            Path::new("/etc/cvo/updatepayloads")
                .join(BASE64_URL_SAFE_NO_PAD.encode(Md5::digest(b"image/image:1")))
        );
    }

    #[test]
    fn release_is_complete_with_all_four_parts() {
        let root = tempfile::tempdir().unwrap();
        let release = root.path().join(RELEASE_MANIFESTS);
        std::fs::create_dir_all(&release).unwrap();
        for file in [METADATA_FILE, REFERENCES_FILE] {
            assert!(!is_complete(root.path()));
            std::fs::File::create(release.join(file)).unwrap();
        }
        assert!(!is_complete(root.path()));
        std::fs::create_dir(root.path().join(MANIFESTS)).unwrap();
        assert!(is_complete(root.path()));
    }
}
