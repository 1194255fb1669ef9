//! What each metric is.

use super::{
    CONTROL_PLANE_TIMEOUT, DRAIN_TIMEOUT, HEALTH_FAILED, NOTIFICATION, NOTIFICATION_FAILED, RESULT,
    SCALING_FAILED, STARTED, SYNC, VALIDATION_FAILED, WINDOW_BREACHED, WORKER_TIMEOUT,
};

/// All metrics with what they are.
pub const ALL: &[(&str, &str)] = &[
    (
        VALIDATION_FAILED,
        "Whether the UpgradeConfig cannot be followed.",
    ),
    (
        SCALING_FAILED,
        "Whether extra machines were not ready in time.",
    ),
    (
        WINDOW_BREACHED,
        "Whether the window closed before the cluster was changed.",
    ),
    (
        CONTROL_PLANE_TIMEOUT,
        "Whether the control plane takes too long.",
    ),
    (WORKER_TIMEOUT, "Whether workers take too long."),
    (
        HEALTH_FAILED,
        "Whether a health check found something, by its reason.",
    ),
    (DRAIN_TIMEOUT, "Whether the drain of a node takes too long."),
    (NOTIFICATION, "States that were announced; always 1."),
    (
        NOTIFICATION_FAILED,
        "Whether a state could not be announced.",
    ),
    (SYNC, "When the source of the UpgradeConfig was read last."),
    (
        RESULT,
        "1 if no paging alert fired during an upgrade that is done, else 0.",
    ),
    (STARTED, "When the start was announced."),
    (
        "upgradeoperator_controlplane_upgrade_started_timestamp",
        "When ClusterVersion was set.",
    ),
    (
        "upgradeoperator_controlplane_upgrade_completed_timestamp",
        "When the control plane was done.",
    ),
    (
        "upgradeoperator_workernode_upgrade_started_timestamp",
        "When workers began.",
    ),
    (
        "upgradeoperator_workernode_upgrade_completed_timestamp",
        "When workers were done.",
    ),
    (
        "upgradeoperator_upgrade_completed_timestamp",
        "When the end was announced.",
    ),
    (
        "managed_upgrade_upgrade_start_timestamp",
        "When the steps began.",
    ),
    (
        "managed_upgrade_upgrade_complete_timestamp",
        "When the last step was done.",
    ),
    (
        "managed_upgrade_upgrade_scheduled",
        "When the upgrade is to start.",
    ),
    (
        "managed_upgrade_upgrade_pdb_timeout_minutes",
        "Minutes of PDBForceDrainTimeout.",
    ),
    (
        "managed_upgrade_condition_notification_start_timestamp",
        "Step StartedNotificationSent.",
    ),
    (
        "managed_upgrade_condition_health_check_timestamp",
        "Step ClusterHealthyBeforeUpgrade.",
    ),
    (
        "managed_upgrade_condition_external_dep_check_timestamp",
        "Step ExternalDependenciesAvailable.",
    ),
    (
        "managed_upgrade_condition_capacity_added_timestamp",
        "Step ComputeCapacityReserved.",
    ),
    (
        "managed_upgrade_condition_control_plane_maint_start_timestamp",
        "Step ControlPlaneMaintenanceWindowCreated.",
    ),
    (
        "managed_upgrade_condition_control_plane_upgrade_start_timestamp",
        "Step UpgradeCommenced.",
    ),
    (
        "managed_upgrade_condition_control_plane_completion_timestamp",
        "Step ControlPlaneUpgraded.",
    ),
    (
        "managed_upgrade_condition_control_plane_maint_removed_timestamp",
        "Step ControlPlaneMaintenanceWindowRemoved.",
    ),
    (
        "managed_upgrade_condition_workers_maint_start_timestamp",
        "Step WorkersMaintenanceWindowCreated.",
    ),
    (
        "managed_upgrade_condition_workers_upgraded_timestamp",
        "Step WorkerNodesUpgraded.",
    ),
    (
        "managed_upgrade_condition_capacity_removed_timestamp",
        "Step ComputeCapacityRemoved.",
    ),
    (
        "managed_upgrade_condition_workers_maint_removed_timestamp",
        "Step WorkersMaintenanceWindowRemoved.",
    ),
    (
        "managed_upgrade_condition_post_upgrade_healthcheck_timestamp",
        "Step ClusterHealthyAfterUpgrade.",
    ),
    (
        "managed_upgrade_condition_notification_complete_timestamp",
        "Step CompletedNotificationSent.",
    ),
];

/// Steps whose time is a metric: metric of the upgrade, if any; of the condition; condition.
pub const STEPS: &[(&[&str], &str, &str)] = &[
    (
        &[STARTED],
        "managed_upgrade_condition_notification_start_timestamp",
        "StartedNotificationSent",
    ),
    (
        &[],
        "managed_upgrade_condition_health_check_timestamp",
        "ClusterHealthyBeforeUpgrade",
    ),
    (
        &[],
        "managed_upgrade_condition_external_dep_check_timestamp",
        "ExternalDependenciesAvailable",
    ),
    (
        &[],
        "managed_upgrade_condition_capacity_added_timestamp",
        "ComputeCapacityReserved",
    ),
    (
        &[],
        "managed_upgrade_condition_control_plane_maint_start_timestamp",
        "ControlPlaneMaintenanceWindowCreated",
    ),
    (
        &["upgradeoperator_controlplane_upgrade_started_timestamp"],
        "managed_upgrade_condition_control_plane_upgrade_start_timestamp",
        "UpgradeCommenced",
    ),
    (
        &[
            "upgradeoperator_controlplane_upgrade_completed_timestamp",
            "upgradeoperator_workernode_upgrade_started_timestamp",
        ],
        "managed_upgrade_condition_control_plane_completion_timestamp",
        "ControlPlaneUpgraded",
    ),
    (
        &[],
        "managed_upgrade_condition_control_plane_maint_removed_timestamp",
        "ControlPlaneMaintenanceWindowRemoved",
    ),
    (
        &[],
        "managed_upgrade_condition_workers_maint_start_timestamp",
        "WorkersMaintenanceWindowCreated",
    ),
    (
        &["upgradeoperator_workernode_upgrade_completed_timestamp"],
        "managed_upgrade_condition_workers_upgraded_timestamp",
        "WorkerNodesUpgraded",
    ),
    (
        &[],
        "managed_upgrade_condition_capacity_removed_timestamp",
        "ComputeCapacityRemoved",
    ),
    (
        &[],
        "managed_upgrade_condition_workers_maint_removed_timestamp",
        "WorkersMaintenanceWindowRemoved",
    ),
    (
        &[],
        "managed_upgrade_condition_post_upgrade_healthcheck_timestamp",
        "ClusterHealthyAfterUpgrade",
    ),
    (
        &["upgradeoperator_upgrade_completed_timestamp"],
        "managed_upgrade_condition_notification_complete_timestamp",
        "CompletedNotificationSent",
    ),
];
