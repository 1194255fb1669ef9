//! The status of an UpgradeConfig: its entries, and what steps write into their conditions.

use api::ConditionStatus;
use api::upgrade::{UpgradeCondition, UpgradeConfigStatus, UpgradeHistoryEntry};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::step::{Rerun, StepKind, StepName, UpgradeStep};

/// The time at which a condition was last looked at is written so often, if nothing else changes.
const PROBED: SignedDuration = SignedDuration::from_mins(5);

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepOutcome {
    Done,
    Waiting,
    /// It holds the upgrade, and why.
    Hold(String),
    /// It could not be carried out, and why.
    Failed(String),
}

/// What is to be done about a step in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepTurn {
    Run,
    Skip,
    /// The update has begun already, so a gate before it no longer applies: it counts as done.
    Passed,
}

/// The entry of a version.
pub fn find<'a>(status: &'a UpgradeConfigStatus, version: &str) -> Option<&'a UpgradeHistoryEntry> {
    let mut entries = status.history.iter();
    entries.find(|entry| entry.version == version)
}

/// Puts an entry in the place of that of its version, or first.
pub fn put(status: &mut UpgradeConfigStatus, entry: UpgradeHistoryEntry) {
    if !entry.version.is_empty() {
        // That of an image whose version was not read yet: this one takes its place.
        status.history.retain(|entry| !entry.version.is_empty());
    }
    let mut entries = status.history.iter_mut();
    match entries.find(|stored| stored.version == entry.version) {
        Some(stored) => *stored = entry,
        None => status.history.insert(0, entry),
    }
}

/// Whether a step runs now. What was done is kept over passes and restarts.
pub fn turn(entry: &UpgradeHistoryEntry, step: &UpgradeStep, is_commenced: bool) -> StepTurn {
    let is_done = has_done(entry, step.condition);
    match step.rerun {
        Rerun::UntilCommenced if is_commenced && is_done => StepTurn::Skip,
        Rerun::UntilCommenced if is_commenced => StepTurn::Passed,
        Rerun::Never if is_done => StepTurn::Skip,
        Rerun::Until(other) if is_done && is_step_done(entry, other) => StepTurn::Skip,
        Rerun::UntilCommenced | Rerun::Never | Rerun::Until(_) => StepTurn::Run,
    }
}

/// Whether a step was done.
pub fn is_step_done(entry: &UpgradeHistoryEntry, step: StepName) -> bool {
    has_done(entry, step.step().condition)
}

fn has_done(entry: &UpgradeHistoryEntry, condition: &str) -> bool {
    let found = entry.condition(condition);
    found.is_some_and(|found| found.status == ConditionStatus::True)
}

/// Message of the first step that has begun and is not done.
pub fn first_open(entry: &UpgradeHistoryEntry) -> Option<&str> {
    let mut open = entry.conditions.iter().rev().filter(|condition| {
        condition.status == ConditionStatus::False && condition.start_time.is_some()
    });
    open.next().map(|condition| condition.message.as_str())
}

/// Notes that a step begins, unless it has before.
pub fn begin(entry: &mut UpgradeHistoryEntry, step: &UpgradeStep, now: Timestamp) {
    if entry.condition(step.condition).is_none() {
        let condition = UpgradeCondition {
            start_time: Some(Time(now)),
            ..pending(step, format!("{} has started", step.condition))
        };
        set(entry, condition, now);
    }
}

