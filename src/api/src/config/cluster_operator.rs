//! ClusterOperator: what one operator of a release reports.

#![expect(
    clippy::duplicated_attributes,
    reason = "each printer column has a type; the lint does not know that they are nested"
)]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ClusterCondition, ClusterConditionType};
use crate::{condition, nullable, raw};

/// Nothing: an operator reports only.
///
/// Source: `clusteroperators.config.openshift.io`, `spec`.
#[derive(
    CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterOperator",
    status = "ClusterOperatorStatus",
    shortname = "co",
    derive = "PartialEq",
    derive = "Default",
    doc = "ClusterOperator is what an operator of a release reports.",
    printcolumn(
        name = "Version",
        type_ = "string",
        description = "The version of the operator that is applied.",
        json_path = ".status.versions[?(@.name==\"operator\")].version"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        description = "Whether the operator works.",
        json_path = ".status.conditions[?(@.type==\"Available\")].status"
    ),
    printcolumn(
        name = "Progressing",
        type_ = "string",
        description = "Whether the operator changes something.",
        json_path = ".status.conditions[?(@.type==\"Progressing\")].status"
    ),
    printcolumn(
        name = "Degraded",
        type_ = "string",
        description = "Whether the operator does not reach its state.",
        json_path = ".status.conditions[?(@.type==\"Degraded\")].status"
    ),
    printcolumn(
        name = "Since",
        type_ = "date",
        description = "When Available last changed.",
        json_path = ".status.conditions[?(@.type==\"Available\")].lastTransitionTime"
    )
)]
pub struct ClusterOperatorSpec {}

/// What an operator reports.
///
/// Source: `clusteroperators.config.openshift.io`, `status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterOperatorStatus {
    /// What holds about the operator.
    #[serde(default, deserialize_with = "nullable::or_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<ClusterCondition>,
    /// What belongs to the operator alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw::nullable_object")]
    pub extension: Option<Value>,
    /// Objects to read when something is wrong with the operator.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    pub related_objects: Vec<RelatedObject>,
    /// Versions that are applied, by operand; that of `operator` last of all.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    pub versions: Vec<OperandVersion>,
}

impl ClusterOperatorStatus {
    /// The condition of that type.
    pub fn condition(&self, r#type: &ClusterConditionType) -> Option<&ClusterCondition> {
        condition::find(&self.conditions, r#type)
    }

    /// The version of an operand.
    pub fn version(&self, operand: &str) -> Option<&str> {
        let mut versions = self.versions.iter();
        let found = versions.find(|version| version.name == operand)?;
        Some(&found.version)
    }
}

/// Version of one part of an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperandVersion {
    /// The part; `operator` for the operator itself.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// An object that belongs to an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RelatedObject {
    /// API group; empty for the core group.
    pub group: String,
    /// Name; empty for all objects of the resource.
    pub name: String,
    /// Namespace, where the resource has namespaces.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Plural name of the kind.
    pub resource: String,
}
