//! Where an image is, by digest.

use std::fmt;
use std::str::FromStr;

use oci_spec::distribution::Reference;

use crate::digest::{self, ImageDigest};

/// A pull spec that names an image by digest: `registry/repository[:tag]@sha256:…`.
///
/// The text is kept as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullSpec {
    text: String,
    digest: ImageDigest,
}

/// Why a text is no pull spec by digest.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It names no image at all.
    #[error("{text:?} is no pull spec")]
    Reference {
        text: String,
        /// What is wrong with it.
        #[source]
        source: oci_spec::distribution::ParseError,
    },
    /// It has a tag only.
    #[error("{text:?} names no digest")]
    NoDigest { text: String },
    /// Its digest is not one of SHA-256.
    #[error("{text:?} names another digest than one of SHA-256")]
    ImageDigest {
        text: String,
        /// What is wrong with it.
        #[source]
        source: digest::Error,
    },
}

impl PullSpec {
    /// The pull spec of a digest in a repository, such as `quay.io/example/mcd`.
    ///
    /// # Errors
    /// [`Error::Reference`]: the repository is none.
    pub fn new(repository: &str, digest: &ImageDigest) -> Result<Self, Error> {
        format!("{repository}@{digest}").parse()
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn digest(&self) -> &ImageDigest {
        &self.digest
    }
}

impl FromStr for PullSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let reference = text
            .parse::<Reference>()
            .map_err(|source| Error::Reference {
                text: text.to_owned(),
                source,
            })?;
        let digest = reference.digest().ok_or_else(|| Error::NoDigest {
            text: text.to_owned(),
        })?;
        let digest = digest.parse().map_err(|source| Error::ImageDigest {
            text: text.to_owned(),
            source,
        })?;
        Ok(Self {
            text: text.to_owned(),
            digest,
        })
    }
}

impl fmt::Display for PullSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether two pull specs name one image: by digest, because mirrors have other repositories; by
/// their whole text where one has none. An empty text names no image.
pub fn is_same_image(one: &str, other: &str) -> bool {
    let digest = |image: &str| image.rsplit_once('@').map(|(_, digest)| digest.to_owned());
    match (digest(one), digest(other)) {
        (Some(one), Some(other)) => one == other,
        _ => !one.is_empty() && one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_one_by_digest_and_else_by_their_text() {
        for (one, other, expected) in [
            ("q/r@sha256:1", "m/r:v1@sha256:1", true),
            ("q/r@sha256:1", "q/r@sha256:2", false),
            ("q/r:v1", "q/r:v1", true),
            ("q/r:v1", "m/r:v1", false),
            ("q/r:v1", "q/r:v1@sha256:1", false),
            ("", "", false),
        ] {
            assert_eq!(is_same_image(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn text_is_kept_and_the_digest_is_known() {
        let digest = ImageDigest::of(b"image");
        for repository in [
            "quay.io/example/mcd",
            "10.0.0.1:5000/mcd",
            "quay.io/example/mcd:v1",
            "mcd",
        ] {
            let spec = PullSpec::new(repository, &digest).unwrap();
            assert_eq!(spec.to_string(), format!("{repository}@{digest}"));
            assert_eq!(spec.digest(), &digest);
        }
    }

    #[test]
    fn error_names_the_text() {
        let sha512 = format!("quay.io/mcd@sha512:{}", "0".repeat(128));
        for (text, expected) in [
            ("", "\"\" is no pull spec"),
            ("quay.io/UP", "\"quay.io/UP\" is no pull spec"),
            ("quay.io/mcd:v1", "\"quay.io/mcd:v1\" names no digest"),
            ("quay.io/mcd@sha256:0", "is no pull spec"),
            (&sha512, "another digest than one of SHA-256"),
        ] {
            let error = text.parse::<PullSpec>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
