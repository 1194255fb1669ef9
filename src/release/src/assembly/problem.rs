//! What keeps images from being a release.

use std::fmt;

use crate::manifest::ObjectId;
use crate::{component_versions, manifest, os_streams, references, substitution, verification};

/// A fault and the place that has it.
#[derive(Debug)]
pub struct AssemblyProblem {
    /// Image and file.
    pub source: ManifestSource,
    pub fault: Fault,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestSource {
    /// Name of the image; empty for what the request brings.
    pub image: String,
    /// Name of the file there; empty for the image as a whole.
    pub file: String,
}

/// What may be wrong with an image or a file.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// An image is labelled as an operator's, and has no manifests.
    #[error("it is an operator's image, and has no manifests")]
    NoManifests,
    /// No image is an operator's.
    #[error("no image is an operator's: the release would have no manifests")]
    NoOperator,
    /// `image-references` is wrong.
    #[error("it names no images")]
    References(#[source] references::Error),
    /// An image that a manifest needs is not among those of the release.
    #[error("no input image tag named {0:?}")]
    MissingImage(String),
    /// Two images have one placeholder.
    #[error("{0}")]
    Ambiguous(substitution::Ambiguous),
    /// A version's placeholder is wrong.
    #[error("{0}")]
    Versions(substitution::Error),
    /// An annotation or label names no versions.
    #[error("{key} names no versions")]
    ComponentVersions {
        key: &'static str,
        /// What is wrong with it.
        #[source]
        source: component_versions::Error,
    },
    /// Two images carry one component in two versions.
    #[error("it has {component} {version}, and image {other} has {other_version}")]
    Conflict {
        component: String,
        version: String,
        /// Name of the other image.
        other: String,
        other_version: String,
    },
    /// A file is not one of manifests.
    #[error("it is no list of manifests")]
    Manifest(#[source] manifest::Error),
    /// Two files describe one object for one cluster.
    #[error("it describes {id}, and so does {other}")]
    Twice {
        id: Box<ObjectId>,
        other: ManifestSource,
    },
    /// There is nothing to write streams of OS images into.
    #[error("no operator brings ConfigMap machine-config-osimageurl for the streams of OS images")]
    NoOsMap,
    /// The default stream is undetermined.
    #[error(
        "data.baseOSContainerImage of ConfigMap machine-config-osimageurl, {0:?}, is the OS image of no stream: its image needs label io.openshift.os.streamclass"
    )]
    BaseWithoutStream(String),
    /// An image is of a stream, and it is undetermined what it is there.
    #[error(
        "image {0} has label io.openshift.os.streamclass, and none that says whether it is an OS (containers.bootc) or extensions (io.openshift.os.extensions)"
    )]
    NeitherOsNorExtensions(String),
    /// A stream has one OS, and extensions once.
    #[error("image {image} is of stream {stream}, and so is {other}")]
    TwoOfAStream {
        stream: String,
        /// Name of the image.
        image: String,
        /// Pull spec of the other.
        other: String,
    },
    /// The streams are no release's.
    #[error(transparent)]
    OsStreams(#[from] os_streams::Error),
    /// Keyrings or stores are wrong.
    #[error("no verification can be asked for")]
    SignatureTrust(#[source] verification::Error),
}

impl ManifestSource {
    pub(crate) fn new(image: &str, file: &str) -> Self {
        Self {
            image: image.to_owned(),
            file: file.to_owned(),
        }
    }

    pub(crate) fn image(image: &str) -> Self {
        Self::new(image, "")
    }

    pub(crate) fn file(file: &str) -> Self {
        Self::new("", file)
    }

    pub(crate) fn problem(&self, fault: Fault) -> AssemblyProblem {
        AssemblyProblem {
            source: self.clone(),
            fault,
        }
    }
}

impl fmt::Display for ManifestSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.image.as_str(), self.file.as_str()) {
            ("", "") => f.write_str("release"),
            ("", file) => write!(f, "file {file}"),
            (image, "") => write!(f, "image {image}"),
            (image, file) => write!(f, "image {image}, file {file}"),
        }
    }
}

impl fmt::Display for AssemblyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.fault)
    }
}

impl std::error::Error for AssemblyProblem {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.fault)
    }
}
