//! Conditions of ClusterVersion and ClusterOperator: older than `metav1.Condition`, so that reason
//! and message may be missing.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ConditionStatus;
use crate::condition::{Listed, words};

words! {
    /// What a condition is about.
    ///
    /// Source: `ClusterStatusConditionType` of openshift/api; the conditions of ClusterVersion.
    pub enum ClusterConditionType {
        /// It works.
        Available = "Available",
        /// It changes.
        Progressing = "Progressing",
        /// It does not reach its state.
        Degraded = "Degraded",
        /// The cluster may be updated to another minor release.
        Upgradeable = "Upgradeable",
        /// The release cannot be applied.
        Failing = "Failing",
        /// Settings contradict each other.
        Invalid = "Invalid",
        /// Updates were read from the update service.
        RetrievedUpdates = "RetrievedUpdates",
        /// The desired release may be applied.
        ReleaseAccepted = "ReleaseAccepted",
        /// Capabilities are on that the settings do not name.
        ImplicitlyEnabledCapabilities = "ImplicitlyEnabledCapabilities",
    }
}

/// A condition of a ClusterVersion or ClusterOperator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCondition {
    /// What it is about.
    pub r#type: ClusterConditionType,
    /// Whether it holds.
    #[schemars(schema_with = "status")]
    pub status: ConditionStatus,
    /// When `status` last changed.
    pub last_transition_time: Time,
    /// Why, for programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Upstream's definition takes any text.
fn status(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string" })
}

impl Listed for ClusterCondition {
    type Type = ClusterConditionType;

    fn r#type(&self) -> &ClusterConditionType {
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
