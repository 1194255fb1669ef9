//! The phases of each node's updates, as its annotations showed them while they happened.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use lab::audit::nodes::NodeSnapshot;
use serde::Serialize;

use super::wire;

/// What a node goes through in an update, in this order. Without a reboot: fetch, apply, verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The image is pulled and the deployment rehearsed while the node works.
    Fetch,
    /// Pods leave.
    Drain,
    /// The change is made.
    Apply,
    /// The host goes down and comes up.
    Reboot,
    /// The host is verified, and the node returned to service.
    Verify,
}

impl Phase {
    /// All, in order.
    pub const ALL: [Self; 5] = [
        Self::Fetch,
        Self::Drain,
        Self::Apply,
        Self::Reboot,
        Self::Verify,
    ];

    /// Its name in the timeline.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Drain => "drain",
            Self::Apply => "apply",
            Self::Reboot => "reboot",
            Self::Verify => "verify",
        }
    }

    /// The phase of an update that a phase of the daemon's state machine belongs to. Source:
    /// `docs/state-machine.md`.
    fn of(daemon: &str) -> Option<Self> {
        match daemon {
            "Fetching" => Some(Self::Fetch),
            "Draining" => Some(Self::Drain),
            "Applying" => Some(Self::Apply),
            "Rebooting" => Some(Self::Reboot),
            "Verifying" | "Finishing" => Some(Self::Verify),
            _ => None,
        }
    }
}

/// A phase of one update of one node.
///
/// Units: times as the API server took them, to the microsecond.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Which.
    pub phase: Phase,
    /// When it began.
    pub start: Timestamp,
    /// When the next one began, or the node was returned to service.
    pub end: Timestamp,
    /// What the node reported most of that time that it waited for; empty if nothing.
    pub waits_for: String,
}

/// Phases of all updates of a node, in order, given its states in order and when its host came up.
///
/// An update begins with a fetch: a check at the daemon's start is none. A reboot ends when the
/// host is up, not when the daemon is back to say so. An update still under way ends with the last
/// state.
pub fn spans(history: &[NodeSnapshot], host_came_up: &[Timestamp]) -> Vec<Span> {
    let mut steps = Vec::<(Timestamp, Option<Phase>)>::new();
    for state in history {
        let current = steps.last().and_then(|(_, phase)| *phase);
        let reported = phase_name(state);
        let phase = match Phase::of(reported) {
            // The daemon is back and reads the host: the phase it was stopped in goes on.
            None if reported == wire::STARTING => current,
            // A host at rest is checked, too. Any other phase may be the first that is shown: one
            // that passes at once is not written.
            Some(Phase::Verify) if current.is_none() => None,
            phase => phase,
        };
        if phase != current {
            steps.push((state.at, phase));
        }
    }
    steps.extend(history.last().map(|last| (last.at, None)));

    let mut spans = Vec::<Span>::new();
    for pair in steps.windows(2) {
        let [(start, Some(phase)), (end, _)] = *pair else {
            continue;
        };
        let mut start = start;
        if let Some(before) = spans
            .last_mut()
            .filter(|before| before.phase == Phase::Reboot)
            && let Some(up) = host_came_up
                .iter()
                .find(|up| (before.start..=start).contains(up))
        {
            before.end = *up;
            start = *up;
        }
        spans.push(Span {
            phase,
            start,
            end,
            waits_for: String::new(),
        });
    }
    for span in &mut spans {
        span.waits_for = waited_longest(history, span);
    }
    spans
}

/// The daemon's phase.
fn phase_name(state: &NodeSnapshot) -> &str {
    let phase = state.annotations.get(wire::PHASE);
    phase.map_or("", String::as_str)
}

