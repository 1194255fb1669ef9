//! Registries and layout directories, by one set of verbs.

use std::io;
use std::time::Duration;

use oci_client::Reference;
use oci_spec::image::{Descriptor, MediaType};
use release::ImageDigest;

use crate::blob::Blob;
use crate::built::Built;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::layout::Layout;
use crate::location::ImageLocation;
use crate::registry::Registries;

pub use crate::registry::ImageProxies;

/// Access to images wherever they are.
#[derive(Debug)]
pub struct Stores {
    registries: Registries,
}

impl Stores {
    /// With these credentials. Where it is insecure, registries without TLS or with an unknown
    /// certificate are taken, too.
    pub fn new(credentials: Credentials, is_insecure: bool) -> Self {
        Self {
            registries: Registries::new(credentials, is_insecure),
        }
    }

    pub(crate) const fn registries(&self) -> &Registries {
        &self.registries
    }

    /// Takes registries whose certificate this authority has signed, too.
    ///
    /// Shape: `authority` is PEM.
    #[must_use]
    pub fn trusting(mut self, authority: Vec<u8>) -> Self {
        self.registries.trust(authority);
        self
    }

    /// Takes these registries and repositories without TLS or with an unknown certificate, too.
    #[must_use]
    pub fn insecure_at(mut self, scopes: Vec<String>) -> Self {
        self.registries.allow_insecure(scopes);
        self
    }

    /// Reaches registries through these proxies.
    #[must_use]
    pub fn through(mut self, proxies: ImageProxies) -> Self {
        self.registries.go_through(proxies);
        self
    }

    /// Waits so long for a connection, and for a registry that is silent.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.registries.set_patience(patience);
        self
    }

    /// All images of the location's repository, by tag, or of its directory, by digest.
    ///
    /// # Errors
    /// [`Error`]: the registry does not list them, or the directory is no layout.
    pub async fn images(&self, location: &ImageLocation) -> Result<Vec<ImageLocation>, Error> {
        match location {
            ImageLocation::Registry(reference) => {
                let tags = self.registries.tags(reference).await?;
                let locations = tags.into_iter().map(|tag| {
                    let (registry, repository) = (reference.registry(), reference.repository());
                    ImageLocation::Registry(Reference::with_tag(
                        registry.to_owned(),
                        repository.to_owned(),
                        tag,
                    ))
                });
                Ok(locations.collect())
            }
            ImageLocation::Layout { directory, .. } => {
                let digests = Layout::new(directory, location.to_string()).digests()?;
                Ok(digests
                    .iter()
                    .map(|digest| location.with_digest(digest))
                    .collect())
            }
        }
    }

    /// The digest of what the location names now, without reading it from a registry.
    ///
    /// # Errors
    /// [`Error`]: it is not there.
    pub async fn digest(&self, location: &ImageLocation) -> Result<ImageDigest, Error> {
        match location {
            ImageLocation::Registry(reference) => self.registries.digest(reference).await,
            ImageLocation::Layout {
                digest: Some(digest),
                ..
            } => Ok(digest.clone()),
            ImageLocation::Layout { .. } => Ok(ImageDigest::of(&self.manifest(location).await?)),
        }
    }

    /// A manifest or list, held against the digest that the location names.
    pub(crate) async fn manifest(&self, location: &ImageLocation) -> Result<Vec<u8>, Error> {
        match location {
            ImageLocation::Registry(reference) => self.registries.manifest(reference).await,
            ImageLocation::Layout {
                directory,
                name,
                digest,
            } => Layout::new(directory, location.to_string())
                .manifest(name.as_deref(), digest.as_ref()),
        }
    }

    /// A blob that a manifest there names, held against its digest.
    pub(crate) async fn blob(
        &self,
        location: &ImageLocation,
        descriptor: &Descriptor,
    ) -> Result<Blob, Error> {
        let text = descriptor.digest().to_string();
        let digest: ImageDigest = text.parse().map_err(|error| Error::Layer {
            image: location.to_string(),
            layer: text.clone(),
            source: io::Error::other(error),
        })?;
        match location {
            ImageLocation::Registry(reference) => {
                self.registries.blob(reference, descriptor, &digest).await
            }
            ImageLocation::Layout { directory, .. } => {
                let (directory, name) = (directory.clone(), location.to_string());
                // It is held against its digest, which reads all of it.
                blocking(move || Layout::new(&directory, name).blob(&digest)).await
            }
        }
    }

    /// Whether a blob is there.
    pub(crate) async fn has_blob(
        &self,
        location: &ImageLocation,
        digest: &ImageDigest,
    ) -> Result<bool, Error> {
        match location {
            ImageLocation::Registry(reference) => self.registries.has_blob(reference, digest).await,
            ImageLocation::Layout { directory, .. } => {
                Ok(Layout::new(directory, location.to_string()).has_blob(digest))
            }
        }
    }

    /// Puts a blob there, unless it is there.
    pub(crate) async fn put_blob(
        &self,
        location: &ImageLocation,
        blob: &Blob,
    ) -> Result<(), Error> {
        match location {
            ImageLocation::Registry(reference) => self.registries.put_blob(reference, blob).await,
            ImageLocation::Layout { directory, .. } => {
                Layout::new(directory, location.to_string()).put_blob(blob)
            }
        }
    }

    /// Puts a manifest or list there, under the name of the location; without one it is there by
    /// its digest alone.
    pub(crate) async fn put_manifest(
        &self,
        location: &ImageLocation,
        bytes: &[u8],
        media_type: &str,
    ) -> Result<(), Error> {
        match location {
            ImageLocation::Registry(reference) => {
                let registries = &self.registries;
                registries.put_manifest(reference, bytes, media_type).await
            }
            ImageLocation::Layout {
                directory, name, ..
            } => {
                let manifest = Blob::of(bytes).map_err(|source| Error::Make {
                    what: format!("image {location}"),
                    source,
                })?;
                let layout = Layout::new(directory, location.to_string());
                match name {
                    Some(name) => {
                        layout.put_manifest(Some(name), &manifest, MediaType::from(media_type))
                    }
                    None => layout.put_blob(&manifest),
                }
            }
        }
    }

    /// Puts an image there: first its layers, then its configuration, then its manifest, so that it
    /// is whole or not there.
    ///
    /// # Errors
    /// The registry or the disk.
    pub async fn put(&self, image: &Built, location: &ImageLocation) -> Result<(), Error> {
        for blob in image.blobs() {
            self.put_blob(location, blob).await?;
        }
        let manifest = image.manifest();
        let media_type = image.media_type();
        match location {
            ImageLocation::Registry(reference) => {
                let bytes = manifest.bytes().map_err(|source| Error::Make {
                    what: format!("image {location}"),
                    source,
                })?;
                let registries = &self.registries;
                registries.put_manifest(reference, &bytes, media_type).await
            }
            ImageLocation::Layout {
                directory, name, ..
            } => Layout::new(directory, location.to_string()).put_manifest(
                name.as_deref(),
                manifest,
                MediaType::from(media_type),
            ),
        }
    }
}

/// Does work that waits for the disk or the processor, off the threads that serve.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(Error::Make {
                what: "a thread for the work on an image".to_owned(),
                source: io::Error::other(error),
            }),
        },
    }
}
