//! Where the bytes of a file, certificate or configuration come from.

use serde::{Deserialize, Serialize};

use super::member::is_empty;

/// A resource: bytes named by a URL, perhaps compressed, perhaps with a hash they must have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resource {
    /// `gzip`, or empty for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<String>,
    /// Headers sent with the request; only for `http` and `https`.
    #[serde(skip_serializing_if = "is_empty")]
    pub http_headers: Vec<HttpHeader>,
    /// URL; only `data:` is supported on a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What the bytes, decompressed, are checked against.
    #[serde(skip_serializing_if = "is_empty")]
    pub verification: Verification,
}

/// A header of a request. Without a value it removes the header of that name when configurations
/// are merged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpHeader {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// What bytes are checked against.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Verification {
    /// `sha256-<hex>` or `sha512-<hex>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}
