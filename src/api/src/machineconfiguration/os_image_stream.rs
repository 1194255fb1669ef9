//! OSImageStream: the streams of OS images that pools can choose from.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nullable;

/// Name of the only object that counts.
pub const NAME: &str = "cluster";

/// Which stream pools have that choose none.
///
/// Source: `osimagestreams.machineconfiguration.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "OSImageStream",
    plural = "osimagestreams",
    status = "OsImageStreamStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "OSImageStream names the streams of OS images that pools can choose from."
)]
#[serde(rename_all = "camelCase")]
pub struct OsImageStreamSpec {
    /// Stream of pools that choose none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub default_stream: String,
}

/// The streams of the release.
///
/// Source: `osimagestreams.machineconfiguration.openshift.io`, `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OsImageStreamStatus {
    /// Each stream, and its images.
    #[serde(default, deserialize_with = "nullable::or_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub available_streams: Vec<AvailableStream>,
    /// Stream of pools that choose none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub default_stream: String,
}

/// A stream of OS images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AvailableStream {
    /// Its name.
    pub name: String,
    /// Pull spec of its OS extensions.
    #[serde(default)]
    pub os_extensions_image: String,
    /// Pull spec of its OS.
    pub os_image: String,
}

impl OSImageStream {
    /// A stream that there is.
    pub fn stream(&self, name: &str) -> Option<&AvailableStream> {
        let mut streams = self.status.as_ref()?.available_streams.iter();
        streams.find(|stream| stream.name == name)
    }

    /// Names of all that there are, for people.
    pub fn stream_names(&self) -> String {
        let status = self.status.iter();
        let streams = status.flat_map(|status| &status.available_streams);
        let names: Vec<&str> = streams.map(|stream| stream.name.as_str()).collect();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    }
}
