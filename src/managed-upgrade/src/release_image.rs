//! An image as the place of a release: where its registry is asked, and which version the image
//! states.
//!
//! Source: OCI distribution specification, "Pulling manifests" and "Pulling blobs".

use release::digest::ImageDigest;
use serde::Deserialize;

/// Forms of a manifest that are read. An index of several architectures has no version of its own.
pub const ACCEPT: &str = "application/vnd.docker.distribution.manifest.v2+json, \
                          application/vnd.oci.image.manifest.v1+json";

/// An image by digest, in a namespace of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePlace {
    registry: String,
    /// Namespace and name.
    repository: String,
    digest: ImageDigest,
}

impl ImagePlace {
    /// Reads `<registry>/<namespace>/<name>[:tag]@sha256:<hex>`.
    ///
    /// # Errors
    /// What is missing.
    pub fn parse(image: &str) -> Result<Self, String> {
        let missing = |what: &str| format!("{image:?} has no {what}");
        let (place, digest) = image.split_once('@').ok_or_else(|| missing("digest"))?;
        let digest = digest.parse().map_err(|_| missing("digest"))?;
        let is_part = |part: &str| {
            let mut bytes = part.bytes();
            !part.is_empty()
                && !part.contains("..")
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte))
        };
        let mut parts = place.splitn(3, '/');
        let mut next = |what: &str| {
            let part = parts.next().filter(|part| !part.is_empty());
            part.ok_or_else(|| missing(what))
        };
        let (registry, namespace, name) = (next("registry")?, next("namespace")?, next("name")?);
        // A tag beside a digest says nothing.
        let name = name.split_once(':').map_or(name, |(name, _)| name);
        if !is_part(registry) || !is_part(namespace) || !name.split('/').all(is_part) {
            return Err(format!("{image:?} is no pull spec"));
        }
        Ok(Self {
            registry: registry.to_owned(),
            repository: format!("{namespace}/{name}"),
            digest,
        })
    }

    /// Where the manifest is.
    pub fn manifest_url(&self) -> String {
        self.url("manifests", &self.digest)
    }

    /// Where the configuration is that the manifest names.
    pub fn config_url(&self, config: &ImageDigest) -> String {
        self.url("blobs", config)
    }

    fn url(&self, kind: &str, digest: &ImageDigest) -> String {
        format!(
            "https://{}/v2/{}/{kind}/{}",
            self.registry,
            self.repository,
            digest.as_str()
        )
    }

    /// The digest of the configuration, from a manifest.
    ///
    /// # Errors
    /// The bytes are another image than the one that was asked for, or no manifest of one image.
    pub fn read_manifest(&self, body: &[u8]) -> Result<ImageDigest, String> {
        #[derive(Deserialize)]
        struct Manifest {
            config: Descriptor,
        }
        #[derive(Deserialize)]
        struct Descriptor {
            digest: ImageDigest,
        }
        expect_digest(body, &self.digest)?;
        let manifest: Manifest = serde_json::from_slice(body)
            .map_err(|error| format!("it is no manifest of one image: {error}"))?;
        Ok(manifest.config.digest)
    }
}

/// The label `io.openshift.release` of an image, from its configuration.
///
/// # Errors
/// The bytes are another configuration, or none.
pub fn read_label(body: &[u8], digest: &ImageDigest) -> Result<Option<String>, String> {
    expect_digest(body, digest)?;
    let config: serde_json::Value = serde_json::from_slice(body)
        .map_err(|error| format!("it is no configuration of an image: {error}"))?;
    let labels = config.pointer("/config/Labels");
    let label = labels.and_then(|labels| labels.get(release::RELEASE_LABEL)?.as_str());
    Ok(label.map(ToOwned::to_owned))
}

fn expect_digest(body: &[u8], expected: &ImageDigest) -> Result<(), String> {
    let found = ImageDigest::of(body);
    if found == *expected {
        return Ok(());
    }
    Err(format!(
        "the registry sent {} in place of {}",
        found.as_str(),
        expected.as_str()
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn registry_is_asked_by_digest() {
        let digest = ImageDigest::of(b"manifest");
        for (place, repository) in [
            ("quay.io/openshift/release", "quay.io/v2/openshift/release"),
            (
                "quay.io:5000/openshift/release:4.16.4",
                "quay.io:5000/v2/openshift/release",
            ),
            ("q.io/a/b/c", "q.io/v2/a/b/c"),
        ] {
            let text = digest.as_str();
            let place = ImagePlace::parse(&format!("{place}@{text}")).unwrap();
            let expected = format!("https://{repository}/manifests/{text}");
            assert_eq!(place.manifest_url(), expected);
            let expected = format!("https://{repository}/blobs/{text}");
            assert_eq!(place.config_url(&digest), expected);
        }
    }

    #[test]
    fn each_part_of_an_image_is_needed() {
        let digest = ImageDigest::of(b"manifest");
        let digest = digest.as_str();
        for (image, expected) in [
            ("q/n/r:latest".to_owned(), "has no digest"),
            ("q/n/r@sha256:12".to_owned(), "has no digest"),
            (format!("q/n@{digest}"), "has no name"),
            (format!("q//r@{digest}"), "has no namespace"),
            (format!("/n/r@{digest}"), "has no registry"),
            (format!("q/n/../r@{digest}"), "is no pull spec"),
            (format!("a@b/n/r@{digest}"), "has no digest"),
            (format!("q/n/r?x@{digest}"), "is no pull spec"),
        ] {
            let why = ImagePlace::parse(&image).unwrap_err();
            assert!(why.ends_with(expected), "{why}");
        }
    }

    #[test]
    fn version_is_the_label_and_other_bytes_than_asked_for_are_refused() {
        let labels = json!({ "io.openshift.release": "4.16.4" });
        let config = json!({ "config": { "Labels": labels } }).to_string();
        let config_digest = ImageDigest::of(config.as_bytes());
        let manifest = json!({ "config": { "digest": config_digest.as_str() } }).to_string();
        let of = |body: &str| {
            let digest = ImageDigest::of(body.as_bytes());
            ImagePlace::parse(&format!("q/n/r@{}", digest.as_str())).unwrap()
        };
        let found = of(&manifest).read_manifest(manifest.as_bytes()).unwrap();
        assert_eq!(found, config_digest);
        let label = read_label(config.as_bytes(), &found).unwrap();
        assert_eq!(label.as_deref(), Some("4.16.4"));
        let none = ImageDigest::of(b"{}");
        assert_eq!(read_label(b"{}", &none), Ok(None));

        let why = of(&manifest).read_manifest(b"{}").unwrap_err();
        assert!(why.starts_with("the registry sent sha256:"), "{why}");
        let why = read_label(b"{}", &found).unwrap_err();
        assert!(why.starts_with("the registry sent sha256:"), "{why}");
        let index = r#"{"manifests":[]}"#;
        let why = of(index).read_manifest(index.as_bytes()).unwrap_err();
        assert!(why.starts_with("it is no manifest of one image"), "{why}");
    }
}
