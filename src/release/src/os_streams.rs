//! The streams of OS images that a release names: several operating systems beside each other.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::pull_spec::{self, PullSpec};

/// ConfigMap by which a release names its OS.
pub const OS_IMAGE: &str = "machine-config-osimageurl";

/// Key in [`OS_IMAGE`]: JSON in the form of the status of OSImageStream. Without it a release has
/// one OS.
pub const STREAMS_KEY: &str = "osImageStreams.json";

/// Longest name of a stream, in characters, and most streams. Source: OSImageStream, validation of
/// `status.availableStreams`.
const NAME_MAX: usize = 253;
const STREAMS_MAX: usize = 100;

/// Why the streams of a release cannot be followed.
#[derive(Debug, thiserror::Error)]
#[error("ConfigMap {OS_IMAGE}: data.{STREAMS_KEY}")]
pub struct Error(#[from] Fault);

/// What is wrong with them. Places count from 0.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It is no JSON of that form.
    #[error("it has another form than the status of an OSImageStream")]
    Read(#[source] serde_json::Error),
    #[error("availableStreams names no stream; a release of one OS has no such key")]
    NoStreams,
    #[error("availableStreams has {0} streams, and {STREAMS_MAX} are the most")]
    TooManyStreams(usize),
    #[error("availableStreams[{place}].name {name:?} is no DNS subdomain in lower case")]
    StreamName { place: usize, name: String },
    #[error("availableStreams names stream {0} twice")]
    Twice(String),
    #[error("availableStreams[{place}].osImage: stream {name} has no OS image{beside}")]
    NoStreamImage {
        place: usize,
        name: String,
        /// What it has instead, if it has something.
        beside: &'static str,
    },
    #[error("availableStreams[{place}].{field} of stream {name}")]
    StreamImage {
        place: usize,
        field: &'static str,
        name: String,
        #[source]
        source: pull_spec::Error,
    },
    #[error("defaultStream {0:?} is no stream of availableStreams")]
    NoDefault(String),
    /// A controller that knows no streams takes this image.
    #[error("data.{key} of the ConfigMap is not the image of stream {name}, the default")]
    OtherBase { key: &'static str, name: String },
}

/// The streams of a release, checked: there is one at least, each has a name and an OS image by
/// digest, and the default is one of them.
///
/// Shape: that of the status of OSImageStream. As printed, the streams are sorted by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseStreams {
    #[serde(default)]
    default_stream: String,
    #[serde(default)]
    available_streams: Vec<OsStream>,
}

/// A stream, and its images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OsStream {
    #[serde(default)]
    pub name: String,
    /// Pull spec of its OS.
    #[serde(default)]
    pub os_image: String,
    /// Pull spec of its extensions; empty for none.
    #[serde(default)]
    pub os_extensions_image: String,
}

impl ReleaseStreams {
    /// Reads what the key holds. `os` and `extensions` are the release's images for controllers
    /// that know no streams.
    ///
    /// # Errors
    /// [`Error`], with the first fault.
    pub fn parse(text: &str, os: &str, extensions: &str) -> Result<Self, Error> {
        let written: Self = serde_json::from_str(text).map_err(Fault::Read)?;
        Self::new(
            written.default_stream,
            written.available_streams,
            os,
            extensions,
        )
    }

    /// Takes streams in any order; the rest is as for [`Self::parse`].
    ///
    /// # Errors
    /// [`Error`], with the first fault.
    pub fn new(
        default: String,
        mut streams: Vec<OsStream>,
        os: &str,
        extensions: &str,
    ) -> Result<Self, Error> {
        match streams.len() {
            0 => return Err(Fault::NoStreams.into()),
            count if count > STREAMS_MAX => return Err(Fault::TooManyStreams(count).into()),
            _ => {}
        }
        let mut names = BTreeSet::new();
        for (place, stream) in streams.iter().enumerate() {
            stream.check(place)?;
            if !names.insert(stream.name.as_str()) {
                return Err(Fault::Twice(stream.name.clone()).into());
            }
        }
        streams.sort_by(|one, other| one.name.cmp(&other.name));
        let Some(stream) = streams.iter().find(|stream| stream.name == default) else {
            return Err(Fault::NoDefault(default).into());
        };
        let of = |key| Fault::OtherBase {
            key,
            name: default.clone(),
        };
        if os != stream.os_image {
            return Err(of("baseOSContainerImage").into());
        }
        // A release may have none for controllers that know no streams.
        if !extensions.is_empty() && extensions != stream.os_extensions_image {
            return Err(of("baseOSExtensionsContainerImage").into());
        }
        Ok(Self {
            default_stream: default,
            available_streams: streams,
        })
    }

    /// The stream of pools that choose none, where the cluster does not choose either.
    pub fn default_stream(&self) -> &str {
        &self.default_stream
    }

    /// All of them, by name.
    pub fn streams(&self) -> &[OsStream] {
        &self.available_streams
    }
}

impl OsStream {
    fn check(&self, place: usize) -> Result<(), Fault> {
        let name = self.name.clone();
        if !is_subdomain(&name) {
            return Err(Fault::StreamName { place, name });
        }
        if self.os_image.is_empty() {
            let beside = if self.os_extensions_image.is_empty() {
                ""
            } else {
                ", and osExtensionsImage alone is of no use"
            };
            return Err(Fault::NoStreamImage {
                place,
                name,
                beside,
            });
        }
        for (field, image) in [
            ("osImage", &self.os_image),
            ("osExtensionsImage", &self.os_extensions_image),
        ] {
            // Extensions are no part of every OS. A name that no digest took the place of is an
            // image that the release does not have.
            if !image.is_empty()
                && let Err(source) = image.parse::<PullSpec>()
            {
                return Err(Fault::StreamImage {
                    place,
                    field,
                    name,
                    source,
                });
            }
        }
        Ok(())
    }
}

/// Whether a text is a DNS subdomain as RFC 1123 has it, in lower case.
fn is_subdomain(text: &str) -> bool {
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let label = label.as_bytes();
        label.first().is_some_and(|byte| is_end(*byte))
            && label.last().is_some_and(|byte| is_end(*byte))
            && label.iter().all(|byte| is_end(*byte) || *byte == b'-')
    };
    text.len() <= NAME_MAX && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests;
