//! The files of a release image, read.

use std::collections::BTreeMap;

use crate::digest::ImageDigest;
use crate::manifest::{self, Manifest};
use crate::metadata::{self, Metadata};
use crate::order::is_manifest_file;
use crate::references::{self, References};
use crate::{METADATA_FILE, REFERENCES_FILE};

/// Files by name, without directory.
pub type Files = BTreeMap<String, Vec<u8>>;

/// What a release image holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    /// What the release is called, and which releases lead to it.
    pub metadata: Metadata,
    /// Its images; the name of the stream is the version.
    pub references: References,
    /// Manifests by file name, byte by byte, and in the order of each file.
    pub manifests: Vec<Manifest>,
}

/// Why files are no payload.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is missing that each release has.
    #[error("there is no {RELEASE}/{0}", RELEASE = crate::RELEASE_MANIFESTS)]
    Missing(&'static str),
    #[error("file {METADATA_FILE}")]
    Metadata(#[source] metadata::Error),
    #[error("file {REFERENCES_FILE}")]
    References(#[source] references::Error),
    /// The two files name two versions.
    #[error(
        "version from {REFERENCES_FILE} ({references}) differs from {METADATA_FILE} ({metadata})"
    )]
    Version {
        references: String,
        metadata: String,
    },
    /// A file of manifests is wrong.
    #[error("file {file}")]
    Manifest {
        file: String,
        #[source]
        source: manifest::Error,
    },
}

/// The content of an image is not what its digest names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the content has digest {found}, and {expected} was asked for")]
pub struct DigestMismatch {
    pub expected: ImageDigest,
    pub found: ImageDigest,
}

/// Holds bytes against the digest that they were requested by.
///
/// # Errors
/// [`DigestMismatch`].
pub fn check(expected: &ImageDigest, bytes: &[u8]) -> Result<(), DigestMismatch> {
    let found = ImageDigest::of(bytes);
    if found == *expected {
        return Ok(());
    }
    Err(DigestMismatch {
        expected: expected.clone(),
        found,
    })
}

impl Payload {
    /// Reads the files of `release-manifests`. Files that are neither manifests nor the two that
    /// each release has are passed over.
    ///
    /// Two files may describe one object, each for other clusters.
    ///
    /// # Errors
    /// [`Error`], with the file that is wrong.
    pub fn parse(files: &Files) -> Result<Self, Error> {
        let file = |name| files.get(name).ok_or(Error::Missing(name));
        let metadata = Metadata::parse(file(METADATA_FILE)?).map_err(Error::Metadata)?;
        let references = References::parse(file(REFERENCES_FILE)?).map_err(Error::References)?;
        if references.name != metadata.version.to_string() {
            return Err(Error::Version {
                references: references.name,
                metadata: metadata.version.to_string(),
            });
        }
        let mut manifests = Vec::new();
        for (name, bytes) in files.iter().filter(|(name, _)| is_manifest_file(name)) {
            let parsed = Manifest::parse(name, bytes);
            manifests.extend(parsed.map_err(|source| Error::Manifest {
                file: name.clone(),
                source,
            })?);
        }
        Ok(Self {
            metadata,
            references,
            manifests,
        })
    }
}

#[cfg(test)]
mod tests;
