//! RolloutPolicy: in which order and in which steps the nodes of a pool are updated. Ours; a pool
//! without one is rolled by its `maxUnavailable` alone.

#![expect(
    clippy::duplicated_attributes,
    reason = "each printer column has a type; the lint does not know that they are nested"
)]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::IntOrString;

/// How a pool's nodes follow each other. `maxUnavailable` of the pool holds in every step.
///
/// Shape: the object has the name of its pool.
/// Source: `docs/reference/rollout-policy.md`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "slipway.dev",
    version = "v1alpha1",
    kind = "RolloutPolicy",
    plural = "rolloutpolicies",
    derive = "PartialEq",
    derive = "Default",
    doc = "RolloutPolicy says in which order and in which steps the nodes of the MachineConfigPool of its name are updated.",
    printcolumn(
        name = "StartAfter",
        type_ = "string",
        description = "Time before which no node is assigned.",
        json_path = ".spec.startAfter"
    ),
    printcolumn(
        name = "Canaries",
        type_ = "integer",
        description = "Number of nodes that are updated first.",
        json_path = ".spec.canaries.count"
    ),
    printcolumn(
        name = "Soak",
        type_ = "string",
        description = "How long the canaries work before others follow.",
        json_path = ".spec.canaries.soak"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPolicySpec {
    /// Time before which no node is assigned the pool's configuration, as RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_after: Option<String>,
    /// Nodes that are updated before all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canaries: Option<CanarySpec>,
    /// Nodes that follow the canaries together; what is left follows the last wave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waves: Vec<WaveSpec>,
    /// The rollout is halted once more nodes than this failed, as a number or as a percentage of
    /// the pool, rounded down. Absent: once as many failed as may be out of service at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halt_above_failures: Option<IntOrString>,
    /// What decides who comes first, the most important first: `zone`, `oldest`, `newest`,
    /// `fewestBlockedPods`, or `label:` and a key, whose values are compared as texts. Absent:
    /// `zone`, then `oldest`. Nodes without the zone or label come last, and names decide what is
    /// left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// Times of the week in which nodes are taken out of service; absent, that is always.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<RolloutWindowSpec>,
    /// Queries that must all answer 1 before the nodes of a later step follow, and while they do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub analysis: Vec<AnalysisSpec>,
    /// Whether a rollout that is halted after failures is reverted: the nodes that got its
    /// configuration are assigned the one that all nodes of the pool had before.
    #[serde(default, skip_serializing_if = "is_false")]
    pub return_on_halt: bool,
    /// When a node that cannot be drained is passed over; absent, the rollout waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<QuarantineSpec>,
    /// Most bytes a second that each node fetches before its turn, as a quantity such as `20M`.
    /// Absent: as many as it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch_bytes_per_second: Option<IntOrString>,
    /// Most nodes that pull pinned images at once, as a number or as a percentage of the pool,
    /// rounded down, at least 1. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_image_pulls: Option<IntOrString>,
    /// How the pool's OS image is built, where a MachineOSConfig has it built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_build: Option<ImageBuildSpec>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for this form"
)]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// How an OS image is built.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageBuildSpec {
    /// How long a build may take, all its tries together, such as `45m`; `1h` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// What the build's pod requests, and its limits. Absent: requests of 500m CPU, 1Gi memory and
    /// 10Gi ephemeral storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ImageBuildResources>,
    /// Labels of the nodes that may build, beside operating system and architecture.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that the build's pod tolerates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// What the pod of a build requests, and its limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageBuildResources {
    /// Requests by resource, such as `memory: 2Gi`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, IntOrString>,
    /// Limits by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, IntOrString>,
}

/// A time of the week.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutWindowSpec {
    /// Name, for people.
    pub name: String,
    /// Days on which it opens, such as `Sat`; absent, on each day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<String>,
    /// When it opens on each of them, such as `22:30`.
    pub start: String,
    /// For how many minutes, up to a week.
    pub minutes: i64,
    /// Time zone of its days and times, such as `Europe/Berlin`; absent, `UTC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

/// A query of the cluster's metrics.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisSpec {
    /// Name, for people.
    pub name: String,
    /// The query, in PromQL. It answers with one sample: 1 if all is well, 0 if it is not.
    pub query: String,
}

/// When a node that cannot be drained is passed over.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuarantineSpec {
    /// How long a drain may take, such as `30m`.
    pub drain_limit: String,
    /// Most nodes that are passed over at once, as a number or as a percentage of the pool, rounded
    /// down; 1 if absent. Further ones hold the rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_nodes: Option<IntOrString>,
}

/// Nodes that are updated before all others: those that the selector selects, or the first ones of
/// the order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanarySpec {
    /// How many; 1 if neither this nor the selector is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    /// Which; not together with the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// How long all of them work in the new configuration before others follow, such as `30m` or
    /// `1h30m`; absent, others follow at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak: Option<String>,
}

/// Nodes that are updated together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaveSpec {
    /// How many, as a number or as a percentage of the pool, rounded up.
    pub size: IntOrString,
    /// How long all of them work in the new configuration before others follow, such as `30m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak: Option<String>,
}
