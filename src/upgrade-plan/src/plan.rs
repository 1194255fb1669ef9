//! What an upgrade is going to do and when it ends: values in, the plan that clients read out.

use std::collections::BTreeMap;

use api::ConditionStatus;
use api::config::{ClusterVersionStatus, HistoryState};
use api::upgrade::{PlanForecast, PlanState, PlanStep, UpgradeHistoryEntry, UpgradePhase};
use jiff::{SignedDuration, Timestamp};

use crate::history::{self, StepTurn};
use crate::hook::{Hook, HookTime};
use crate::step::{StepName, UpgradeStep};

/// The result of a gate that is evaluated ahead of its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateResult {
    /// It would let the upgrade pass; what it says besides.
    Passes(String),
    /// It would hold it, and why.
    Holds(String),
}

/// The steps as far as they are. `ahead` are results of gates whose turn has not come.
pub fn steps(
    entry: &UpgradeHistoryEntry,
    list: &[UpgradeStep],
    hooks: &[Hook],
    ahead: &BTreeMap<StepName, GateResult>,
    is_commenced: bool,
) -> Vec<PlanStep> {
    let shown = list.iter().map(|step| {
        let (state, message) = state(entry, step, ahead.get(&step.name), is_commenced);
        let hooks = hooks.iter().filter(|hook| hook.step == step.name);
        PlanStep {
            name: step.name.to_string(),
            condition: step.condition.to_owned(),
            kind: format!("{:?}", step.kind),
            waits_for: step.waits_for.to_owned(),
            state,
            message,
            hooks: hooks
                .map(|hook| match hook.when {
                    HookTime::Before => format!("before {}", hook.name),
                    HookTime::After => format!("after {}", hook.name),
                })
                .collect(),
        }
    });
    shown.collect()
}

fn state(
    entry: &UpgradeHistoryEntry,
    step: &UpgradeStep,
    ahead: Option<&GateResult>,
    is_commenced: bool,
) -> (PlanState, String) {
    let has_begun = !matches!(entry.phase, UpgradePhase::New | UpgradePhase::Pending);
    let condition = entry.condition(step.condition).filter(|_| has_begun);
    let is_done = condition.is_some_and(|condition| condition.status == ConditionStatus::True);
    let is_over = has_begun && history::turn(entry, step, is_commenced) != StepTurn::Run;
    if is_done || is_over || entry.phase == UpgradePhase::Upgraded {
        return (PlanState::Done, String::new());
    }
    match (condition, ahead) {
        (Some(open), _) if entry.phase == UpgradePhase::Failed => {
            (PlanState::Holds, open.message.clone())
        }
        (Some(open), _) => (PlanState::Running, open.message.clone()),
        (None, Some(GateResult::Passes(why))) => (PlanState::Passes, why.clone()),
        (None, Some(GateResult::Holds(why))) => (PlanState::Holds, why.clone()),
        (None, None) => (PlanState::Pending, String::new()),
    }
}

/// What a forecast is made of.
#[derive(Debug, Clone, Default)]
pub struct UpgradePace {
    /// How long extra machines may take; zero if none are added, or all are there.
    pub capacity: SignedDuration,
    /// How long the control plane may take, and since when it is under way; none if it is done.
    pub control_plane: Option<(SignedDuration, Option<Timestamp>)>,
    /// How long the control plane took in earlier updates.
    pub earlier: Vec<SignedDuration>,
    /// Machines that are not updated yet.
    pub machines: u32,
    /// How long each takes that nothing blocks.
    pub machine: SignedDuration,
    /// How long all of them may take.
    pub machines_limit: SignedDuration,
}

/// When an upgrade ends that begins, or goes on, at `from`.
pub fn forecast(from: Timestamp, pace: &UpgradePace) -> PlanForecast {
    let median = median(&pace.earlier);
    let mut basis = Vec::new();
    let (mut expected, mut latest) = (Some(from), add(from, pace.capacity));
    if !pace.capacity.is_zero() {
        basis.push(format!("{} for extra machines", minutes(pace.capacity)));
    }
    if let Some((limit, began)) = pace.control_plane {
        let plane = |length| add(began.unwrap_or(from), length).max(from);
        let length = |length| add(from, length);
        expected = median.map(|median| match began {
            Some(_) => plane(median),
            None => length(median),
        });
        latest = match began {
            Some(_) => plane(limit),
            None => add(latest, limit),
        };
        basis.push(match median {
            Some(median) => format!(
                "control plane {} (the middle of {}), at most {}",
                minutes(median),
                counted(pace.earlier.len(), "update"),
                minutes(limit)
            ),
            None => format!(
                "control plane at most {} (no earlier update is known)",
                minutes(limit)
            ),
        });
    }
    let machines = i32::try_from(pace.machines).unwrap_or(i32::MAX);
    let each = pace.machine.saturating_mul(machines);
    basis.push(format!(
        "{} {}, at most {}",
        counted(usize::try_from(pace.machines).unwrap_or(usize::MAX), "node"),
        minutes(each),
        minutes(pace.machines_limit)
    ));
    PlanForecast {
        expected: expected.map(|expected| add(expected, each)),
        latest: add(latest, pace.machines_limit),
        basis: basis.join("; "),
    }
}

