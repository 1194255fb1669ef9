//! Group `upgrade.managed.openshift.io`, version `v1alpha1`: an upgrade of a cluster on a date.
//!
//! The definition is upstream's file, `deploy/managed-upgrade/crds`; these types read and write it.

pub mod plan;
pub mod upgrade_config;

pub use plan::{PlanForecast, PlanState, PlanStep, PlanWindow, UpgradePlan};
pub use upgrade_config::{
    DesiredRelease, UpgradeCondition, UpgradeConfig, UpgradeConfigSpec, UpgradeConfigStatus,
    UpgradeHistoryEntry, UpgradePhase, UpgradeType,
};

/// Namespace in which the managed upgrade operator runs and keeps its lease.
pub const NAMESPACE: &str = "openshift-managed-upgrade-operator";
