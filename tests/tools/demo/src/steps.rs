//! Steps of a managed upgrade, as its operator shows them. Pure.

use api::upgrade::{PlanState, PlanStep, UpgradeHistoryEntry, UpgradePlan};
use jiff::Timestamp;
use serde::Serialize;

/// A step that was done.
///
/// Shape: this is the file's, times RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct StepSpan {
    /// Its name in a list of steps.
    pub(crate) step: String,
    /// Type of its condition.
    pub(crate) condition: String,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
}

/// The steps that are done, in their order.
pub(crate) fn spans(plan: &UpgradePlan, entry: &UpgradeHistoryEntry) -> Vec<StepSpan> {
    let span = |step: PlanStep| {
        let condition = entry.condition(&step.condition)?;
        Some(StepSpan {
            step: step.name,
            start: condition.start_time.as_ref()?.0,
            end: condition.complete_time.as_ref()?.0,
            condition: step.condition,
        })
    };
    let mut steps = plan.steps.clone();
    // Two steps may have one condition.
    steps.dedup_by(|step, before| step.condition == before.condition);
    steps.into_iter().filter_map(span).collect()
}

/// What stands above run levels and nodes: how many steps are done, and the next one with what it
/// says.
pub(crate) fn notes(plan: &UpgradePlan) -> Vec<String> {
    let is_done = |step: &&PlanStep| step.state == PlanState::Done;
    let (count, of) = (plan.steps.iter().filter(is_done).count(), plan.steps.len());
    let next = plan.steps.iter().find(|step| !is_done(step));
    let mut notes = vec![format!("  {count} of {of} steps are done")];
    notes.extend(next.map(|step| {
        let says = if step.message.is_empty() {
            &step.waits_for
        } else {
            &step.message
        };
        format!("\u{25b8} {}  {says}", step.name)
    }));
    notes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan() -> UpgradePlan {
        let step = |name: &str, condition: &str, state: &str, message: &str| {
            json!({ "name": name, "condition": condition, "kind": "Gate", "waitsFor": "machines",
                    "state": state, "message": message })
        };
        let steps = [
            step("SendStarted", "Started", "Done", ""),
            step("UpgradeDelayed", "Started", "Done", ""),
            step("IsUpgradeable", "Upgradeable", "Done", ""),
            step(
                "EnsureExtra",
                "Reserved",
                "Running",
                "0 of 1 machines ready",
            ),
            step("Commence", "Commenced", "Pending", ""),
        ];
        let plan = json!({ "uid": "u", "evaluated": "2026-01-02T03:04:05Z", "version": "1.0.1",
                           "phase": "Upgrading", "steps": steps });
        serde_json::from_value(plan).unwrap()
    }

    #[test]
    fn steps_that_are_done_are_spans_in_their_order() {
        let condition = |r#type: &str, end: Option<&str>| {
            json!({ "type": r#type, "status": "True", "startTime": "2026-01-02T03:04:05Z",
                    "completeTime": end })
        };
        let conditions = [
            condition("Reserved", None),
            condition("Upgradeable", Some("2026-01-02T03:04:09Z")),
            condition("Started", Some("2026-01-02T03:04:06Z")),
        ];
        let entry = json!({ "version": "1.0.1", "phase": "Upgrading", "conditions": conditions });
        let spans = spans(&plan(), &serde_json::from_value(entry).unwrap());
        let shown = |span: &StepSpan| format!("{} {} {}", span.step, span.start, span.end);
        assert_eq!(
            spans.iter().map(shown).collect::<Vec<_>>(),
            [
                "SendStarted 2026-01-02T03:04:05Z 2026-01-02T03:04:06Z",
                "IsUpgradeable 2026-01-02T03:04:05Z 2026-01-02T03:04:09Z",
            ]
        );
    }

    #[test]
    fn notes_count_the_steps_and_name_the_next() {
        let mut plan = plan();
        let expected = "\u{25b8} EnsureExtra  0 of 1 machines ready";
        assert_eq!(notes(&plan), ["  3 of 5 steps are done", expected]);
        plan.steps[3].state = PlanState::Done;
        assert_eq!(notes(&plan)[1], "\u{25b8} Commence  machines");
    }
}
