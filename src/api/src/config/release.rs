//! A release, as ClusterVersion names it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nullable;

/// A release.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Release {
    /// `Multi`, if it is for several architectures.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["Multi", ""]))]
    pub architecture: String,
    /// Version.
    pub version: String,
    /// Pull spec.
    pub image: String,
    /// Page that describes it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// Channels that hold it.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub channels: Vec<String>,
}
