//! The TLS security profile of a server, as several kinds ask for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::raw;

/// Which versions and ciphers of TLS a server takes.
///
/// Shape: `type` decides; of the other fields only `custom` has members. Source:
/// `config.openshift.io/v1`, `TLSSecurityProfile`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TlsSecurityProfile {
    /// `Old`, `Intermediate`, `Modern` or `Custom`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["Old", "Intermediate", "Modern", "Custom"]))]
    pub r#type: String,
    /// Versions and ciphers, of type `Custom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub custom: Option<CustomTlsProfile>,
    /// Without members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw::nullable_empty")]
    pub intermediate: Option<Value>,
    /// Without members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw::nullable_empty")]
    pub modern: Option<Value>,
    /// Without members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw::nullable_empty")]
    pub old: Option<Value>,
}

/// Versions and ciphers of TLS that a user chose.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CustomTlsProfile {
    /// Ciphers by their OpenSSL names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ciphers: Vec<String>,
    /// The lowest version: `VersionTLS10` to `VersionTLS13`.
    #[serde(
        default,
        rename = "minTLSVersion",
        skip_serializing_if = "String::is_empty"
    )]
    #[schemars(extend("enum" = ["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"]))]
    pub min_tls_version: String,
}
