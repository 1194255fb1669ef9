//! An existing image: manifest, configuration, layers.

use std::collections::BTreeMap;

use oci_spec::image::{Descriptor, ImageConfiguration, ImageIndex, ImageManifest};
use release::ImageDigest;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::budget::Excess;
use crate::error::Error;
use crate::location::ImageLocation;
use crate::store::Stores;

/// Types of lists and of images, by OCI and by Docker.
pub(crate) const LISTS: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
pub(crate) const IMAGES: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

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
    /// Its digest.
    pub digest: ImageDigest,
    /// What it has images for.
    pub platforms: Vec<Platform>,
}

/// An image, of which the manifest and the configuration are read.
#[derive(Clone, Debug)]
pub struct Image {
    /// What was asked for.
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

/// What tells the forms of manifests apart.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Form {
    schema_version: u32,
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    manifests: Option<IgnoredAny>,
    #[serde(default)]
    config: Option<IgnoredAny>,
    #[serde(default)]
    layers: Option<IgnoredAny>,
}

impl Image {
    /// Reads an image's manifest and configuration; of a list those of this platform.
    ///
    /// # Errors
    /// [`Error`]: it is not there, or not of a form that is known.
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
            let known = index.manifests().iter().filter_map(|descriptor| {
                let platform = descriptor.platform().as_ref()?;
                let platform = Platform {
                    os: platform.os().to_string(),
                    architecture: platform.architecture().to_string(),
                };
                Some((platform, descriptor))
            });
            let known: Vec<(Platform, &Descriptor)> = known.collect();
            let is_wanted = |of: &Platform| platform.is_none_or(|platform| of == platform);
            let found = known.iter().find(|(of, _)| is_wanted(of));
            let (_, descriptor) = found.ok_or_else(|| {
                let known: Vec<String> = known.iter().map(|(of, _)| of.to_string()).collect();
                Error::Platform {
                    image: location.to_string(),
                    platform: platform.map_or_else(|| "any".to_owned(), Platform::to_string),
                    known: known.join(", "),
                }
            })?;
            let digest = digest_of(location, descriptor)?;
            list = Some(List {
                digest: ImageDigest::of(&bytes),
                platforms: known.iter().map(|(of, _)| of.clone()).collect(),
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

    /// What was asked for.
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

    /// Its manifest's bytes.
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

    /// Its layers, lowest first.
    pub fn layers(&self) -> &[Descriptor] {
        self.manifest.layers()
    }

    /// Bytes of each of its layers, as it is stored.
    pub fn layer_sizes(&self) -> impl Iterator<Item = u64> {
        self.layers().iter().map(Descriptor::size)
    }

    /// Its configuration.
    pub fn configuration(&self) -> &ImageConfiguration {
        &self.configuration
    }

    /// Its configuration's bytes.
    pub fn configuration_bytes(&self) -> &[u8] {
        &self.configuration_bytes
    }

    pub(crate) fn configuration_descriptor(&self) -> &Descriptor {
        self.manifest.config()
    }

    /// What it runs on.
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

/// Whether a manifest is a list of manifests.
///
/// # Errors
/// It is of a schema that is not known, or an image and a list at once: programs that take it for
/// the one or the other would see different content under one digest.
pub(crate) fn is_list(location: &ImageLocation, bytes: &[u8]) -> Result<bool, Error> {
    let unsupported = |form: String| Error::Form {
        image: location.to_string(),
        form,
    };
    let form: Form = parse(location, "manifest", bytes)?;
    if form.schema_version != 2 {
        let text = format!("a manifest of schema {}", form.schema_version);
        return Err(unsupported(text));
    }
    let is_list = form.manifests.is_some();
    if is_list && (form.config.is_some() || form.layers.is_some()) {
        let text = "a manifest with both manifests and layers".to_owned();
        return Err(unsupported(text));
    }
    let media_type = form.media_type.as_deref().unwrap_or_default();
    if is_list && IMAGES.contains(&media_type) {
        return Err(unsupported(format!("{media_type} with manifests")));
    }
    if !is_list && LISTS.contains(&media_type) {
        return Err(unsupported(format!("{media_type} without manifests")));
    }
    Ok(is_list)
}

pub(crate) fn parse<'a, T: Deserialize<'a>>(
    location: &ImageLocation,
    document: &'static str,
    bytes: &'a [u8],
) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|source| Error::Document {
        image: location.to_string(),
        document,
        source,
    })
}

pub(crate) fn digest_of(
    location: &ImageLocation,
    descriptor: &Descriptor,
) -> Result<ImageDigest, Error> {
    let text = descriptor.digest().to_string();
    text.parse().map_err(|_| Error::Form {
        image: location.to_string(),
        form: format!("digest {text}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_an_image_or_a_list() {
        let location: ImageLocation = "registry.example/a:1".parse().unwrap();
        let is_list = |text: &str| {
            let listed = is_list(&location, text.as_bytes());
            listed.map_err(|error| error.to_string())
        };
        for (text, expected) in [
            (r#"{"schemaVersion":2,"config":{},"layers":[]}"#, false),
            (r#"{"schemaVersion":2,"manifests":[]}"#, true),
            (r#"{"schemaVersion":2,"manifests":null,"config":{}}"#, false),
        ] {
            assert_eq!(is_list(text), Ok(expected), "{text}");
        }
        let (list, image) = (LISTS[0], IMAGES[1]);
        for (text, expected) in [
            (
                r#"{"schemaVersion":1}"#.to_owned(),
                "a manifest of schema 1",
            ),
            (
                r#"{"schemaVersion":2,"manifests":[],"layers":[]}"#.to_owned(),
                "a manifest with both manifests and layers",
            ),
            (
                r#"{"schemaVersion":2,"manifests":[],"config":{}}"#.to_owned(),
                "a manifest with both manifests and layers",
            ),
            (
                format!(r#"{{"schemaVersion":2,"mediaType":"{image}","manifests":[]}}"#),
                "with manifests is not supported",
            ),
            (
                format!(r#"{{"schemaVersion":2,"mediaType":"{list}","layers":[]}}"#),
                "without manifests is not supported",
            ),
        ] {
            let error = is_list(&text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
