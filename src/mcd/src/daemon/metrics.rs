//! Metrics and health of the daemon.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use api::machineconfiguration::{NodeState, PhaseName};
use chassis::health::{ProbeFailure, Probes};
use chassis::metrics::{Collector, Counter, DescriptorEncoder, Gauge, Registry, encode_gauges};
use jiff::Timestamp;
use node::watch::ObservedNode;
use tokio::sync::watch;

use super::host_os::HostOs;
use super::publish::Shown;

/// What the daemon counts.
///
/// Shape: names of OpenShift's MCO where it has them (`docs/reference/daemon.md`, "Events and
/// metrics"); its `reason` and `err` labels are left out, as every text would be a series of its
/// own. The reason is in the annotation.
#[derive(Debug)]
pub struct DaemonMetrics {
    now: fn() -> Timestamp,
    reboots_failed: Counter,
    drain_overdue: Gauge,
    config_drift: Gauge,
    kubelet_failures: Gauge,
    host_os: OnceLock<HostOs>,
    node: OnceLock<watch::Receiver<ObservedNode>>,
    shown: Mutex<Option<(Option<NodeState>, PhaseName, Timestamp)>>,
}

impl DaemonMetrics {
    /// Starts at zero.
    pub fn new(now: fn() -> Timestamp) -> Self {
        Self {
            now,
            reboots_failed: Counter::default(),
            drain_overdue: Gauge::default(),
            config_drift: Gauge::default(),
            kubelet_failures: Gauge::default(),
            host_os: OnceLock::new(),
            node: OnceLock::new(),
            shown: Mutex::new(None),
        }
    }

    /// The process's metrics, which these are all of.
    pub fn registry(self: &Arc<Self>) -> Registry {
        let mut registry = Registry::default();
        registry.register(
            "mcd_reboots_failed_total",
            "Reboots that were asked for and did not come.",
            self.reboots_failed.clone(),
        );
        registry.register(
            "mcd_drain_overdue",
            "Whether the drain under way takes longer than an hour.",
            self.drain_overdue.clone(),
        );
        registry.register(
            "mcd_config_drift",
            "Unix time when a manual change of the host was last found; 0 while there is none.",
            self.config_drift.clone(),
        );
        registry.register(
            "mcd_kubelet_state",
            "How often in a row the kubelet did not answer its health check.",
            self.kubelet_failures.clone(),
        );
        registry.collect(Arc::clone(self));
        registry
    }

    /// A requested reboot did not come.
    pub fn count_failed_reboot(&self) {
        self.reboots_failed.increment();
    }

    /// Whether the drain under way takes longer than an hour.
    pub fn set_drain_overdue(&self, is_overdue: bool) {
        self.drain_overdue.set(i64::from(is_overdue));
    }

    /// Whether the host was changed by hand, as a check found.
    pub fn set_drifted(&self, is_drifted: bool) {
        let now = (self.now)().as_second();
        self.config_drift.set(if is_drifted { now } else { 0 });
    }

    /// What runs on the host; the first word counts, as another OS comes with another boot.
    pub fn set_host_os(&self, os: HostOs) {
        if self.host_os.set(os).is_err() {
            tracing::debug!("the host's OS is known already");
        }
    }

    /// Where the Node is seen, for readiness; the first word counts.
    pub fn follow_node(&self, seen: watch::Receiver<ObservedNode>) {
        if self.node.set(seen).is_err() {
            tracing::debug!("the Node is followed already");
        }
    }

    /// How often in a row the kubelet did not answer.
    pub fn set_kubelet_failures(&self, count: i64) {
        self.kubelet_failures.set(count);
    }

    /// One more time; how often that is in a row.
    pub fn count_kubelet_failure(&self) -> i64 {
        self.kubelet_failures.inc() + 1
    }

    /// Takes over what the Node shows.
    pub fn show(&self, shown: &Shown) {
        let mut held = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let state = shown.claims().0;
        let since = held
            .filter(|(held, _, _)| *held == state)
            .map_or_else(self.now, |(_, _, since)| since);
        *held = Some((state, shown.phase(), since));
    }
}

