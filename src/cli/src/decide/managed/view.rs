//! An upgrade and its plan, for people and programs.

use api::ConditionStatus;
use api::upgrade::plan::RENEWED_SECS;
use api::upgrade::{PlanForecast, PlanState, PlanStep, UpgradeConfig, UpgradePhase, UpgradePlan};
use jiff::Timestamp;
use serde::Serialize;

use crate::decide::blocks::{columns, duration};

/// What is shown beside the plan, by condition and the status that is worth it.
const NOTES: [(&str, ConditionStatus); 4] = [
    ("UpgradeStopped", ConditionStatus::True),
    ("OperatorConfigValid", ConditionStatus::False),
    ("UpgradeConfigValid", ConditionStatus::False),
    ("DesiredChangeRefused", ConditionStatus::True),
];

/// What is shown of an upgrade.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ManagedView {
    /// Requested version; none if none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    preceding_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    phase: String,
    /// `spec.upgradeAt`.
    #[serde(skip_serializing_if = "String::is_empty")]
    upgrade_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    started: Option<Timestamp>,
    /// When the last of them was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    completed: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<UpgradePlan>,
    /// What a person should read.
    notes: Vec<String>,
}

impl ManagedView {
    pub(crate) fn new(
        upgrade: Option<&UpgradeConfig>,
        plan: Option<UpgradePlan>,
        now: Timestamp,
    ) -> Self {
        let mut view = Self {
            version: None,
            preceding_version: String::new(),
            phase: String::new(),
            upgrade_at: String::new(),
            started: None,
            completed: None,
            plan: None,
            notes: Vec::new(),
        };
        let Some(upgrade) = upgrade else {
            return view;
        };
        let requested = &upgrade.spec.desired.version;
        let history = upgrade.status.as_ref().map(|status| &status.history);
        let mut entries = history.into_iter().flatten();
        // One that has changed the cluster goes on although another one is requested.
        let is_shown = |version: &str| match plan.as_ref() {
            Some(plan) => version == plan.version,
            None => version == requested.as_str(),
        };
        let entry = entries.find(|entry| is_shown(&entry.version));
        view.version = Some(entry.map_or_else(|| requested.clone(), |entry| entry.version.clone()));
        view.upgrade_at.clone_from(&upgrade.spec.upgrade_at);
        if let Some(entry) = entry {
            view.preceding_version.clone_from(&entry.preceding_version);
            view.phase = entry.phase.to_string();
            view.started = entry.start_time.as_ref().map(|time| time.0);
            view.completed = entry.complete_time.as_ref().map(|time| time.0);
            for (name, status) in NOTES {
                let condition = entry.condition(name);
                if let Some(condition) = condition.filter(|condition| condition.status == status) {
                    view.notes.push(format!("{name}: {}", condition.message));
                }
            }
            if entry.phase == UpgradePhase::Failed {
                view.notes
                    .push("the upgrade was given up before it changed the cluster".to_owned());
            }
        }
        if upgrade.metadata.deletion_timestamp.is_some() {
            view.notes.push("it is being withdrawn".to_owned());
        }
        let uid = upgrade.metadata.uid.as_deref().unwrap_or_default();
        match plan.filter(|plan| plan.uid == uid) {
            Some(plan) => {
                view.notes.extend(plan.steps.iter().filter_map(held));
                let age = now.duration_since(plan.evaluated).as_secs();
                let waits = matches!(plan.phase.as_str(), "New" | "Pending");
                if waits && age > 2 * RENEWED_SECS {
                    view.notes.push(format!(
                        "the plan is {} old: the operator does not renew it",
                        duration(age)
                    ));
                }
                view.plan = Some(plan);
            }
            None => view
                .notes
                .push("there is no plan: the managed upgrade operator has made none".to_owned()),
        }
        view
    }

    /// Whether a person should read what is shown.
    pub(crate) const fn needs_attention(&self) -> bool {
        !self.notes.is_empty()
    }

