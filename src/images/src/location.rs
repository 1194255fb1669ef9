//! Where an image is, in the notation of command lines.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use oci_client::Reference;
use release::{ImageDigest, PullSpec};

/// Begins the location of an image in a layout directory.
const LAYOUT: &str = "oci:";

/// May begin the location of an image in a registry.
const REGISTRY: &str = "docker://";

/// An image in a registry, or in an OCI layout directory.
///
/// Shape: `registry/repository[:tag][@digest]`, with or without `docker://`; or
/// `oci:<directory>[:<name>][@digest]`. An image in a registry has the tag `latest` if it names
/// none. The only image of a directory needs no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageLocation {
    Registry(Reference),
    /// In a directory.
    Layout {
        directory: PathBuf,
        /// The image's name in the directory's index.
        name: Option<String>,
        digest: Option<ImageDigest>,
    },
}

/// A text is no location of an image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It names no image in a registry.
    #[error(
        "{text:?} is no image: neither registry/repository[:tag][@digest] nor oci:directory[:name]"
    )]
    Reference {
        text: String,
        /// What is wrong with it.
        #[source]
        source: oci_client::ParseError,
    },
    #[error("{0:?} names no directory")]
    Directory(String),
    #[error("{text:?} is no image")]
    Digest {
        text: String,
        /// What is wrong with it.
        #[source]
        source: release::digest::Error,
    },
}

impl ImageLocation {
    /// The digest that it asks for, if any.
    ///
    /// # Errors
    /// The digest is not one of SHA-256.
    pub fn digest(&self) -> Result<Option<ImageDigest>, release::digest::Error> {
        match self {
            Self::Registry(reference) => reference.digest().map(str::parse).transpose(),
            Self::Layout { digest, .. } => Ok(digest.clone()),
        }
    }

    /// The same place, with the image of this digest.
    #[must_use]
    pub fn with_digest(&self, digest: &ImageDigest) -> Self {
        match self {
            Self::Registry(reference) => {
                Self::Registry(reference.clone_with_digest(digest.to_string()))
            }
            Self::Layout { directory, .. } => Self::Layout {
                directory: directory.clone(),
                name: None,
                digest: Some(digest.clone()),
            },
        }
    }

    /// Pull spec of the image of this digest here; none in a layout directory.
    pub fn pull_spec(&self, digest: &ImageDigest) -> Option<PullSpec> {
        match self {
            Self::Registry(reference) => {
                let repository = format!("{}/{}", reference.registry(), reference.repository());
                PullSpec::new(&repository, digest).ok()
            }
            Self::Layout { .. } => None,
        }
    }
}

impl FromStr for ImageLocation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let Some(rest) = text.strip_prefix(LAYOUT) else {
            let reference = text.strip_prefix(REGISTRY).unwrap_or(text);
            return reference
                .parse()
                .map(Self::Registry)
                .map_err(|source| Error::Reference {
                    text: text.to_owned(),
                    source,
                });
        };
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => {
                let digest = digest.parse().map_err(|source| Error::Digest {
                    text: text.to_owned(),
                    source,
                })?;
                (rest, Some(digest))
            }
            None => (rest, None),
        };
        let (directory, name) = match rest.split_once(':') {
            Some((directory, name)) => (directory, Some(name.to_owned())),
            None => (rest, None),
        };
        if directory.is_empty() {
            return Err(Error::Directory(text.to_owned()));
        }
        Ok(Self::Layout {
            directory: directory.into(),
            name: name.filter(|name| !name.is_empty()),
            digest,
        })
    }
}

impl fmt::Display for ImageLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(reference) => reference.fmt(f),
            Self::Layout {
                directory,
                name,
                digest,
            } => {
                write!(f, "{LAYOUT}{}", directory.display())?;
                if let Some(name) = name {
                    write!(f, ":{name}")?;
                }
                digest.iter().try_for_each(|digest| write!(f, "@{digest}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back() {
        let digest = ImageDigest::of(b"");
        for text in [
            "quay.io/example/release:1.2.3",
            "10.0.0.1:5000/a/b:latest",
            &format!("quay.io/example/release@{digest}"),
            "oci:out",
            "oci:/srv/images:mcd",
            &format!("oci:/srv/images@{digest}"),
        ] {
            let location: ImageLocation = text.parse().unwrap();
            assert_eq!(location.to_string(), text);
        }
        let plain: ImageLocation = "docker://quay.io/a".parse().unwrap();
        assert_eq!(plain.to_string(), "quay.io/a:latest");
    }

    #[test]
    fn digest_and_pull_spec_are_known() {
        let digest = ImageDigest::of(b"");
        let tagged: ImageLocation = "quay.io/a:v1".parse().unwrap();
        assert_eq!(tagged.digest(), Ok(None));
        let spec = tagged.pull_spec(&digest).unwrap();
        assert_eq!(spec.as_str(), format!("quay.io/a@{digest}"));
        let by_digest = tagged.with_digest(&digest);
        assert_eq!(by_digest.digest(), Ok(Some(digest.clone())));
        let directory: ImageLocation = "oci:out:a".parse().unwrap();
        assert_eq!(directory.pull_spec(&digest), None);
        assert_eq!(directory.with_digest(&digest).digest(), Ok(Some(digest)));
    }

    #[test]
    fn error_names_the_text() {
        for (text, expected) in [
            ("", "\"\" is no image"),
            ("quay.io/UP", "\"quay.io/UP\" is no image"),
            ("oci:", "\"oci:\" names no directory"),
            ("oci::name", "\"oci::name\" names no directory"),
            ("oci:x@sha256:1", "\"oci:x@sha256:1\" is no image"),
        ] {
            let error = text.parse::<ImageLocation>().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