/// What the node reported longest in a phase that it waited for. What still stands there from the
/// one before does not count.
fn waited_longest(history: &[NodeSnapshot], span: &Span) -> String {
    let (start, end) = (span.start, span.end);
    let mut stood = BTreeMap::<&str, SignedDuration>::new();
    let ends = history.iter().skip(1).map(|next| next.at).chain([end]);
    for (state, until) in history.iter().zip(ends) {
        let for_how_long = until.min(end).duration_since(state.at.max(start));
        if Phase::of(phase_name(state)) == Some(span.phase)
            && let Some(what) = state.annotations.get(wire::WAITS_FOR)
            && !what.is_empty()
            && for_how_long.is_positive()
        {
            *stood.entry(what).or_default() += for_how_long;
        }
    }
    let longest = stood
        .into_iter()
        .max_by_key(|(_, for_how_long)| *for_how_long);
    longest.map_or_else(String::new, |(what, _)| what.to_owned())
}

#[cfg(test)]
mod tests {
    use api::machineconfiguration::PhaseName;
    use lab::audit::Version;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn history(reported: &[(i64, &str, &str)]) -> Vec<NodeSnapshot> {
        reported
            .iter()
            .map(|(second, phase, waits_for)| NodeSnapshot {
                version: Version(u64::try_from(*second).unwrap()),
                at: at(*second),
                user: "system:node:worker-0".into(),
                is_unschedulable: false,
                is_ready: true,
                annotations: BTreeMap::from([
                    (wire::PHASE.into(), (*phase).into()),
                    (wire::WAITS_FOR.into(), (*waits_for).into()),
                ]),
            })
            .collect()
    }

    fn brief(spans: &[Span]) -> Vec<(&str, i64, i64, &str)> {
        let second = |at: Timestamp| at.as_second() - 1_800_000_000;
        spans
            .iter()
            .map(|span| {
                (
                    span.phase.name(),
                    second(span.start),
                    second(span.end),
                    span.waits_for.as_str(),
                )
            })
            .collect()
    }

    #[test]
    fn every_phase_of_the_daemon_has_its_place() {
        for name in PhaseName::ALL {
            let expected = match name {
                PhaseName::Fetching => Some(Phase::Fetch),
                PhaseName::Draining => Some(Phase::Drain),
                PhaseName::Applying => Some(Phase::Apply),
                PhaseName::Rebooting => Some(Phase::Reboot),
                PhaseName::Verifying | PhaseName::Finishing => Some(Phase::Verify),
                PhaseName::Starting
                | PhaseName::Idle
                | PhaseName::RollingBack
                | PhaseName::Held
                | PhaseName::Degraded
                | PhaseName::Unreconcilable => None,
            };
            assert_eq!(Phase::of(name.as_str()), expected, "{name}");
        }
    }

    #[test]
    fn an_update_is_read_from_fetch_to_idle() {
        let history = history(&[
            (0, "Verifying", "checks"),
            (1, "Idle", ""),
            (10, "Fetching", "image"),
            (20, "Draining", "pods to leave"),
            (22, "Draining", "pod a: budget b"),
            (30, "Applying", ""),
            (31, "Rebooting", "the host to come back"),
            (36, "Starting", "the host's state"),
            (37, "Verifying", "checks"),
            (38, "Finishing", "uncordon"),
            (39, "Idle", ""),
        ]);
        let expected = vec![
            ("fetch", 10, 20, "image"),
            ("drain", 20, 30, "pod a: budget b"),
            ("apply", 30, 31, ""),
            ("reboot", 31, 34, "the host to come back"),
            ("verify", 34, 39, "uncordon"),
        ];
        assert_eq!(brief(&spans(&history, &[at(2), at(34)])), expected);
    }

    #[test]
    fn a_second_update_starts_with_its_own_fetch() {
        let history = history(&[
            (10, "Fetching", ""),
            (11, "Applying", ""),
            (12, "Verifying", ""),
            (13, "Idle", ""),
            (20, "Fetching", ""),
            (25, "Fetching", ""),
        ]);
        let expected = vec![
            ("fetch", 10, 11, ""),
            ("apply", 11, 12, ""),
            ("verify", 12, 13, ""),
            ("fetch", 20, 25, ""),
        ];
        assert_eq!(brief(&spans(&history, &[])), expected);
    }
}
