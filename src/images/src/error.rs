//! What may go wrong with an image.

use std::io;
use std::path::PathBuf;

use oci_client::errors::{OciDistributionError, OciErrorCode};
use release::payload::DigestMismatch;

use crate::budget::Excess;

/// What may go wrong with an image. Each message names the image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request to a registry failed.
    #[error("image {image}: the registry could not be asked")]
    Registry {
        image: String,
        /// The error of the registry, or of the way to it.
        #[source]
        source: Box<OciDistributionError>,
    },
    /// The image is not there.
    #[error("image {image} is not there")]
    Missing { image: String },
    /// A directory is no OCI layout, or holds several images and none was named.
    #[error("image {image}: {why}")]
    Layout {
        image: String,
        /// What is wrong with the directory.
        why: String,
    },
    /// A directory or file cannot be used.
    #[error("image {image}: cannot {what} {}", path.display())]
    File {
        image: String,
        /// What was tried, such as `read`.
        what: &'static str,
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The content is not the requested one.
    #[error("image {image}: {mismatch}")]
    Mismatch {
        image: String,
        mismatch: Box<DigestMismatch>,
    },
    /// A document of the image is wrong.
    #[error("image {image}: the {document} cannot be read")]
    Document {
        image: String,
        /// Which document: `manifest`, `configuration` or `index`.
        document: &'static str,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The manifest is of a form that is not supported.
    #[error("image {image}: {form} is not supported")]
    Form { image: String, form: String },
    /// A list has no image for a platform.
    #[error("image {image}: none of its images is for {platform}; it has {available}")]
    Platform {
        image: String,
        platform: String,
        available: String,
    },
    /// A layer cannot be read from its registry or from the disk.
    #[error("image {image}: layer {layer} cannot be read")]
    Layer {
        image: String,
        /// Digest of the layer.
        layer: String,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
    /// The content of a layer is no archive that can be unpacked.
    #[error("image {image}: layer {layer} cannot be unpacked")]
    Archive {
        image: String,
        /// Digest of the layer.
        layer: String,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
    /// The image takes more than it may.
    #[error("image {image}: {excess}")]
    Excess { image: String, excess: Excess },
    /// A file of a layer is larger than what is taken.
    #[error("image {image}: file {file} is larger than {max_bytes} bytes")]
    TooLarge {
        image: String,
        file: String,
        max_bytes: u64,
    },
    /// A file of a layer is of a kind that is not taken.
    #[error("image {image}: {file} is no regular file")]
    NotRegular { image: String, file: String },
    /// A path is not in the image.
    #[error("image {image}: there is no {path}")]
    NoPath { image: String, path: String },
    /// A file of the image would be written outside of the directory that it belongs in.
    #[error("image {image}: {path} leads out of the directory")]
    Outside { image: String, path: String },
    /// A layer or image cannot be made.
    #[error("cannot make {what}")]
    Make {
        what: String,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// Whether the content is not what its digest names: it was damaged or changed.
    pub fn is_mismatch(&self) -> bool {
        let is_of_registry = matches!(
            self,
            Self::Registry { source, .. } if matches!(**source, OciDistributionError::DigestError(_))
        );
        is_of_registry || matches!(self, Self::Mismatch { .. })
    }

    /// Whether a registry has no such image, or does not say whether it has.
    pub(crate) fn is_missing_or_refused(&self) -> bool {
        let Self::Registry { source, .. } = self else {
            return matches!(self, Self::Missing { .. });
        };
        let is_refusal =
            |code: &OciErrorCode| matches!(code, OciErrorCode::Denied | OciErrorCode::Unauthorized);
        matches!(
            **source,
            OciDistributionError::AuthenticationFailure(_)
                | OciDistributionError::UnauthorizedError { .. }
                | OciDistributionError::ServerError {
                    code: 401 | 403,
                    ..
                }
        ) || matches!(
            &**source,
            OciDistributionError::RegistryError { envelope, .. }
                if envelope.errors.iter().any(|error| is_refusal(&error.code))
        )
    }

    /// Whether the image itself is wrong, so that reading it again leads to the same error.
    pub fn is_of_image(&self) -> bool {
        match self {
            Self::Excess { excess, .. } => *excess != Excess::Cancelled,
            Self::Document { .. }
            | Self::Form { .. }
            | Self::Platform { .. }
            | Self::Archive { .. }
            | Self::TooLarge { .. }
            | Self::NotRegular { .. }
            | Self::NoPath { .. }
            | Self::Outside { .. } => true,
            Self::Registry { .. }
            | Self::Missing { .. }
            | Self::Layout { .. }
            | Self::File { .. }
            | Self::Mismatch { .. }
            | Self::Layer { .. }
            | Self::Make { .. } => false,
        }
    }

    /// What a registry's error is: an image that is not there, or anything else.
    pub(crate) fn of_registry(image: String, source: OciDistributionError) -> Self {
        let is_unknown = |code: &OciErrorCode| {
            matches!(
                code,
                OciErrorCode::ManifestUnknown | OciErrorCode::NameUnknown | OciErrorCode::NotFound
            )
        };
        let is_missing = matches!(
            &source,
            OciDistributionError::ImageManifestNotFoundError(_)
                | OciDistributionError::ServerError { code: 404, .. }
        ) || matches!(
            &source,
            OciDistributionError::RegistryError { envelope, .. }
                if envelope.errors.iter().any(|error| is_unknown(&error.code))
        );
        if is_missing {
            Self::Missing { image }
        } else {
            Self::Registry {
                image,
                source: Box::new(source),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_may_refuse_to_say_what_it_lacks() {
        let envelope = |code: &str| {
            let text = format!(r#"{{"errors":[{{"code":"{code}"}}]}}"#);
            OciDistributionError::RegistryError {
                envelope: serde_json::from_str(&text).unwrap(),
                url: String::new(),
            }
        };
        let server = |code| OciDistributionError::ServerError {
            code,
            url: String::new(),
            message: String::new(),
        };
        for (source, expected) in [
            (server(401), true),
            (server(403), true),
            (server(404), true),
            (server(500), false),
            (envelope("DENIED"), true),
            (envelope("UNAUTHORIZED"), true),
            (envelope("NAME_UNKNOWN"), true),
            (envelope("TOOMANYREQUESTS"), false),
            (
                OciDistributionError::UnauthorizedError { url: String::new() },
                true,
            ),
            (OciDistributionError::RegistryNoDigestError, false),
        ] {
            let text = source.to_string();
            let error = Error::of_registry("a".to_owned(), source);
            assert_eq!(error.is_missing_or_refused(), expected, "{text}");
        }
    }
}
