//! ImageDigestMirrorSet and ImageTagMirrorSet: where else images are.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nullable;

/// Mirrors of images that are pulled by digest.
///
/// Source: `imagedigestmirrorsets.config.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ImageDigestMirrorSet",
    shortname = "idms",
    status = "MirrorSetStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "ImageDigestMirrorSet names mirrors of images that are pulled by digest."
)]
#[serde(rename_all = "camelCase")]
pub struct ImageDigestMirrorSetSpec {
    /// Sources and their mirrors.
    #[serde(default, deserialize_with = "nullable::or_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub image_digest_mirrors: Vec<ImageMirrors>,
}

/// Mirrors of images that are pulled by tag.
///
/// Source: `imagetagmirrorsets.config.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ImageTagMirrorSet",
    shortname = "itms",
    status = "MirrorSetStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "ImageTagMirrorSet names mirrors of images that are pulled by tag."
)]
#[serde(rename_all = "camelCase")]
pub struct ImageTagMirrorSetSpec {
    /// Sources and their mirrors.
    #[serde(default, deserialize_with = "nullable::or_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub image_tag_mirrors: Vec<ImageMirrors>,
}

/// A source and its mirrors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageMirrors {
    /// `AllowContactingSource` or `NeverContactSource`: whether the source is tried after the
    /// mirrors. Absent: it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["AllowContactingSource", "NeverContactSource"]))]
    pub mirror_source_policy: String,
    /// Repositories with the same images, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub mirrors: Vec<String>,
    /// Registry, repository, or `*.` and a domain, as images name it.
    pub source: String,
}

/// Empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MirrorSetStatus {}
