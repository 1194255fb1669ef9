//! Registries and layout directories, by one set of verbs.

use std::io;

use oci_spec::image::{Descriptor, MediaType};
use release::ImageDigest;

use crate::blob::Blob;
use crate::credentials::Credentials;
use crate::draft::Built;
use crate::error::Error;
use crate::layout::Layout;
use crate::location::ImageLocation;
use crate::registry::Registries;

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
                Layout::new(directory, location.to_string()).blob(&digest)
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
            match location {
                ImageLocation::Registry(reference) => {
                    self.registries.put_blob(reference, blob).await?;
                }
                ImageLocation::Layout { directory, .. } => {
                    Layout::new(directory, location.to_string()).put_blob(blob)?;
                }
            }
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
