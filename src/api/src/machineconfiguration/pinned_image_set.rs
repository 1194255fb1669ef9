//! PinnedImageSet: images that nodes of pools keep.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nullable;

/// Images that the nodes of the pools which select the object pull and keep.
///
/// Source: `pinnedimagesets.machineconfiguration.openshift.io`, `spec`.
#[derive(
    CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "PinnedImageSet",
    derive = "PartialEq",
    derive = "Default",
    doc = "PinnedImageSet names images that nodes of pools pull and keep."
)]
#[serde(rename_all = "camelCase")]
pub struct PinnedImageSetSpec {
    /// The images, each once.
    #[serde(default, deserialize_with = "nullable::or_default")]
    #[schemars(length(min = 1, max = 500))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pinned_images: Vec<PinnedImageRef>,
}

/// An image that is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinnedImageRef {
    /// Its pull spec, by digest.
    #[schemars(length(min = 1, max = 447))]
    pub name: String,
}
