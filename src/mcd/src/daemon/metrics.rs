//! Metrics and health of the daemon.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use api::machineconfiguration::{NodeState, PhaseName};
use chassis::health::Probes;
use chassis::metrics::{Collector, Counter, DescriptorEncoder, Gauge, Registry, encode_gauges};
use jiff::Timestamp;

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
        registry.collect(Arc::clone(self));
        registry
    }

    /// A reboot was asked for and did not come.
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
    /// The loop runs in the same thread as this answer: an answer is the proof. A wait, however
    /// long, is no illness, and a restart would not shorten it.
    fn healthy(&self) -> Result<(), String> {
        Ok(())
    }

    fn ready(&self) -> Result<(), String> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        match *shown {
            Some((_, phase, _)) if phase != PhaseName::Starting => Ok(()),
            Some(_) | None => Err("the host was not read yet".to_owned()),
        }
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
        assert_eq!(
            registry.text().unwrap(),
            include_str!("../../tests/golden/metrics.txt")
        );
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
