//! An existing image: manifest, configuration, layers.

use std::collections::BTreeMap;

use oci_spec::image::{Descriptor, ImageConfiguration, ImageIndex, ImageManifest};
use release::ImageDigest;

use crate::budget::Excess;
use crate::document::{digest_of, is_list, parse};
use crate::error::Error;
use crate::location::ImageLocation;
use crate::store::Stores;

/// Bytes of a configuration, which is read into memory. Large ones have some 100 kB.
const CONFIGURATION_BYTES: u64 = 4 << 20;

/// An operating system and processor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Platform {
    /// Such as `linux`.
    pub os: String,
    /// Such as `amd64`.
    pub architecture: String,
}

impl Platform {
    /// Linux on the processor that this program runs on.
    pub fn of_this_machine() -> Self {
        Self {
            os: "linux".to_owned(),
            architecture: oci_spec::image::Arch::default().to_string(),
        }
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)
    }
}

/// A list of images for several platforms.
#[derive(Clone, Debug)]
pub struct List {
    pub digest: ImageDigest,
    /// What it has images for.
    pub platforms: Vec<Platform>,
    /// Its images, in the same order.
    pub images: Vec<ImageDigest>,
}

/// An image, of which the manifest and the configuration are read.
#[derive(Clone, Debug)]
pub struct Image {
    name: ImageLocation,
    /// The same place, by digest.
    location: ImageLocation,
    digest: ImageDigest,
    list: Option<List>,
    bytes: Vec<u8>,
    manifest: ImageManifest,
    configuration_bytes: Vec<u8>,
    configuration: ImageConfiguration,
}

impl Image {
    /// Reads an image's manifest and configuration; of a list those of this platform.
    ///
    /// # Errors
    /// [`Error`]: it is not there, or not of a supported form.
    pub async fn open(
        stores: &Stores,
        location: &ImageLocation,
        platform: &Platform,
    ) -> Result<Self, Error> {
        Self::open_of(stores, location, Some(platform)).await
    }

    /// The same; of a list the first image, whatever it is for.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub async fn open_first(stores: &Stores, location: &ImageLocation) -> Result<Self, Error> {
        Self::open_of(stores, location, None).await
    }

    async fn open_of(
        stores: &Stores,
        location: &ImageLocation,
        platform: Option<&Platform>,
    ) -> Result<Self, Error> {
        let mut bytes = stores.manifest(location).await?;
        let mut list = None;
        if is_list(location, &bytes)? {
            let index: ImageIndex = parse(location, "manifest", &bytes)?;
            let listed = index.manifests().iter().filter_map(|descriptor| {
                let platform = descriptor.platform().as_ref()?;
                let platform = Platform {
                    os: platform.os().to_string(),
                    architecture: platform.architecture().to_string(),
                };
                Some((platform, descriptor))
            });
            let listed: Vec<(Platform, &Descriptor)> = listed.collect();
            let is_wanted = |of: &Platform| platform.is_none_or(|platform| of == platform);
            let found = listed.iter().find(|(of, _)| is_wanted(of));
            let (_, descriptor) = found.ok_or_else(|| {
                let platforms: Vec<String> = listed.iter().map(|(of, _)| of.to_string()).collect();
                Error::Platform {
                    image: location.to_string(),
                    platform: platform.map_or_else(|| "any".to_owned(), Platform::to_string),
                    available: platforms.join(", "),
                }
            })?;
            let digest = digest_of(location, descriptor)?;
            let images = listed.iter();
            let images = images.map(|(_, descriptor)| digest_of(location, descriptor));
            list = Some(List {
                digest: ImageDigest::of(&bytes),
                platforms: listed.iter().map(|(of, _)| of.clone()).collect(),
                images: images.collect::<Result<_, _>>()?,
            });
            bytes = stores.manifest(&location.with_digest(&digest)).await?;
        }
        if is_list(location, &bytes)? {
            return Err(Error::Form {
                image: location.to_string(),
                form: "a list in a list".to_owned(),
            });
        }
        let manifest: ImageManifest = parse(location, "manifest", &bytes)?;
        let digest = ImageDigest::of(&bytes);
        let by_digest = location.with_digest(&digest);
        let too_large = || Error::Excess {
            image: location.to_string(),
            excess: Excess::Configuration(CONFIGURATION_BYTES),
        };
        if manifest.config().size() > CONFIGURATION_BYTES {
            return Err(too_large());
        }
        let blob = stores.blob(&by_digest, manifest.config()).await?;
        // Of a directory the manifest's word was not enough.
        if blob.size() > CONFIGURATION_BYTES {
            return Err(too_large());
        }
        let configuration_bytes = blob.bytes().map_err(|source| Error::Layer {
            image: location.to_string(),
            layer: blob.digest().to_string(),
            source,
        })?;
        Ok(Self {
            name: location.clone(),
            location: by_digest,
            digest,
            list,
            bytes,
            manifest,
            configuration: parse(location, "configuration", &configuration_bytes)?,
            configuration_bytes,
        })
    }

    pub fn name(&self) -> &ImageLocation {
        &self.name
    }

    /// Where it is, by digest.
    pub fn location(&self) -> &ImageLocation {
        &self.location
    }

    /// Digest of its manifest.
    pub fn digest(&self) -> &ImageDigest {
        &self.digest
    }

    /// The list that it was found in, if any.
    pub fn list(&self) -> Option<&List> {
        self.list.as_ref()
    }

    /// Digest by which all of it is named: the list's, if there is one.
    pub fn outer_digest(&self) -> &ImageDigest {
        self.list.as_ref().map_or(&self.digest, |list| &list.digest)
    }

    pub fn manifest_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Form of its manifest.
    pub fn media_type(&self) -> String {
        let media_type = self.manifest.media_type().as_ref();
        media_type.map_or_else(
            || oci_spec::image::MediaType::ImageManifest.to_string(),
            ToString::to_string,
        )
    }

    pub fn layers(&self) -> &[Descriptor] {
        self.manifest.layers()
    }

    /// Bytes of each of its layers, as it is stored.
    pub fn layer_sizes(&self) -> impl Iterator<Item = u64> {
        self.layers().iter().map(Descriptor::size)
    }

    pub fn configuration(&self) -> &ImageConfiguration {
        &self.configuration
    }

    pub fn configuration_bytes(&self) -> &[u8] {
        &self.configuration_bytes
    }

    pub(crate) fn configuration_descriptor(&self) -> &Descriptor {
        self.manifest.config()
    }

    pub fn platform(&self) -> Platform {
        Platform {
            os: self.configuration.os().to_string(),
            architecture: self.configuration.architecture().to_string(),
        }
    }

    /// Labels of its configuration.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let labels = self.configuration.labels_of_config();
        let labels = labels.into_iter().flatten();
        labels
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// When it was made, as its configuration says.
    pub fn created(&self) -> Option<jiff::Timestamp> {
        self.configuration.created().as_ref()?.parse().ok()
    }
}