/// Notes what came of a step; whether that is news.
pub fn finish(
    entry: &mut UpgradeHistoryEntry,
    step: &UpgradeStep,
    outcome: &StepOutcome,
    now: Timestamp,
) -> bool {
    let r#type = step.condition;
    let stored = entry.condition(r#type);
    let start_time = stored.and_then(|stored| stored.start_time.clone());
    let complete_time = stored.and_then(|stored| stored.complete_time.clone());
    let condition = match outcome {
        StepOutcome::Done => UpgradeCondition {
            r#type: r#type.to_owned(),
            status: ConditionStatus::True,
            reason: format!("{type} done"),
            message: format!("{type} is completed"),
            complete_time: complete_time.or(Some(Time(now))),
            ..UpgradeCondition::default()
        },
        StepOutcome::Waiting => pending(step, format!("{type} still in progress")),
        // Clients know a step that waits by these words.
        StepOutcome::Hold(why) if step.kind != StepKind::Gate => {
            pending(step, format!("{type} still in progress: {why}"))
        }
        StepOutcome::Hold(why) | StepOutcome::Failed(why) => pending(step, why.clone()),
    };
    let start_time = start_time.or(Some(Time(now)));
    let condition = UpgradeCondition {
        start_time,
        ..condition
    };
    set(entry, condition, now)
}

/// Notes what else holds about an upgrade.
pub fn note(
    entry: &mut UpgradeHistoryEntry,
    r#type: &str,
    status: ConditionStatus,
    (reason, message): (&str, &str),
    now: Timestamp,
) {
    let condition = UpgradeCondition {
        r#type: r#type.to_owned(),
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..UpgradeCondition::default()
    };
    set(entry, condition, now);
}

fn pending(step: &UpgradeStep, message: String) -> UpgradeCondition {
    UpgradeCondition {
        r#type: step.condition.to_owned(),
        status: ConditionStatus::False,
        reason: format!("{} not done", step.condition),
        message,
        ..UpgradeCondition::default()
    }
}

/// Puts a condition in the place of that of its type, or first; whether it says something else. One
/// that does not changes nothing for [`PROBED`], so that it is no write.
fn set(entry: &mut UpgradeHistoryEntry, mut condition: UpgradeCondition, now: Timestamp) -> bool {
    let mut conditions = entry.conditions.iter_mut();
    let stored = conditions.find(|stored| stored.r#type == condition.r#type);
    condition.last_transition_time = Some(Time(now));
    if let Some(stored) = stored {
        if stored.status == condition.status {
            condition
                .last_transition_time
                .clone_from(&stored.last_transition_time);
        }
        condition
            .last_probe_time
            .clone_from(&stored.last_probe_time);
        let is_news = *stored != condition;
        let probed = stored.last_probe_time.as_ref();
        if is_news || probed.is_none_or(|at| now.duration_since(at.0).abs() >= PROBED) {
            condition.last_probe_time = Some(Time(now));
            *stored = condition;
        }
        is_news
    } else {
        condition.last_probe_time = Some(Time(now));
        entry.conditions.insert(0, condition);
        true
    }
}

#[cfg(test)]
mod tests {
    use api::upgrade::UpgradePhase;

    use super::*;
    use crate::fixture::{at, entry};

    const STEP: StepName = StepName::EnsureExtraUpgradeWorkers;

    fn shown(entry: &UpgradeHistoryEntry) -> (String, String, String, bool) {
        let first = &entry.conditions[0];
        (
            first.status.to_string(),
            first.reason.clone(),
            first.message.clone(),
            first.complete_time.is_some(),
        )
    }

    #[test]
    fn conditions_follow_the_contract_of_steps() {
        let mut entry = entry(UpgradePhase::Upgrading);
        let step = STEP.step();
        let said = |status: &str, done: &str, message: &str, is_complete| {
            let reason = format!("ComputeCapacityReserved {done}");
            (status.to_owned(), reason, message.to_owned(), is_complete)
        };
        begin(&mut entry, &step, at(1));
        assert_eq!(
            shown(&entry),
            said(
                "False",
                "not done",
                "ComputeCapacityReserved has started",
                false
            )
        );
        let waiting = said(
            "False",
            "not done",
            "ComputeCapacityReserved still in progress",
            false,
        );
        finish(&mut entry, &step, &StepOutcome::Waiting, at(2));
        assert_eq!(shown(&entry), waiting);
        finish(&mut entry, &step, &StepOutcome::Done, at(3));
        let done = said("True", "done", "ComputeCapacityReserved is completed", true);
        assert_eq!(shown(&entry), done);
        let first = entry.conditions[0].clone();
        assert_eq!(first.start_time, Some(Time(at(1))));
        assert_eq!(first.last_transition_time, Some(Time(at(3))));
        // The same again is no change.
        assert!(!finish(&mut entry, &step, &StepOutcome::Done, at(4)));
        assert_eq!(entry.conditions, std::slice::from_ref(&first));
        // After a while it says when it was last looked at.
        assert!(!finish(&mut entry, &step, &StepOutcome::Done, at(8)));
        let probed = UpgradeCondition {
            last_probe_time: Some(Time(at(8))),
            ..first
        };
        assert_eq!(entry.conditions, [probed]);
        // A regression clears the end, and the reason with it.
        finish(
            &mut entry,
            &step,
            &StepOutcome::Failed("no quota".to_owned()),
            at(9),
        );
        assert_eq!(shown(&entry), said("False", "not done", "no quota", false));
        assert_eq!(entry.conditions[0].start_time, Some(Time(at(1))));
    }

    #[test]
    fn step_that_waits_says_so_in_known_words_and_a_gate_says_what_it_found() {
        let table = [
            (
                StepName::AllWorkersUpgraded,
                "WorkerNodesUpgraded still in progress: pool worker: 0 of 2 updated",
            ),
            (
                StepName::PreUpgradeHealthCheck,
                "pool worker: 0 of 2 updated",
            ),
        ];
        for (step, expected) in table {
            let mut entry = entry(UpgradePhase::Upgrading);
            let held = StepOutcome::Hold("pool worker: 0 of 2 updated".to_owned());
            assert!(finish(&mut entry, &step.step(), &held, at(1)));
            assert_eq!(entry.conditions[0].message, expected);
        }
    }

    #[test]
    fn latest_step_comes_first_and_the_newest_version_too() {
        let mut upgrade = entry(UpgradePhase::Upgrading);
        for step in [
            StepName::SendStartedNotification,
            StepName::PreUpgradeHealthCheck,
        ] {
            begin(&mut upgrade, &step.step(), at(1));
        }
        note(
            &mut upgrade,
            "FailedUpgrade",
            ConditionStatus::True,
            ("a", "b"),
            at(2),
        );
        let types: Vec<&str> = upgrade
            .conditions
            .iter()
            .map(|c| c.r#type.as_str())
            .collect();
        let expected = [
            "FailedUpgrade",
            "ClusterHealthyBeforeUpgrade",
            "StartedNotificationSent",
        ];
        assert_eq!(types, expected);
        let mut status = UpgradeConfigStatus::default();
        put(&mut status, upgrade.clone());
        let mut next = entry(UpgradePhase::New);
        next.version = "4.16.5".to_owned();
        put(&mut status, next);
        upgrade.phase = UpgradePhase::Upgraded;
        put(&mut status, upgrade);
        let versions = status
            .history
            .iter()
            .map(|e| (e.version.as_str(), e.phase.as_str()));
        assert_eq!(
            versions.collect::<Vec<_>>(),
            [("4.16.5", "New"), ("4.16.4", "Upgraded")]
        );
    }

    #[test]
    fn entry_of_an_image_is_replaced_when_its_version_is_known() {
        let mut status = UpgradeConfigStatus::default();
        let mut unknown = entry(UpgradePhase::Pending);
        unknown.version.clear();
        put(&mut status, unknown.clone());
        assert_eq!(status.history, [unknown]);
        let stored = entry(UpgradePhase::New);
        put(&mut status, stored.clone());
        assert_eq!(status.history, [stored]);
    }

    #[test]
    fn done_steps_are_not_run_again_and_gates_are_until_the_commencement() {
        let done = |steps: &[StepName]| {
            let mut entry = entry(UpgradePhase::Upgrading);
            for step in steps {
                finish(&mut entry, &step.step(), &StepOutcome::Done, at(1));
            }
            entry
        };
        let (gate, action) = (
            StepName::PreUpgradeHealthCheck,
            StepName::CreateControlPlaneMaintWindow,
        );
        let (silence, workers) = (
            StepName::CreateWorkerMaintWindow,
            StepName::AllWorkersUpgraded,
        );
        let table = [
            (gate, done(&[]), false, StepTurn::Run),
            (gate, done(&[gate]), false, StepTurn::Run),
            (gate, done(&[]), true, StepTurn::Passed),
            (gate, done(&[gate]), true, StepTurn::Skip),
            (action, done(&[]), true, StepTurn::Run),
            (action, done(&[action]), false, StepTurn::Skip),
            (silence, done(&[silence]), true, StepTurn::Run),
            (silence, done(&[silence, workers]), true, StepTurn::Skip),
        ];
        for (step, entry, is_commenced, expected) in table {
            let found = turn(&entry, &step.step(), is_commenced);
            assert_eq!(found, expected, "{step} {is_commenced}");
        }
    }
}
