//! A policy is read from its object: each value, or the first field that cannot be followed.

use api::IntOrString;
use api::rollout::{CanarySpec, RolloutPolicySpec, RolloutWindowSpec, WaveSpec};
use jiff::SignedDuration;

use super::field::duration;
use super::{
    Amount, Analysis, Canaries, CanaryChoice, InvalidPolicy, LABEL, OrderKey, PolicyFault,
    Quarantine, RolloutPolicy, Wave, prefetch,
};
use crate::recurrence::{RecurringWindow, WindowText};
use crate::selector::Selector;

impl RolloutPolicy {
    /// Reads a policy.
    ///
    /// # Errors
    /// The first field whose value cannot be followed.
    pub fn parse(spec: &RolloutPolicySpec) -> Result<Self, InvalidPolicy> {
        let invalid = |field: &str, fault| InvalidPolicy {
            field: field.to_owned(),
            fault,
        };
        let start_after = match &spec.start_after {
            None => None,
            Some(text) => Some(
                text.parse()
                    .map_err(|_| invalid("spec.startAfter", PolicyFault::NoTime(text.clone())))?,
            ),
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
            pinned_image_pulls: pinned_image_pulls(spec.pinned_image_pulls.as_ref())
                .map_err(|why| invalid("spec.pinnedImagePulls", why))?,
        })
    }
}

impl OrderKey {
    fn parse(text: &str) -> Result<Self, PolicyFault> {
        Ok(match text {
            "zone" => Self::Zone,
            "oldest" => Self::Oldest,
            "newest" => Self::Newest,
            "fewestBlockedPods" => Self::FewestBlockedPods,
            _ => match text.strip_prefix(LABEL).filter(|key| !key.is_empty()) {
                Some(key) => Self::Label(key.to_owned()),
                None => return Err(PolicyFault::NoOrder(text.to_owned())),
            },
        })
    }
}

impl Canaries {
    fn parse(spec: &CanarySpec) -> Result<Self, InvalidPolicy> {
        let invalid = |field: &str, fault| InvalidPolicy {
            field: format!("spec.canaries.{field}"),
            fault,
        };
        let who = match (spec.count, &spec.node_selector) {
            (Some(_), Some(_)) => {
                return Err(invalid("count", PolicyFault::CountAndSelector));
            }
            (None, Some(selector)) => {
                let selector = Selector::parse("spec.canaries.nodeSelector", Some(selector));
                let selector =
                    selector.map_err(|error| invalid("nodeSelector", error.requirement.into()))?;
                if selector == Selector::Everything {
                    return Err(invalid("nodeSelector", PolicyFault::AllAreCanaries));
                }
                CanaryChoice::Selected(selector)
            }
            (count, None) => {
                let count = count.unwrap_or(1);
                let nodes = usize::try_from(count).ok().filter(|count| *count > 0);
                let why = || invalid("count", PolicyFault::NoCanaries(count));
                CanaryChoice::First(nodes.ok_or_else(why)?)
            }
        };
        let soak = soak(spec.soak.as_deref()).map_err(|why| invalid("soak", why))?;
        Ok(Self { who, soak })
    }
}

impl Wave {
    fn parse(spec: &WaveSpec, place: usize) -> Result<Self, InvalidPolicy> {
        let invalid = |field: &str, fault| InvalidPolicy {
            field: format!("spec.waves[{place}].{field}"),
            fault,
        };
        let size = Amount::parse(&spec.size).map_err(|why| invalid("size", why))?;
        if matches!(size, Amount::Nodes(0) | Amount::Percent(0)) {
            return Err(invalid("size", PolicyFault::EmptyWave));
        }
        let soak = soak(spec.soak.as_deref()).map_err(|why| invalid("soak", why))?;
        Ok(Self { size, soak })
    }
}

fn pinned_image_pulls(written: Option<&IntOrString>) -> Result<Option<Amount>, PolicyFault> {
    let amount = written.map(Amount::parse).transpose()?;
    match amount {
        Some(Amount::Nodes(0) | Amount::Percent(0)) => Err(PolicyFault::NoPulls),
        amount => Ok(amount),
    }
}

fn windows(written: &[RolloutWindowSpec]) -> Result<Vec<RecurringWindow>, InvalidPolicy> {
    let mut windows: Vec<RecurringWindow> = Vec::new();
    for (window, place) in written.iter().zip(0_usize..) {
        let invalid = |key: &str, fault| InvalidPolicy {
            field: format!("spec.windows[{place}].{key}"),
            fault,
        };
        if window.name.is_empty() || windows.iter().any(|other| other.name == window.name) {
            return Err(invalid("name", PolicyFault::Name(window.name.clone())));
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
            let (key, why) = faults.into_iter().next().unwrap_or_default();
            invalid(&key, PolicyFault::Window(why))
        })?);
    }
    Ok(windows)
}

/// A time for which nodes work; none is no time.
fn soak(text: Option<&str>) -> Result<SignedDuration, PolicyFault> {
    text.map_or(Ok(SignedDuration::ZERO), duration)
}

#[cfg(test)]
mod tests;
