//! UpgradeConfig: which release a cluster is upgraded to, from when on, and how far that has come.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::condition::{self, Listed, words};
use crate::{ConditionStatus, nullable};

/// The only object that counts.
pub const NAME: &str = "managed-upgrade-config";

/// Longest `PDBForceDrainTimeout` in minutes, a year: times that it is added to stay times.
pub const LONGEST_FORCE_DRAIN_MINUTES: i32 = 366 * 24 * 60;

/// What a cluster is upgraded to, and when.
///
/// Source: `upgradeconfigs.upgrade.managed.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "upgrade.managed.openshift.io",
    version = "v1alpha1",
    kind = "UpgradeConfig",
    namespaced,
    schema = "disabled",
    status = "UpgradeConfigStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "UpgradeConfig is an upgrade of a cluster on a date."
)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeConfigSpec {
    /// Which list of steps is run.
    pub r#type: UpgradeType,
    /// When the upgrade starts, by RFC 3339; the API server takes any text.
    pub upgrade_at: String,
    /// Minutes after which a drain that a PodDisruptionBudget blocks is forced, from 0 to
    /// [`LONGEST_FORCE_DRAIN_MINUTES`]; an object that is older than that limit may have more.
    #[serde(rename = "PDBForceDrainTimeout")]
    pub pdb_force_drain_timeout: i32,
    /// Whether each worker MachineSet gets one more machine for the time of the upgrade.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub capacity_reservation: bool,
    /// The release.
    #[serde(default)]
    pub desired: DesiredRelease,
}

/// The release that an upgrade leads to: by version and channel, or by image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesiredRelease {
    /// Version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Channel that offers the version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub channel: String,
    /// Pull spec.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
}

words! {
    /// Which list of steps is run.
    #[derive(Default)]
    pub enum UpgradeType {
        /// That of OpenShift Dedicated.
        #[default]
        Osd = "OSD",
        /// That of Azure Red Hat OpenShift.
        Aro = "ARO",
    }
}

words! {
    /// How far an upgrade has come.
    pub enum UpgradePhase {
        /// It was seen.
        New = "New",
        /// It waits for its time.
        Pending = "Pending",
        /// Its steps run.
        Upgrading = "Upgrading",
        /// All steps are done.
        Upgraded = "Upgraded",
        /// It was given up before the cluster was changed.
        Failed = "Failed",
    }
}

/// How far the upgrades of a cluster have come.
///
/// Source: `upgradeconfigs.upgrade.managed.openshift.io`, `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpgradeConfigStatus {
    /// One entry a version, newest first.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    pub history: Vec<UpgradeHistoryEntry>,
}

/// One upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeHistoryEntry {
    /// Version that it leads to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Version before.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub preceding_version: String,
    /// How far it has come.
    pub phase: UpgradePhase,
    /// When its steps began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When its last step was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_time: Option<Time>,
    /// When its first node began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_start_time: Option<Time>,
    /// When its last node was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_complete_time: Option<Time>,
    /// Its steps, the latest first.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    pub conditions: Vec<UpgradeCondition>,
}

/// A step of an upgrade, or what else holds about it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeCondition {
    /// What it is about.
    pub r#type: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, for programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the step began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the step was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_time: Option<Time>,
    /// When it was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// When `status` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

impl Listed for UpgradeCondition {
    type Type = String;

    fn r#type(&self) -> &String {
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

impl UpgradeHistoryEntry {
    /// The condition of that type.
    pub fn condition(&self, r#type: &str) -> Option<&UpgradeCondition> {
        condition::find(&self.conditions, &r#type.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const DEFINITION: &str = include_str!(
        "../../../../deploy/managed-upgrade/crds/upgrade.managed.openshift.io_upgradeconfigs.yaml"
    );

    /// A value with every field of a schema.
    fn sample(schema: &Value) -> Value {
        let text = |pointer| schema.pointer(pointer).and_then(Value::as_str);
        match (text("/type"), text("/format")) {
            (Some("object"), _) => {
                let fields = schema.pointer("/properties").and_then(Value::as_object);
                let fields = fields.into_iter().flatten();
                fields
                    .map(|(name, field)| (name.clone(), sample(field)))
                    .collect()
            }
            (Some("array"), _) => json!([sample(&schema["items"])]),
            (Some("integer"), _) => json!(7),
            (Some("boolean"), _) => json!(true),
            (_, Some("date-time")) => json!("2026-01-02T03:04:05Z"),
            _ => schema
                .pointer("/enum/0")
                .cloned()
                .unwrap_or_else(|| json!("True")),
        }
    }

    #[test]
    fn definition_limits_the_time_after_which_drains_are_forced() {
        let definition: Value = serde_saphyr::from_str(DEFINITION).unwrap();
        let field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/\
                     PDBForceDrainTimeout";
        let field = definition.pointer(field).unwrap();
        assert_eq!(field["minimum"], json!(0));
        assert_eq!(field["maximum"], json!(LONGEST_FORCE_DRAIN_MINUTES));
    }

    #[test]
    fn every_field_of_upstreams_definition_is_read_and_written() {
        let definition: Value = serde_saphyr::from_str(DEFINITION).unwrap();
        let schema = definition
            .pointer("/spec/versions/0/schema/openAPIV3Schema/properties")
            .unwrap();
        let expected =
            json!({ "spec": sample(&schema["spec"]), "status": sample(&schema["status"]) });
        assert!(expected["status"]["history"][0]["conditions"][0]["lastProbeTime"].is_string());
        let mut object = expected.clone();
        object["apiVersion"] = json!("upgrade.managed.openshift.io/v1alpha1");
        object["kind"] = json!("UpgradeConfig");
        object["metadata"] = json!({});
        let read: UpgradeConfig = serde_json::from_value(object).unwrap();
        let written = json!({ "spec": read.spec, "status": read.status });
        assert_eq!(written, expected);
    }
}
