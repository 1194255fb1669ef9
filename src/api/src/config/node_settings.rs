//! Node of `config.openshift.io`: settings that all nodes of the cluster share.
//!
//! Its CustomResourceDefinition is not ours; a cluster may lack it.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Name of the only object that counts.
pub const NAME: &str = "cluster";

/// What is read of the object.
///
/// Source: `nodes.config.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Node",
    root = "NodeSettings",
    schema = "disabled",
    derive = "PartialEq",
    doc = "Node holds settings that all nodes of the cluster share."
)]
#[serde(rename_all = "camelCase")]
pub struct NodeSettingsSpec {
    /// `v2`, `v1`, or empty for the default.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cgroup_mode: String,
    /// `Default`, `MediumUpdateAverageReaction`, `LowUpdateSlowReaction`, or empty: how often
    /// workers report, and how soon they count as gone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub worker_latency_profile: String,
}
