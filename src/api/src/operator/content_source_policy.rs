//! ImageContentSourcePolicy: mirrors of images by digest, in the form before ImageDigestMirrorSet.
//!
//! Its CustomResourceDefinition is not ours; a cluster may lack it.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::nullable;

/// Mirrors of images that are pulled by digest.
///
/// Source: `imagecontentsourcepolicies.operator.openshift.io`, version `v1alpha1`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "operator.openshift.io",
    version = "v1alpha1",
    kind = "ImageContentSourcePolicy",
    plural = "imagecontentsourcepolicies",
    schema = "disabled",
    derive = "PartialEq",
    doc = "ImageContentSourcePolicy names mirrors of images that are pulled by digest."
)]
#[serde(rename_all = "camelCase")]
pub struct ImageContentSourcePolicySpec {
    /// Sources and their mirrors.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub repository_digest_mirrors: Vec<RepositoryMirrors>,
}

/// A source and its mirrors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryMirrors {
    /// Repositories with the same images, the best first.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub mirrors: Vec<String>,
    /// Registry or repository, as images name it.
    #[serde(default)]
    pub source: String,
}