/// How long updates of this cluster took, without its installation, which is the oldest entry.
pub fn earlier_updates(status: &ClusterVersionStatus) -> Vec<SignedDuration> {
    let updates = status
        .history
        .split_last()
        .map_or(&[][..], |(_, rest)| rest);
    let done = updates
        .iter()
        .filter(|entry| entry.state == HistoryState::Completed);
    let lengths = done.filter_map(|entry| {
        let end = entry.completion_time.as_ref()?;
        Some(end.0.duration_since(entry.started_time.0))
    });
    lengths.filter(SignedDuration::is_positive).collect()
}

fn median(lengths: &[SignedDuration]) -> Option<SignedDuration> {
    let mut lengths = lengths.to_vec();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).copied()
}

/// Dates of UpgradeConfigs reach to the end of time.
fn add(time: Timestamp, length: SignedDuration) -> Timestamp {
    time.checked_add(length).unwrap_or(Timestamp::MAX)
}

fn minutes(length: SignedDuration) -> String {
    format!("{} min", length.as_mins())
}

fn counted(count: usize, noun: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{at, entry, history};
    use crate::history::{StepOutcome, begin, finish};
    use crate::step::usual;

    fn shown(entry: &UpgradeHistoryEntry, is_commenced: bool) -> Vec<(String, PlanState, String)> {
        let ahead = [
            (StepName::IsUpgradeable, GateResult::Passes(String::new())),
            (
                StepName::PreUpgradeHealthCheck,
                GateResult::Holds("an alert".to_owned()),
            ),
        ];
        let list = usual(&api::upgrade::UpgradeType::Osd);
        steps(entry, &list, &[], &ahead.into(), is_commenced)
            .into_iter()
            .map(|step| (step.name, step.state, step.message))
            .collect()
    }

    fn of(steps: &[(String, PlanState, String)], name: StepName) -> (PlanState, &str) {
        let found = steps.iter().find(|(shown, ..)| *shown == name.to_string());
        let (_, state, message) = found.unwrap();
        (*state, message)
    }

    #[test]
    fn steps_show_what_gates_say_before_and_what_conditions_say_after_the_start() {
        use StepName as Name;
        let before = shown(&entry(UpgradePhase::Pending), false);
        assert_eq!(of(&before, Name::IsUpgradeable), (PlanState::Passes, ""));
        let holds = (PlanState::Holds, "an alert");
        assert_eq!(of(&before, Name::PreUpgradeHealthCheck), holds);
        assert_eq!(of(&before, Name::CommenceUpgrade), (PlanState::Pending, ""));

        let mut entry = entry(UpgradePhase::Upgrading);
        finish(
            &mut entry,
            &Name::SendStartedNotification.step(),
            &StepOutcome::Done,
            at(1),
        );
        let health = Name::PreUpgradeHealthCheck.step();
        begin(&mut entry, &health, at(1));
        finish(
            &mut entry,
            &health,
            &StepOutcome::Hold("degraded".to_owned()),
            at(2),
        );
        let now = shown(&entry, false);
        assert_eq!(of(&now, Name::SendStartedNotification).0, PlanState::Done);
        assert_eq!(
            of(&now, Name::PreUpgradeHealthCheck),
            (PlanState::Running, "degraded")
        );
        // Its gate does not count any more.
        let commenced = shown(&entry, true);
        assert_eq!(
            of(&commenced, Name::PreUpgradeHealthCheck).0,
            PlanState::Done
        );
        assert_eq!(
            of(&commenced, Name::ControlPlaneUpgraded).0,
            PlanState::Pending
        );
        entry.phase = UpgradePhase::Failed;
        assert_eq!(
            of(&shown(&entry, false), Name::PreUpgradeHealthCheck),
            (PlanState::Holds, "degraded")
        );
    }

    #[test]
    fn end_is_by_earlier_updates_and_by_the_limits() {
        let mins = SignedDuration::from_mins;
        let mut pace = UpgradePace {
            capacity: mins(30),
            control_plane: Some((mins(90), None)),
            earlier: vec![mins(50), mins(20), mins(40)],
            machines: 3,
            machine: mins(8),
            machines_limit: mins(159),
        };
        let found = forecast(at(0), &pace);
        assert_eq!(found.expected, Some(at(40 + 24)));
        assert_eq!(found.latest, at(30 + 90 + 159));
        assert_eq!(
            found.basis,
            "30 min for extra machines; control plane 40 min (the middle of 3 updates), at most \
             90 min; 3 nodes 24 min, at most 159 min"
        );
        // The control plane is late: it is not done before now.
        pace.capacity = SignedDuration::ZERO;
        pace.control_plane = Some((mins(90), Some(at(-100))));
        let found = forecast(at(0), &pace);
        assert_eq!((found.expected, found.latest), (Some(at(24)), at(159)));
        pace.control_plane = Some((mins(90), None));
        pace.earlier.clear();
        assert_eq!(forecast(at(0), &pace).expected, None);
        pace.control_plane = None;
        assert_eq!(forecast(at(0), &pace).expected, Some(at(24)));
        assert_eq!(forecast(Timestamp::MAX, &pace).latest, Timestamp::MAX);
    }

    #[test]
    fn installation_is_no_earlier_update() {
        let status = ClusterVersionStatus {
            history: vec![
                history("4.16.4", "Partial", 90),
                history("4.16.3", "Completed", 30),
                history("4.16.2", "Completed", 10),
            ],
            ..ClusterVersionStatus::default()
        };
        assert_eq!(earlier_updates(&status), [SignedDuration::from_mins(5)]);
        assert!(earlier_updates(&ClusterVersionStatus::default()).is_empty());
    }
}