impl Collector for DaemonMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let shown = *self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let since = |state| match shown {
            Some((Some(held), _, since)) if held == state => since.as_duration().as_secs_f64(),
            _ => 0.0,
        };
        encode_gauges(
            &mut encoder,
            "mcd_state",
            "Unix time since when the node shows this state; 0 for the others.",
            NodeState::ALL.map(|state| ([("state", state.as_str())], since(state))),
        )?;
        if let Some(HostOs { name, version }) = self.host_os.get() {
            encode_gauges(
                &mut encoder,
                "mcd_host_os_and_version",
                "OS of the host and its version; always 1.",
                [(
                    [("os", name.as_str()), ("version", version.as_str())],
                    1_i64,
                )],
            )?;
        }
        if let Some((_, phase, _)) = shown {
            encode_gauges(
                &mut encoder,
                "mcd_phase",
                "Phase of the node's state machine; 1 for the one it is in.",
                [([("phase", phase.as_str())], 1_i64)],
            )?;
        }
        Ok(())
    }
}

impl Probes for DaemonMetrics {
    /// The loop runs in the same thread as this response: a response is the proof. A wait, however
    /// long, is no illness, and a restart would not shorten it.
    fn healthy(&self) -> Result<(), ProbeFailure> {
        Ok(())
    }

    /// Whether host and Node were read. A degraded node is ready, too: its daemon works, and the
    /// next version may be what mends it.
    fn ready(&self) -> Result<(), ProbeFailure> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        match *shown {
            Some((_, phase, _)) if phase != PhaseName::Starting => {}
            Some(_) | None => return Err(ProbeFailure::NotRead("host")),
        }
        let node = self.node.get();
        if node.is_none_or(|node| node.borrow().is_none()) {
            return Err(ProbeFailure::NotRead("Node"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use node_update::phase::Machine;

    use super::*;

    fn clock() -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    #[test]
    fn the_page_has_every_metric_and_every_state_from_the_start() {
        let metrics = Arc::new(DaemonMetrics::new(clock));
        let registry = metrics.registry();
        assert!(metrics.ready().is_err());
        metrics.show(&Shown::of(&Machine::new(), clock()));
        metrics.count_failed_reboot();
        metrics.set_host_os(HostOs {
            name: "RHCOS".to_owned(),
            version: "9.6".to_owned(),
        });
        assert_eq!(
            registry.text().unwrap(),
            include_str!("../../tests/golden/metrics.txt")
        );
    }

    #[test]
    fn a_daemon_is_ready_once_host_and_node_were_read() {
        let metrics = DaemonMetrics::new(clock);
        let (to, seen) = watch::channel(None);
        metrics.follow_node(seen);
        let why = |metrics: &DaemonMetrics| metrics.ready().unwrap_err().to_string();
        assert_eq!(why(&metrics), "the host was not read yet");
        metrics.show(&Shown::of(&Machine::new(), clock()));
        assert_eq!(why(&metrics), "the host was not read yet");
        *metrics.shown.lock().unwrap() = Some((None, PhaseName::Degraded, clock()));
        assert_eq!(why(&metrics), "the Node was not read yet");
        let node = serde_json::json!({"metadata": {"name": "n"}});
        to.send_replace(Some(Arc::new(serde_json::from_value(node).unwrap())));
        metrics.ready().unwrap();
    }

    /// Each alert is about a metric of this page.
    #[test]
    fn alerts_ask_for_metrics_that_exist() {
        let text = include_str!("../../../../deploy/monitoring/daemon-alerts.yaml");
        let rule: serde_json::Value = serde_saphyr::from_str(text).unwrap();
        let page = include_str!("../../tests/golden/metrics.txt");
        let groups = rule["spec"]["groups"].as_array().unwrap();
        let alerts: Vec<_> = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().unwrap())
            .map(|rule| {
                (
                    rule["alert"].as_str().unwrap(),
                    rule["expr"].as_str().unwrap(),
                )
            })
            .collect();
        let names: Vec<_> = alerts.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names,
            ["MCDRebootError", "KubeletHealthState", "MCDConfigDrift"]
        );
        for (alert, expression) in alerts {
            let metric = expression.split_whitespace().next().unwrap();
            let declared = page.contains(&format!("# TYPE {metric} "));
            assert!(declared, "{alert}: {expression}");
        }
    }

    #[test]
    fn a_state_carries_the_time_since_when_it_is_shown() {
        let metrics = Arc::new(DaemonMetrics::new(|| {
            Timestamp::constant(1_700_000_000, 250_000_000)
        }));
        *metrics.shown.lock().unwrap() = Some((
            Some(NodeState::Working),
            PhaseName::Draining,
            (metrics.now)(),
        ));
        let text = metrics.registry().text().unwrap();
        for line in [
            "mcd_state{state=\"Done\"} 0.0",
            "mcd_state{state=\"Working\"} 1700000000.25",
            "mcd_phase{phase=\"Draining\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }
}
