//! Metrics and health of the daemon.

use std::sync::{Mutex, PoisonError};

use chassis::metrics::{Counter, Expose, Gauge, Kind, Page};
use chassis::probes::Probes;
use jiff::Timestamp;
use node_update::phase::outward::State;

use super::publish::Shown;

/// The states of the annotation: a closed set of labels.
const STATES: [State; 4] = [
    State::Done,
    State::Working,
    State::Degraded,
    State::Unreconcilable,
];

/// What the daemon counts.
///
/// Shape: names of the original where it has them (`docs/reference/daemon.md`, "Events and metrics"); its `reason` and `err` labels are
/// left out, as every text would be a series of its own. The reason is in the annotation.
#[derive(Debug)]
pub struct Figures {
    now: fn() -> Timestamp,
    reboots_failed: Counter,
    drain_overdue: Gauge,
    shown: Mutex<Option<(Option<State>, &'static str, Timestamp)>>,
}

impl Figures {
    /// Starts at zero.
    pub fn new(now: fn() -> Timestamp) -> Self {
        Self {
            now,
            reboots_failed: Counter::default(),
            drain_overdue: Gauge::default(),
            shown: Mutex::new(None),
        }
    }

    /// A reboot was asked for and did not come.
    pub fn count_failed_reboot(&self) {
        self.reboots_failed.increment();
    }

    /// Whether the drain under way takes longer than an hour.
    pub fn set_drain_overdue(&self, is_overdue: bool) {
        self.drain_overdue.set(if is_overdue { 1.0 } else { 0.0 });
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

impl Expose for Figures {
    fn expose(&self, page: &mut Page) {
        let shown = *self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        page.family(
            "mcd_state",
            Kind::Gauge,
            "Unix time since when the node shows this state; 0 for the others.",
        );
        for state in STATES {
            let since = shown
                .filter(|(held, _, _)| *held == Some(state))
                .map_or(0.0, |(_, _, since)| since.as_duration().as_secs_f64());
            page.sample("mcd_state", &[("state", state.as_str())], since);
        }
        if let Some((_, phase, _)) = shown {
            page.family(
                "mcd_phase",
                Kind::Gauge,
                "Phase of the node's state machine; 1 for the one it is in.",
            );
            page.sample("mcd_phase", &[("phase", phase)], 1.0);
        }
        page.single(
            "mcd_reboots_failed_total",
            Kind::Counter,
            "Reboots that were asked for and did not come.",
            self.reboots_failed.value(),
        );
        page.single(
            "mcd_drain_overdue",
            Kind::Gauge,
            "Whether the drain under way takes longer than an hour.",
            self.drain_overdue.value(),
        );
    }
}

impl Probes for Figures {
    /// The loop runs in the same thread as this answer: an answer is the proof. A wait, however long, is no illness, and a restart would
    /// not shorten it.
    fn healthy(&self) -> Result<(), String> {
        Ok(())
    }

    fn ready(&self) -> Result<(), String> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        match *shown {
            Some((_, phase, _)) if phase != "Starting" => Ok(()),
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
    fn every_state_has_a_series_from_the_start() {
        let figures = Figures::new(clock);
        assert!(figures.ready().is_err());
        figures.show(&Shown::of(&Machine::new(), clock()));
        figures.count_failed_reboot();
        let mut page = Page::default();
        figures.expose(&mut page);
        let text = page.into_text();
        for state in STATES {
            assert!(
                text.contains(&format!("mcd_state{{state=\"{}\"}} 0\n", state.as_str())),
                "{text}"
            );
        }
        assert!(text.contains("mcd_phase{phase=\"Starting\"} 1\n"), "{text}");
        assert!(text.contains("mcd_reboots_failed_total 1\n"), "{text}");
    }
}