    /// Plan, or status, as text.
    pub(crate) fn text(&self, is_plan: bool) -> String {
        let Some(version) = &self.version else {
            return "No upgrade is scheduled\n".to_owned();
        };
        let mut lines = vec![self.head(version)];
        if let Some(plan) = &self.plan {
            if let Some(window) = &plan.window {
                let name = match window.name.as_str() {
                    "" => String::new(),
                    name => format!(" ({name})"),
                };
                let closes = window.closes.map(|closes| format!(", closes {closes}"));
                let closes = closes.unwrap_or_default();
                lines.push(format!("Window{name}: opens {}{closes}", window.opens));
            }
            if let Some(forecast) = &plan.forecast {
                lines.push(ends(forecast));
            }
            if is_plan {
                lines.push(format!("Gates asked at {}", plan.evaluated));
                lines.push(String::new());
                lines.push(table(&plan.steps));
            } else {
                lines.extend(under_way(&plan.steps));
            }
        }
        if !self.notes.is_empty() {
            lines.push("\nNeeds attention:".to_owned());
            lines.extend(self.notes.iter().map(|note| format!("  {note}")));
        }
        lines.join("\n").trim_end().to_owned() + "\n"
    }

    fn head(&self, version: &str) -> String {
        let from = match self.preceding_version.as_str() {
            "" => String::new(),
            from => format!(" from {from}"),
        };
        let phase = match self.phase.as_str() {
            "" => "not seen by the operator yet",
            phase => phase,
        };
        let times = match (self.started, self.completed) {
            (Some(started), Some(completed)) => {
                let took = completed.duration_since(started).as_secs();
                format!(", from {started} to {completed} ({})", duration(took))
            }
            (Some(started), None) => format!(" since {started}"),
            (None, _) => format!(", asked for at {}", self.upgrade_at),
        };
        format!("Upgrade to {version}{from}: {phase}{times}")
    }
}

/// What a gate says that holds the upgrade.
fn held(step: &PlanStep) -> Option<String> {
    let has_only_begun =
        step.message.ends_with("has started") || step.message.ends_with("still in progress");
    let is_held = match step.state {
        PlanState::Holds => true,
        PlanState::Running => step.kind == "Gate" && !has_only_begun,
        PlanState::Pending | PlanState::Passes | PlanState::Done => false,
    };
    is_held.then(|| format!("{}: {}", step.name, step.message))
}

fn ends(forecast: &PlanForecast) -> String {
    let expected = match forecast.expected {
        Some(expected) => format!("about {expected}, "),
        None => String::new(),
    };
    format!(
        "Ends: {expected}at the latest {} ({})",
        forecast.latest, forecast.basis
    )
}

