//! Group `config.openshift.io`, version `v1`: what a cluster runs, and what its operators report.

pub mod cluster_condition;
pub mod cluster_operator;
pub mod cluster_version;
pub mod conditional_update;

pub use cluster_condition::{ClusterCondition, ClusterConditionType};
pub use cluster_operator::{
    ClusterOperator, ClusterOperatorSpec, ClusterOperatorStatus, OperandVersion, RelatedObject,
};
pub use cluster_version::{
    AcceptedRisk, CapabilitiesSpec, CapabilitiesStatus, ClusterVersion, ClusterVersionSpec,
    ClusterVersionStatus, ComponentOverride, HistoryEntry, HistoryState, Release, Update,
};
pub use conditional_update::{
    ConditionalUpdate, ConditionalUpdateRisk, MatchingRule, PromQl, RecommendationType,
};
