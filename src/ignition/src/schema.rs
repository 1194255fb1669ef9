//! The Ignition configuration, specification 3.5.0: its root and the sections that are about
//! Ignition itself.
//!
//! Every type here is shaped as the specification names it (`coreos/ignition`, configuration
//! specification v3.5.0). An absent member is `None` or empty; members that are empty are not
//! printed, because the name of a rendered configuration is made of what is printed.

use serde::{Deserialize, Serialize};

use super::member::is_empty;
use super::passwd::Passwd;
use super::resource::Resource;
use super::storage::Storage;
use super::systemd::Systemd;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    /// Metadata: version, other configurations, proxy, security, timeouts.
    pub ignition: Ignition,
    /// Kernel arguments, from specification 3.3 on.
    #[serde(skip_serializing_if = "is_empty")]
    pub kernel_arguments: KernelArguments,
    #[serde(skip_serializing_if = "is_empty")]
    pub passwd: Passwd,
    /// Disks, file systems, files, directories, links.
    #[serde(skip_serializing_if = "is_empty")]
    pub storage: Storage,
    #[serde(skip_serializing_if = "is_empty")]
    pub systemd: Systemd,
}

/// `ignition`: metadata about the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ignition {
    /// Other configurations, fetched at first boot.
    #[serde(skip_serializing_if = "is_empty")]
    pub config: IgnitionConfig,
    /// Proxies for what is fetched.
    #[serde(skip_serializing_if = "is_empty")]
    pub proxy: Proxy,
    /// Trust for what is fetched.
    #[serde(skip_serializing_if = "is_empty")]
    pub security: Security,
    /// Limits for what is fetched.
    #[serde(skip_serializing_if = "is_empty")]
    pub timeouts: Timeouts,
    /// Version of the specification, `3.5.0` once parsed.
    pub version: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IgnitionConfig {
    /// Configurations merged into this one.
    #[serde(skip_serializing_if = "is_empty")]
    pub merge: Vec<Resource>,
    /// The configuration that takes this one's place.
    #[serde(skip_serializing_if = "is_empty")]
    pub replace: Resource,
}

/// `ignition.proxy`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Proxy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_proxy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub https_proxy: Option<String>,
    #[serde(skip_serializing_if = "is_empty")]
    pub no_proxy: Vec<String>,
}

/// `ignition.security`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Security {
    #[serde(skip_serializing_if = "is_empty")]
    pub tls: Tls,
}

/// `ignition.security.tls`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tls {
    /// Certificate authorities trusted besides those of the system.
    #[serde(skip_serializing_if = "is_empty")]
    pub certificate_authorities: Vec<Resource>,
}

/// `ignition.timeouts`, in seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeouts {
    /// Seconds until the headers of a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_response_headers: Option<i64>,
    /// Seconds until the whole response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_total: Option<i64>,
}

/// `kernelArguments`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KernelArguments {
    /// Arguments that must be there.
    #[serde(skip_serializing_if = "is_empty")]
    pub should_exist: Vec<String>,
    #[serde(skip_serializing_if = "is_empty")]
    pub should_not_exist: Vec<String>,
}
