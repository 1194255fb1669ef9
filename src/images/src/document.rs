//! Documents of an image as JSON: manifests, lists, configurations, the index of a directory.

use oci_spec::image::Descriptor;
use release::ImageDigest;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::location::ImageLocation;

/// Types of lists and of images, by OCI and by Docker.
pub(crate) const LISTS: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
pub(crate) const IMAGES: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

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

/// Whether a manifest is a list of manifests.
///
/// # Errors
/// It is of an unsupported schema, or an image and a list at once: programs that take it for
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

/// JSON with sorted keys, so that the same value gives the same bytes.
pub(crate) fn canonical(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut value = serde_json::to_value(value)?;
    value.sort_all_objects();
    serde_json::to_vec(&value)
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
