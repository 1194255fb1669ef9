//! How another release comes to this program's disk.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chassis::report::Chain;
use images::image::Platform;
use images::{Credentials, Image, ImageLocation, Stores, content};
use md5::{Digest as _, Md5};
use release::{MANIFESTS, METADATA_FILE, REFERENCES_FILE, RELEASE_MANIFESTS};
use tokio::time::Instant;

use crate::retrieval_job::RetrievalJob;

/// How releases are retrieved.
#[derive(Debug, Clone)]
pub struct RetrievalSettings {
    /// Directory of releases.
    pub directory: PathBuf,
    /// By whom.
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
    /// Why it could not be had, in one sentence.
    pub async fn retrieve(
        &self,
        access: &cluster::access::Access,
        version: &str,
        image: &str,
        kept: &Path,
        began: Instant,
    ) -> Result<PathBuf, String> {
        let root = self.root(image);
        if is_complete(&root) {
            return Ok(root);
        }
        let work = async {
            match &self.method {
                RetrievalMethod::Job(job) => {
                    let roots = (root.as_path(), kept);
                    job.run(access, version, image, &self.directory, roots)
                        .await
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
            Err(_) => {
                return Err(format!(
                    "the image was not there within {} s",
                    self.limit.as_secs()
                ));
            }
        }
        if is_complete(&root) {
            Ok(root)
        } else {
            Err(format!(
                "{image} is no release image: {MANIFESTS}, {RELEASE_MANIFESTS}, {METADATA_FILE} and \
                 {REFERENCES_FILE} must be in it"
            ))
        }
    }

    /// Removes releases that are not needed any more.
    fn tidy(&self, kept: &Path) -> Result<(), String> {
        let failed = |error: io::Error| format!("directory {}: {error}", self.directory.display());
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

/// Pulls an image by its digest, and moves its manifests to `root` when all are there.
async fn pull(
    image: &str,
    credentials: Option<&Path>,
    is_insecure: bool,
    directory: &Path,
    root: &Path,
) -> Result<(), String> {
    let said = |error: &dyn std::error::Error| Chain(error).to_string();
    let credentials = match credentials {
        None => Credentials::default(),
        Some(path) => {
            let bytes = std::fs::read(path);
            let bytes = bytes.map_err(|error| format!("{}: {error}", path.display()))?;
            Credentials::parse(&bytes)
                .map_err(|error| format!("{}: {}", path.display(), said(&error)))?
        }
    };
    let location: ImageLocation = image.parse().map_err(|error| said(&error))?;
    let temporary = tempfile::tempdir_in(directory);
    let temporary = temporary.map_err(|error| format!("{}: {error}", directory.display()))?;
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
    let unpacked = unpacked.map_err(|error| said(&error))?;
    let to = unpacked.map_err(|error| said(&error))?;
    let moved = std::fs::rename(&to, &root);
    moved.map_err(|error| format!("{}: {error}", root.display()))?;
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
