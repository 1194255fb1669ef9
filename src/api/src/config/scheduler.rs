//! Scheduler: whether the control plane takes the pods of workers.
//!
//! Its CustomResourceDefinition is not ours; a cluster may lack it.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Name of the one that counts.
pub const NAME: &str = "cluster";

/// What is read of a Scheduler.
///
/// Source: `schedulers.config.openshift.io`, `spec`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Scheduler",
    schema = "disabled",
    doc = "Scheduler says where pods of the cluster go."
)]
#[serde(rename_all = "camelCase")]
pub struct SchedulerSpec {
    /// Whether nodes of the control plane take the pods of workers; absent is no.
    #[serde(default)]
    pub masters_schedulable: bool,
}
