//! Group `config.openshift.io`, version `v1`: what a cluster runs, and what its operators report.

pub mod api_server;
pub mod cluster_condition;
pub mod cluster_operator;
pub mod cluster_version;
pub mod conditional_update;
pub mod control_plane_only;
pub mod feature_gate;
pub mod image;
pub mod image_policy;
pub mod mirror_set;
pub mod node_settings;
pub mod preflight;
pub mod release;
pub mod scheduler;

pub use api_server::APIServer;
pub use cluster_condition::{ClusterCondition, ClusterConditionType};
pub use cluster_operator::{
    ClusterOperator, ClusterOperatorSpec, ClusterOperatorStatus, OperandVersion, RelatedObject,
};
pub use cluster_version::{
    AcceptedRisk, CapabilitiesSpec, CapabilitiesStatus, ClusterVersion, ClusterVersionSpec,
    ClusterVersionStatus, ComponentOverride, HistoryEntry, HistoryState, Update,
};
pub use conditional_update::{
    ConditionalUpdate, ConditionalUpdateRisk, MatchingRule, PromQl, RecommendationType,
};
pub use feature_gate::{FeatureGate, FeatureGateStatus, NamedFeature, VersionFeatures};
pub use image::{Image, ImageSpec, RegistrySources};
pub use image_policy::{ClusterImagePolicy, ImagePolicy, SignaturePolicy};
pub use mirror_set::{ImageDigestMirrorSet, ImageMirrors, ImageTagMirrorSet};
pub use node_settings::NodeSettings;
pub use release::Release;
pub use scheduler::{Scheduler, SchedulerSpec};