fn table(steps: &[PlanStep]) -> String {
    let head = ["", "STEP", "KIND", "STATE", "SAYS"].map(ToOwned::to_owned);
    let mut rows = vec![head.to_vec()];
    for (number, step) in steps.iter().enumerate() {
        let says = if step.message.is_empty() && step.state != PlanState::Done {
            format!("done when {}", step.waits_for)
        } else {
            step.message.clone()
        };
        let hooks = match step.hooks.as_slice() {
            [] => String::new(),
            hooks => format!("[hooks: {}] ", hooks.join(", ")),
        };
        rows.push(vec![
            (number + 1).to_string(),
            step.name.clone(),
            step.kind.clone(),
            format!("{:?}", step.state),
            hooks + &says,
        ]);
    }
    let table = columns(0, 2, 0, &rows);
    let lines: Vec<&str> = table.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// How many steps are done, and the one that runs.
fn under_way(steps: &[PlanStep]) -> Vec<String> {
    let done = steps.iter().filter(|step| step.state == PlanState::Done);
    let mut lines = vec![format!("Steps: {} of {} done", done.count(), steps.len())];
    let running = steps.iter().find(|step| step.state == PlanState::Running);
    lines.extend(running.map(|step| format!("Step {}: {}", step.name, step.message)));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn upgrade(phase: &str, conditions: &Value) -> UpgradeConfig {
        serde_json::from_value(json!({
            "metadata": { "name": "managed-upgrade-config", "uid": "u" },
            "spec": {
                "type": "OSD", "upgradeAt": "2027-01-16T02:00:00Z", "PDBForceDrainTimeout": 60,
                "desired": { "version": "4.16.4", "channel": "stable-4.16" },
            },
            "status": { "history": [{
                "version": "4.16.4", "precedingVersion": "4.16.3", "phase": phase,
                "conditions": conditions,
            }] },
        }))
        .unwrap()
    }

    fn plan(state: PlanState, message: &str) -> UpgradePlan {
        let step = |name: &str, kind: &str, state, message: &str| PlanStep {
            name: name.to_owned(),
            condition: "c".to_owned(),
            kind: kind.to_owned(),
            waits_for: "it is well".to_owned(),
            state,
            message: message.to_owned(),
            hooks: Vec::new(),
        };
        let mut commence = step("CommenceUpgrade", "Action", PlanState::Pending, "");
        commence.hooks = vec!["before backup".to_owned()];
        UpgradePlan {
            uid: "u".to_owned(),
            evaluated: NOW,
            version: "4.16.4".to_owned(),
            phase: "Pending".to_owned(),
            refused: String::new(),
            window: Some(api::upgrade::PlanWindow {
                opens: "2027-01-16T02:00:00Z".parse().unwrap(),
                closes: Some("2027-01-16T04:00:00Z".parse().unwrap()),
                name: "sat".to_owned(),
            }),
            steps: vec![
                step("SendStartedNotification", "Action", PlanState::Done, ""),
                step("PreUpgradeHealthCheck", "Gate", state, message),
                commence,
            ],
            forecast: Some(PlanForecast {
                expected: Some("2027-01-16T03:00:00Z".parse().unwrap()),
                latest: "2027-01-16T05:00:00Z".parse().unwrap(),
                basis: "2 nodes".to_owned(),
            }),
        }
    }

    #[test]
    fn plan_shows_window_gates_and_end() {
        let held = plan(PlanState::Holds, "an alert fires");
        let view = ManagedView::new(Some(&upgrade("Pending", &json!([]))), Some(held), NOW);
        let expected = "\
Upgrade to 4.16.4 from 4.16.3: Pending, asked for at 2027-01-16T02:00:00Z
Window (sat): opens 2027-01-16T02:00:00Z, closes 2027-01-16T04:00:00Z
Ends: about 2027-01-16T03:00:00Z, at the latest 2027-01-16T05:00:00Z (2 nodes)
Gates asked at 2027-01-15T08:00:00Z

   STEP                     KIND    STATE    SAYS
1  SendStartedNotification  Action  Done
2  PreUpgradeHealthCheck    Gate    Holds    an alert fires
3  CommenceUpgrade          Action  Pending  [hooks: before backup] done when it is well

Needs attention:
  PreUpgradeHealthCheck: an alert fires
";
        assert_eq!(view.text(true), expected);
        assert!(view.needs_attention());
    }

    #[test]
    fn status_shows_the_step_that_runs() {
        let mut running = plan(PlanState::Running, "c still in progress");
        "Upgrading".clone_into(&mut running.phase);
        running.window = None;
        let mut upgrade = upgrade("Upgrading", &json!([]));
        let entry = &mut upgrade.status.as_mut().unwrap().history[0];
        entry.start_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(NOW));
        let view = ManagedView::new(Some(&upgrade), Some(running), NOW);
        let expected = "\
Upgrade to 4.16.4 from 4.16.3: Upgrading since 2027-01-15T08:00:00Z
Ends: about 2027-01-16T03:00:00Z, at the latest 2027-01-16T05:00:00Z (2 nodes)
Steps: 1 of 3 done
Step PreUpgradeHealthCheck: c still in progress
";
        assert_eq!(view.text(false), expected);
        assert!(!view.needs_attention());
    }

    #[test]
    fn what_is_wrong_or_not_known_needs_attention() {
        let good = || plan(PlanState::Passes, "");
        let later = NOW + jiff::SignedDuration::from_mins(21);
        let invalid = json!([{
            "type": "UpgradeConfigValid", "status": "False", "message": "spec.upgradeAt: soon",
        }]);
        let none = json!([]);
        let other = UpgradePlan {
            uid: "before".to_owned(),
            ..good()
        };
        let table = [
            ("Pending", &none, Some(good()), NOW, None),
            (
                "Pending",
                &none,
                Some(good()),
                later,
                Some("the plan is 21m old"),
            ),
            ("Pending", &none, Some(other), NOW, Some("there is no plan")),
            ("Pending", &none, None, NOW, Some("there is no plan")),
            (
                "Pending",
                &invalid,
                Some(good()),
                NOW,
                Some("spec.upgradeAt: soon"),
            ),
            ("Failed", &none, Some(good()), NOW, Some("was given up")),
        ];
        for (phase, conditions, plan, now, expected) in table {
            let view = ManagedView::new(Some(&upgrade(phase, conditions)), plan, now);
            let text = view.text(false);
            assert_eq!(view.needs_attention(), expected.is_some(), "{text}");
            assert!(text.contains(expected.unwrap_or_default()), "{text}");
        }
        let nothing = ManagedView::new(None, Some(good()), NOW);
        assert_eq!(nothing.text(true), "No upgrade is scheduled\n");
        assert!(!nothing.needs_attention());
    }
}
