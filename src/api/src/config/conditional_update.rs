//! Updates that are recommended unless a risk applies to the cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Release;
use crate::condition::{Condition, words};
use crate::nullable;

/// A release that the cluster may be updated to unless a risk applies to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionalUpdate {
    /// The release.
    pub release: Release,
    /// Why it may not be recommended.
    #[schemars(length(min = 1, max = 200), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub risks: Vec<ConditionalUpdateRisk>,
    /// Whether it is recommended.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition<RecommendationType>>,
}

words! {
    /// What a condition of a conditional update is about.
    pub enum RecommendationType {
        /// No risk applies, or all are accepted.
        Recommended = "Recommended",
    }
}

/// A reason against an update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionalUpdateRisk {
    /// Page that describes it.
    #[schemars(length(min = 1), extend("format" = "uri"))]
    pub url: String,
    /// Its name, for programs.
    #[schemars(length(min = 1))]
    pub name: String,
    /// What it is, for people.
    #[schemars(length(min = 1))]
    pub message: String,
    /// Which clusters it applies to: the first rule that can be evaluated decides.
    #[schemars(length(min = 1), extend("x-kubernetes-list-type" = "atomic"))]
    pub matching_rules: Vec<MatchingRule>,
}

/// A rule by which a risk applies to clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MatchingRule {
    /// `Always` or `PromQL`.
    #[schemars(extend("enum" = ["Always", "PromQL"]))]
    pub r#type: String,
    /// The query of a `PromQL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promql: Option<PromQl>,
}

/// A query to the cluster's own metrics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromQl {
    /// It yields 1 where the risk applies, and 0 where not.
    pub promql: String,
}
