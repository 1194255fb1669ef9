//! The operator's own metrics; the loop adds its own.
//!
//! Times of steps are those of the status, so that a restart changes none.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::upgrade::upgrade_config;
use chassis::metrics::{Collector, DescriptorEncoder, Registry, encode_gauges};

use upgrade_plan::series::{ALL, DRAIN_TIMEOUT, LabelPairs, RESULT, UpgradeSample};

/// All metrics of the operator.
#[derive(Debug, Default)]
pub struct UpgradeMetrics(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    flags: BTreeMap<&'static str, BTreeMap<LabelPairs, f64>>,
    /// What follows from the status.
    series: Vec<UpgradeSample>,
}

impl UpgradeMetrics {
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
    pub(crate) fn set_series(&self, series: Vec<UpgradeSample>) {
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
            let series = state.series.iter().filter(|(listed, ..)| listed == name);
            let series = series.map(|(_, labels, value)| (labels.clone(), *value));
            let samples: Vec<(LabelPairs, f64)> = flags.chain(series).collect();
            if !samples.is_empty() {
                encode_gauges(&mut encoder, name, help, samples)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use api::upgrade::{UpgradeConfig, UpgradePhase};

    use super::*;
    use upgrade_plan::fixture::{at, cluster_version, entry, spec};
    use upgrade_plan::history::{StepOutcome, begin, finish};
    use upgrade_plan::series::{FAILURES, HEALTH_FAILED, STEPS, status_series};
    use upgrade_plan::step::StepName;

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
        assert_eq!(of("- alert:"), upgrade_plan::health::alerts::OWN_ALERTS);
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        let named: Vec<&str> = words
            .filter(|word| word.starts_with("upgradeoperator_"))
            .collect();
        assert_eq!(named.len(), 5);
        for name in named {
            assert!(ALL.iter().any(|(listed, _)| *listed == name), "{name}");
        }
    }

    #[test]
    fn every_metric_is_described_once() {
        let names = STEPS
            .iter()
            .flat_map(|(metrics, condition, _)| metrics.iter().copied().chain([*condition]));
        for name in names.chain(FAILURES) {
            let count = ALL.iter().filter(|(listed, _)| *listed == name).count();
            assert_eq!(count, 1, "{name}");
        }
    }
}
