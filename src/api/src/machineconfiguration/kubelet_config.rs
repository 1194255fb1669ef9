//! KubeletConfig: options of the kubelets of pools.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tls_profile::TlsSecurityProfile;
use crate::condition::{Listed, words};
use crate::{ConditionStatus, nullable, raw};

/// Options of the kubelets of pools.
///
/// Source: `kubeletconfigs.machineconfiguration.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "KubeletConfig",
    status = "SettingStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "KubeletConfig sets options of the kubelets of pools."
)]
#[serde(rename_all = "camelCase")]
pub struct KubeletConfigSpec {
    /// Whether a node computes its system reservation from its size. Absent: workers do,
    /// control-plane nodes do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_sizing_reserved: Option<bool>,
    /// Fields of a KubeletConfiguration (`kubelet.config.k8s.io/v1beta1`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw::object")]
    pub kubelet_config: Option<Value>,
    /// Verbosity of the kubelet's log, 0 to 10. Absent: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub log_level: Option<i32>,
    /// Selects pools by their labels. Absent or empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_config_pool_selector: Option<LabelSelector>,
    /// TLS of the kubelet's server. Absent: that of the API server's object `cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_security_profile: Option<TlsSecurityProfile>,
}

/// What became of the options.
///
/// Source: `kubeletconfigs.machineconfiguration.openshift.io`, `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettingStatus {
    /// `Accepted`, then `Success` or `Failure` for older clients.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub conditions: Vec<SettingCondition>,
    /// Generation that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Whether options were taken over. `lastTransitionTime` may be null.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettingCondition {
    /// What it is about.
    #[serde(default)]
    pub r#type: SettingConditionType,
    /// Whether it holds.
    #[serde(default)]
    pub status: ConditionStatus,
    /// When `status` last changed.
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub last_transition_time: Option<Time>,
    /// Why, for programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Listed for SettingCondition {
    type Type = SettingConditionType;

    fn r#type(&self) -> &SettingConditionType {
        &self.r#type
    }

    fn status(&self) -> ConditionStatus {
        self.status
    }

    fn keep_transition_time(&mut self, present: &Self) {
        self.last_transition_time
            .clone_from(&present.last_transition_time);
    }
}

words! {
    /// Types of the conditions of a KubeletConfig and of a ContainerRuntimeConfig.
    pub enum SettingConditionType {
        /// The options are in a MachineConfig of each pool that is selected.
        Accepted = "Accepted",
        /// The same, in the form of older clients.
        Success = "Success",
        /// They are not; the message says why.
        Failure = "Failure",
    }
}

impl Default for SettingConditionType {
    fn default() -> Self {
        Self::Other(String::new())
    }
}
