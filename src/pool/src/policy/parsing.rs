//! A policy is read from its object: each value, or the first field that cannot be followed.

use api::rollout::{CanarySpec, RolloutPolicySpec, RolloutWindowSpec, WaveSpec};
use jiff::SignedDuration;

use super::field::duration;
use super::{
    Amount, Analysis, Canaries, CanaryChoice, InvalidPolicy, LABEL, OrderKey, Quarantine,
    RolloutPolicy, Wave, prefetch,
};
use crate::recurrence::{RecurringWindow, WindowText};
use crate::selector::Selector;

impl RolloutPolicy {
    /// Reads a policy.
    ///
    /// # Errors
    /// The first field whose value cannot be followed.
    pub fn parse(spec: &RolloutPolicySpec) -> Result<Self, InvalidPolicy> {
        let invalid = |field: &str, why: String| InvalidPolicy {
            field: field.to_owned(),
            why,
        };
        let start_after = match &spec.start_after {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| {
                let why = format!("{text:?} is no time such as 2026-01-31T22:00:00Z");
                invalid("spec.startAfter", why)
            })?),
        };
        let waves = spec.waves.iter().zip(0_usize..);
        let halt_above = match &spec.halt_above_failures {
            None => None,
            Some(amount) => {
                Some(Amount::parse(amount).map_err(|why| invalid("spec.haltAboveFailures", why))?)
            }
        };
        let order = spec.order.iter().zip(0_usize..).map(|(key, place)| {
            OrderKey::parse(key).map_err(|why| invalid(&format!("spec.order[{place}]"), why))
        });
        let has_steps = spec.canaries.is_some() || !spec.waves.is_empty();
        Ok(Self {
            start_after,
            canaries: spec.canaries.as_ref().map(Canaries::parse).transpose()?,
            waves: waves
                .map(|(wave, place)| Wave::parse(wave, place))
                .collect::<Result<_, _>>()?,
            halt_above,
            order: order.collect::<Result<_, _>>()?,
            windows: windows(&spec.windows)?,
            analysis: Analysis::parse_all(&spec.analysis, has_steps)?,
            returns: spec.return_on_halt,
            quarantine: spec
                .quarantine
                .as_ref()
                .map(Quarantine::parse)
                .transpose()?,
            prefetch_bytes_per_second: spec
                .prefetch_bytes_per_second
                .as_ref()
                .map(prefetch::parse)
                .transpose()?,
        })
    }
}

impl OrderKey {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "zone" => Self::Zone,
            "oldest" => Self::Oldest,
            "newest" => Self::Newest,
            "fewestBlockedPods" => Self::FewestBlockedPods,
            _ => match text.strip_prefix(LABEL).filter(|key| !key.is_empty()) {
                Some(key) => Self::Label(key.to_owned()),
                None => {
                    return Err(format!(
                        "{text:?} is none of zone, oldest, newest, fewestBlockedPods and label:<key>"
                    ));
                }
            },
        })
    }
}

impl Canaries {
    fn parse(spec: &CanarySpec) -> Result<Self, InvalidPolicy> {
        let invalid = |field: &str, why: String| InvalidPolicy {
            field: format!("spec.canaries.{field}"),
            why,
        };
        let who = match (spec.count, &spec.node_selector) {
            (Some(_), Some(_)) => {
                let why = "it is set together with spec.canaries.nodeSelector".to_owned();
                return Err(invalid("count", why));
            }
            (None, Some(selector)) => {
                let selector = Selector::parse("spec.canaries.nodeSelector", Some(selector));
                let selector = selector.map_err(|error| invalid("nodeSelector", error.why))?;
                if selector == Selector::Everything {
                    let why = "it selects all nodes; a canary needs others that follow".to_owned();
                    return Err(invalid("nodeSelector", why));
                }
                CanaryChoice::Selected(selector)
            }
            (count, None) => {
                let count = count.unwrap_or(1);
                let nodes = usize::try_from(count).ok().filter(|count| *count > 0);
                let why = || invalid("count", format!("{count} is not a number of canaries"));
                CanaryChoice::First(nodes.ok_or_else(why)?)
            }
        };
        let soak = soak(spec.soak.as_deref()).map_err(|why| invalid("soak", why))?;
        Ok(Self { who, soak })
    }
}

impl Wave {
    fn parse(spec: &WaveSpec, place: usize) -> Result<Self, InvalidPolicy> {
        let invalid = |field: &str, why: String| InvalidPolicy {
            field: format!("spec.waves[{place}].{field}"),
            why,
        };
        let size = Amount::parse(&spec.size).map_err(|why| invalid("size", why))?;
        if matches!(size, Amount::Nodes(0) | Amount::Percent(0)) {
            return Err(invalid("size", "a wave has at least one node".to_owned()));
        }
        let soak = soak(spec.soak.as_deref()).map_err(|why| invalid("soak", why))?;
        Ok(Self { size, soak })
    }
}

/// Reads the windows.
fn windows(written: &[RolloutWindowSpec]) -> Result<Vec<RecurringWindow>, InvalidPolicy> {
    let mut windows: Vec<RecurringWindow> = Vec::new();
    for (window, place) in written.iter().zip(0_usize..) {
        let invalid = |(key, why): (String, String)| InvalidPolicy {
            field: format!("spec.windows[{place}].{key}"),
            why,
        };
        if window.name.is_empty() || windows.iter().any(|known| known.name == window.name) {
            let why = format!("{:?} is empty or stands twice", window.name);
            return Err(invalid(("name".to_owned(), why)));
        }
        let text = WindowText {
            name: &window.name,
            days: &window.days,
            start: &window.start,
            minutes: window.minutes,
            time_zone: window.time_zone.as_deref(),
        };
        let parsed = RecurringWindow::parse(&text);
        windows.push(parsed.map_err(|faults| {
            let first = faults.into_iter().next();
            invalid(first.unwrap_or_default())
        })?);
    }
    Ok(windows)
}

/// A time for which nodes work; none is no time.
fn soak(text: Option<&str>) -> Result<SignedDuration, String> {
    text.map_or(Ok(SignedDuration::ZERO), duration)
}

#[cfg(test)]
mod tests;
