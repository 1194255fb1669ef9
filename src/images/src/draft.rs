//! An image that is made: layers, configuration, manifest.

use std::collections::BTreeMap;
use std::io;

use jiff::Timestamp;
use oci_spec::image::{Descriptor, MediaType};
use serde_json::{Map, Value, json};

use crate::blob::Blob;
use crate::document::canonical;
use crate::error::Error;
use crate::image::{Image, Platform};
use crate::store::Stores;
use crate::tree::NewLayer;

pub use crate::built::Built;

/// What an image is made of.
#[derive(Debug)]
pub struct Draft {
    pub platform: Platform,
    /// When it was made, as it says.
    pub created: Timestamp,
    /// Labels of its configuration.
    pub labels: BTreeMap<String, String>,
    /// User and group that its program runs as, such as `65532:65532`; empty for root.
    pub user: String,
    /// Its program and the first arguments.
    pub entrypoint: Vec<String>,
    layers: Vec<DraftLayer>,
}

#[derive(Debug)]
struct DraftLayer {
    media_type: String,
    blob: Blob,
    diff_id: String,
    created_by: String,
}

impl Draft {
    pub fn new(platform: Platform, created: Timestamp) -> Self {
        Self {
            platform,
            created,
            labels: BTreeMap::new(),
            user: String::new(),
            entrypoint: Vec::new(),
            layers: Vec::new(),
        }
    }

    /// Puts a layer on top.
    pub fn push(&mut self, layer: NewLayer, created_by: &str) {
        self.layers.push(DraftLayer {
            media_type: MediaType::ImageLayerGzip.to_string(),
            diff_id: layer.diff_id.to_string(),
            blob: layer.blob,
            created_by: created_by.to_owned(),
        });
    }

    /// Puts all layers of another image on top, unchanged.
    ///
    /// # Errors
    /// [`Error`]: a layer cannot be read, or its configuration does not name as many as its
    /// manifest.
    pub async fn push_image(&mut self, stores: &Stores, image: &Image) -> Result<(), Error> {
        let diff_ids = image.configuration().rootfs().diff_ids();
        if diff_ids.len() != image.layers().len() {
            return Err(Error::Form {
                image: image.name().to_string(),
                form: format!(
                    "a manifest of {} layers with a configuration of {}",
                    image.layers().len(),
                    diff_ids.len()
                ),
            });
        }
        for (descriptor, diff_id) in image.layers().iter().zip(diff_ids) {
            self.layers.push(DraftLayer {
                media_type: oci_layer(descriptor),
                blob: stores.blob(image.location(), descriptor).await?,
                diff_id: diff_id.clone(),
                created_by: format!("layer of {}", image.digest()),
            });
        }
        Ok(())
    }

    /// Makes configuration and manifest. The same draft gives the same bytes.
    ///
    /// # Errors
    /// The disk is full.
    pub fn build(self) -> io::Result<Built> {
        let diff_ids: Vec<&str> = self
            .layers
            .iter()
            .map(|layer| layer.diff_id.as_str())
            .collect();
        let created = self.created.to_string();
        let history: Vec<Value> = self
            .layers
            .iter()
            .map(|layer| json!({"created": created, "created_by": layer.created_by}))
            .collect();
        let mut config = Map::new();
        if !self.labels.is_empty() {
            config.insert("Labels".to_owned(), json!(self.labels));
        }
        if !self.user.is_empty() {
            config.insert("User".to_owned(), self.user.into());
        }
        if !self.entrypoint.is_empty() {
            config.insert("Entrypoint".to_owned(), json!(self.entrypoint));
        }
        let configuration = Blob::of(&canonical(&json!({
            "architecture": self.platform.architecture,
            "config": config,
            "created": created,
            "history": history,
            "os": self.platform.os,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        }))?)?;
        let descriptor = |media_type: &str, blob: &Blob| {
            json!({
                "mediaType": media_type,
                "digest": blob.digest(),
                "size": blob.size(),
            })
        };
        let media_type = MediaType::ImageManifest.to_string();
        let config = descriptor(MediaType::ImageConfig.as_ref(), &configuration);
        let layers: Vec<Value> = self
            .layers
            .iter()
            .map(|layer| descriptor(&layer.media_type, &layer.blob))
            .collect();
        let manifest = Blob::of(&canonical(&json!({
            "schemaVersion": 2,
            "mediaType": media_type,
            "config": config,
            "layers": layers,
        }))?)?;
        let mut blobs: Vec<Blob> = self.layers.into_iter().map(|layer| layer.blob).collect();
        blobs.push(configuration);
        Ok(Built::new(manifest, media_type, blobs))
    }
}

impl Built {
    /// An image that is there, to be put elsewhere, byte for byte.
    ///
    /// # Errors
    /// [`Error`]: a layer cannot be read.
    pub async fn copy_of(stores: &Stores, image: &Image) -> Result<Self, Error> {
        let mut blobs = Vec::new();
        for descriptor in image.layers() {
            blobs.push(stores.blob(image.location(), descriptor).await?);
        }
        let descriptor = image.configuration_descriptor();
        blobs.push(stores.blob(image.location(), descriptor).await?);
        let manifest = Blob::of(image.manifest_bytes()).map_err(|source| Error::Make {
            what: format!("a copy of image {}", image.name()),
            source,
        })?;
        Ok(Self::new(manifest, image.media_type(), blobs))
    }
}

/// The OCI name of a layer's form: a manifest of one kind does not mix both.
fn oci_layer(descriptor: &Descriptor) -> String {
    let name = descriptor.media_type().to_string();
    match name.as_str() {
        "application/vnd.docker.image.rootfs.diff.tar" => MediaType::ImageLayer.to_string(),
        "application/vnd.docker.image.rootfs.diff.tar.gzip" => {
            MediaType::ImageLayerGzip.to_string()
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests;
