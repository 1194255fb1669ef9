//! Names and series of the operator's metrics, and those that follow from the status.
//!
//! Times of steps are those of the status, so that a restart changes none.

mod descriptions;

use api::ConditionStatus;
use api::config::ClusterVersion;
use api::upgrade::{UpgradeConfig, UpgradeHistoryEntry, upgrade_config};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub use self::descriptions::{ALL, STEPS};
use crate::release_state::{current_version, preceding_version};

/// Labels of a series.
pub type LabelPairs = Vec<(&'static str, String)>;

/// One number: metric, labels, value.
pub type UpgradeSample = (&'static str, LabelPairs, f64);

/// Whether the UpgradeConfig cannot be followed.
pub const VALIDATION_FAILED: &str = "upgradeoperator_upgradeconfig_validation_failed";
/// Whether extra machines were not ready in time.
pub const SCALING_FAILED: &str = "upgradeoperator_scaling_failed";
/// Whether the window closed before the cluster was changed.
pub const WINDOW_BREACHED: &str = "upgradeoperator_upgrade_window_breached";
/// Whether the control plane takes too long.
pub const CONTROL_PLANE_TIMEOUT: &str = "upgradeoperator_controlplane_timeout";
/// Whether workers take too long.
pub const WORKER_TIMEOUT: &str = "upgradeoperator_worker_timeout";
/// Whether a health check found something.
pub const HEALTH_FAILED: &str = "upgradeoperator_healthcheck_failed";
/// Nodes whose drain takes too long.
pub const DRAIN_TIMEOUT: &str = "upgradeoperator_node_drain_timeout";
/// Announcements that were made.
pub const NOTIFICATION: &str = "upgradeoperator_upgrade_notification";
/// Announcements that could not be made.
pub const NOTIFICATION_FAILED: &str = "upgrade_notification_failed";
/// When the fleet manager was read last.
pub const SYNC: &str = "upgradeoperator_upgradeconfig_sync_timestamp";
pub const RESULT: &str = "upgradeoperator_upgrade_result";
const STARTED: &str = "upgradeoperator_upgrade_started_timestamp";

/// Flags that a given-up upgrade leaves behind no more.
pub const FAILURES: [&str; 7] = [
    VALIDATION_FAILED,
    SCALING_FAILED,
    CONTROL_PLANE_TIMEOUT,
    HEALTH_FAILED,
    WORKER_TIMEOUT,
    DRAIN_TIMEOUT,
    NOTIFICATION_FAILED,
];

/// What follows from the status of the upgrade to `entry`. Series of which something is unknown
/// are left out.
pub fn status_series(
    upgrade: &UpgradeConfig,
    entry: &UpgradeHistoryEntry,
    version: &ClusterVersion,
) -> Vec<UpgradeSample> {
    let status = version.status.clone().unwrap_or_default();
    let desired = entry.version.as_str();
    let Ok(current) = current_version(&status) else {
        return Vec::new();
    };
    let running = if current == desired {
        preceding_version(&status, desired)
    } else {
        current
    };
    let own = |pairs: &[(&'static str, &str)]| -> LabelPairs {
        pairs
            .iter()
            .map(|(key, value)| (*key, (*value).to_owned()))
            .collect()
    };
    let seconds = |time: &Time| seconds(time.0.as_second());
    let mut series = Vec::new();
    let phase = entry.phase.as_str();
    let of_phase = own(&[
        ("version", running),
        ("desired_version", desired),
        ("phase", phase),
    ]);
    for (name, time) in [
        ("managed_upgrade_upgrade_start_timestamp", &entry.start_time),
        (
            "managed_upgrade_upgrade_complete_timestamp",
            &entry.complete_time,
        ),
    ] {
        if let Some(time) = time {
            series.push((name, of_phase.clone(), seconds(time)));
        }
    }
    if let Ok(at) = crate::schedule::parse_start(&upgrade.spec.upgrade_at) {
        let name = "managed_upgrade_upgrade_scheduled";
        series.push((name, of_phase, self::seconds(at.as_second())));
    }
    series.push((
        "managed_upgrade_upgrade_pdb_timeout_minutes",
        own(&[("version", running), ("desired_version", desired)]),
        f64::from(upgrade.spec.pdb_force_drain_timeout),
    ));
    let id = Some(version.spec.cluster_id.as_str()).filter(|id| !id.is_empty());
    for (metrics, of_condition, r#type) in STEPS {
        let Some(condition) = entry.condition(r#type) else {
            continue;
        };
        let is_done = condition.status == ConditionStatus::True;
        let done = condition.complete_time.as_ref().filter(|_| is_done);
        for metric in *metrics {
            if let Some(time) = done {
                let labels = own(&[
                    ("_id", id.unwrap_or("unknown")),
                    ("upgradeconfig_name", upgrade_config::NAME),
                    ("version", desired),
                ]);
                series.push((metric, labels, seconds(time)));
            }
        }
        if let Some(time) = done.or(condition.start_time.as_ref()) {
            let labels = own(&[
                ("upgradeconfig_name", upgrade_config::NAME),
                ("version", running),
                ("desired_version", desired),
                ("condition", r#type),
            ]);
            series.push((of_condition, labels, seconds(time)));
        }
    }
    series
}

/// Seconds as a metric has them.
#[expect(
    clippy::cast_precision_loss,
    reason = "a double holds whole seconds of many million years"
)]
pub const fn seconds(seconds: i64) -> f64 {
    seconds as f64
}
