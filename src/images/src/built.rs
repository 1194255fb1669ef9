//! An image that was made, to be put into a store.

use release::ImageDigest;

use crate::blob::Blob;

/// An image that was made, and is nowhere yet.
#[derive(Debug)]
pub struct Built {
    manifest: Blob,
    media_type: String,
    /// Layers, then the configuration.
    blobs: Vec<Blob>,
}

impl Built {
    /// Shape: `blobs` are the layers, then the configuration.
    pub(crate) fn new(manifest: Blob, media_type: String, blobs: Vec<Blob>) -> Self {
        Self {
            manifest,
            media_type,
            blobs,
        }
    }

    /// The digest of its manifest, and so of the image.
    pub fn digest(&self) -> &ImageDigest {
        self.manifest.digest()
    }

    pub fn manifest(&self) -> &Blob {
        &self.manifest
    }

    pub(crate) fn media_type(&self) -> &str {
        &self.media_type
    }

    /// Its layers and its configuration.
    pub fn blobs(&self) -> &[Blob] {
        &self.blobs
    }
}
