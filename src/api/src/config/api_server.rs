//! APIServer: what of it concerns kubelets.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::machineconfiguration::TlsSecurityProfile;

/// Name of the only object that counts.
pub const NAME: &str = "cluster";

/// What is read of the settings of the API server. Its definition is not ours; a cluster may lack
/// it.
///
/// Source: `apiservers.config.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "APIServer",
    plural = "apiservers",
    schema = "disabled",
    derive = "PartialEq",
    doc = "APIServer holds the settings of the API server."
)]
#[serde(rename_all = "camelCase")]
pub struct ApiServerSpec {
    /// TLS of the API server, and of servers that say nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_security_profile: Option<TlsSecurityProfile>,
}
