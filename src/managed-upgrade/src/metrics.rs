//! The operator's own metrics; the loop adds its own.
//!
//! Times of steps are those of the status, so that a restart changes none.

mod descriptions;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::ConditionStatus;
use api::config::ClusterVersion;
use api::upgrade::{UpgradeConfig, UpgradeHistoryEntry, upgrade_config};
use chassis::metrics::{Collector, DescriptorEncoder, Registry, encode_gauges};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use self::descriptions::{ALL, STEPS};
use crate::release_state::{current_version, preceding_version};

/// Labels of a series.
type Labels = Vec<(&'static str, String)>;

/// One number: metric, labels, value.
pub(crate) type Sample = (&'static str, Labels, f64);

/// Flags, set when something happens.
pub(crate) const VALIDATION_FAILED: &str = "upgradeoperator_upgradeconfig_validation_failed";
pub(crate) const SCALING_FAILED: &str = "upgradeoperator_scaling_failed";
pub(crate) const WINDOW_BREACHED: &str = "upgradeoperator_upgrade_window_breached";
pub(crate) const CONTROL_PLANE_TIMEOUT: &str = "upgradeoperator_controlplane_timeout";
pub(crate) const WORKER_TIMEOUT: &str = "upgradeoperator_worker_timeout";
pub(crate) const HEALTH_FAILED: &str = "upgradeoperator_healthcheck_failed";
pub(crate) const DRAIN_TIMEOUT: &str = "upgradeoperator_node_drain_timeout";
pub(crate) const NOTIFICATION: &str = "upgradeoperator_upgrade_notification";
pub(crate) const NOTIFICATION_FAILED: &str = "upgrade_notification_failed";
pub(crate) const SYNC: &str = "upgradeoperator_upgradeconfig_sync_timestamp";
pub(crate) const RESULT: &str = "upgradeoperator_upgrade_result";
const STARTED: &str = "upgradeoperator_upgrade_started_timestamp";

/// Flags that a given-up upgrade leaves behind no more.
pub(crate) const FAILURES: [&str; 7] = [
    VALIDATION_FAILED,
    SCALING_FAILED,
    CONTROL_PLANE_TIMEOUT,
    HEALTH_FAILED,
    WORKER_TIMEOUT,
    DRAIN_TIMEOUT,
    NOTIFICATION_FAILED,
];

/// All metrics of the operator.
#[derive(Debug, Default)]
pub struct UpgradeMetrics(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    flags: BTreeMap<&'static str, BTreeMap<Labels, f64>>,
    /// What follows from the status.
    series: Vec<Sample>,
}

impl UpgradeMetrics {
    /// The operator's metrics.
    pub fn registry(self: &Arc<Self>) -> Registry {
        let mut registry = Registry::default();
        registry.collect(Arc::clone(self));
        registry
    }

    /// Sets a flag of the UpgradeConfig, with more labels.
    pub(crate) fn set(&self, name: &'static str, more: &[(&'static str, &str)], value: f64) {
        let mut labels = vec![("upgradeconfig_name", upgrade_config::NAME.to_owned())];
        labels.extend(more.iter().map(|(key, value)| (*key, (*value).to_owned())));
        let mut state = self.state();
        state.flags.entry(name).or_default().insert(labels, value);
    }

    /// Whether there is a series of this metric with this label.
    pub(crate) fn has(&self, name: &str, label: (&str, &str)) -> bool {
        let state = self.state();
        let mut series = state.flags.get(name).into_iter().flat_map(BTreeMap::keys);
        series.any(|labels| {
            labels
                .iter()
                .any(|(key, value)| (*key, value.as_str()) == label)
        })
    }

    /// Replaces the nodes whose drain takes too long.
    pub(crate) fn set_drains(&self, nodes: &[String]) {
        let series = nodes
            .iter()
            .map(|node| (vec![("node_name", node.clone())], 1.0));
        self.state().flags.insert(DRAIN_TIMEOUT, series.collect());
    }

    /// Forgets all series of these metrics.
    pub(crate) fn forget(&self, names: &[&str]) {
        self.state().flags.retain(|name, _| !names.contains(name));
    }

    /// Forgets all but how upgrades ended: there is no UpgradeConfig.
    pub(crate) fn reset(&self) {
        let mut state = self.state();
        state.flags.retain(|name, _| *name == RESULT);
        state.series.clear();
    }

    /// Replaces what follows from the status.
    pub(crate) fn set_series(&self, series: Vec<Sample>) {
        self.state().series = series;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held; a poisoned lock still holds whole values.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for UpgradeMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let state = self.state();
        for (name, help) in ALL {
            let flags = state.flags.get(name).into_iter().flatten();
            let flags = flags.map(|(labels, value)| (labels.clone(), *value));
            let series = state.series.iter().filter(|(known, ..)| known == name);
            let series = series.map(|(_, labels, value)| (labels.clone(), *value));
            let samples: Vec<(Labels, f64)> = flags.chain(series).collect();
            if !samples.is_empty() {
                encode_gauges(&mut encoder, name, help, samples)?;
            }
        }
        Ok(())
    }
}

/// What follows from the status of the upgrade to `entry`. Series of which something is not known
/// are left out.
pub(crate) fn status_series(
    upgrade: &UpgradeConfig,
    entry: &UpgradeHistoryEntry,
    version: &ClusterVersion,
) -> Vec<Sample> {
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
    let own = |pairs: &[(&'static str, &str)]| -> Labels {
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
pub(crate) const fn seconds(seconds: i64) -> f64 {
    seconds as f64
}

#[cfg(test)]
mod tests {
    use api::upgrade::UpgradePhase;

    use super::*;
    use crate::fixture::{at, cluster_version, entry, spec};
    use crate::history::{StepOutcome, begin, finish};
    use crate::step::StepName;

    #[test]
    fn series_follow_the_status_and_the_flags() {
        let mut upgrade = UpgradeConfig::new(upgrade_config::NAME, spec());
        upgrade.spec.capacity_reservation = true;
        let mut entry = entry(UpgradePhase::Upgrading);
        for (step, minute) in [
            (StepName::SendStartedNotification, 1),
            (StepName::CommenceUpgrade, 2),
        ] {
            finish(&mut entry, &step.step(), &StepOutcome::Done, at(minute));
        }
        begin(&mut entry, &StepName::ControlPlaneUpgraded.step(), at(3));
        let metrics = Arc::new(UpgradeMetrics::default());
        let registry = metrics.registry();
        metrics.set_series(status_series(&upgrade, &entry, &cluster_version("4.16.3")));
        metrics.set(HEALTH_FAILED, &[("reason", "critical_alerts_firing")], 1.0);
        metrics.set(RESULT, &[("version", "4.16.3")], 1.0);
        metrics.set_drains(&["n".to_owned()]);
        golden::assert(
            env!("CARGO_MANIFEST_DIR"),
            "tests/golden/metrics.txt",
            &registry.text().unwrap(),
        );
        metrics.reset();
        let text = registry.text().unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.len() == 1 && lines[0].starts_with(RESULT), "{text}");
    }

    #[test]
    fn result_of_another_upgrade_is_not_that_of_this_one() {
        let metrics = UpgradeMetrics::default();
        let has = |version| metrics.has(RESULT, ("version", version));
        assert!(!has("4.16.4"));
        metrics.set(RESULT, &[("version", "4.16.4")], 1.0);
        assert!(has("4.16.4") && !has("4.16.5"));
    }

    #[test]
    fn nothing_is_said_of_a_cluster_without_a_version() {
        let upgrade = UpgradeConfig::new(upgrade_config::NAME, spec());
        let mut version = cluster_version("4.16.3");
        version.status = None;
        assert_eq!(
            status_series(&upgrade, &entry(UpgradePhase::New), &version),
            []
        );
    }

    #[test]
    fn alerts_that_are_deployed_are_about_known_metrics() {
        let text = include_str!("../../../deploy/monitoring/upgrade-alerts.yaml");
        let of = |key: &str| {
            let lines = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix(key));
            lines
                .map(str::trim)
                .map(ToOwned::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(of("- alert:"), crate::health::alerts::OWN_ALERTS);
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        let named: Vec<&str> = words
            .filter(|word| word.starts_with("upgradeoperator_"))
            .collect();
        assert_eq!(named.len(), 5);
        for name in named {
            assert!(ALL.iter().any(|(known, _)| *known == name), "{name}");
        }
    }

    #[test]
    fn every_metric_is_described_once() {
        let names = STEPS
            .iter()
            .flat_map(|(metrics, condition, _)| metrics.iter().copied().chain([*condition]));
        for name in names.chain(FAILURES) {
            let count = ALL.iter().filter(|(known, _)| *known == name).count();
            assert_eq!(count, 1, "{name}");
        }
    }
}
