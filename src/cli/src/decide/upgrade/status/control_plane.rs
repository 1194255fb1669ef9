//! The operators of a cluster under an update.

use jiff::Timestamp;
use serde::Serialize;

use super::duration::{HistoryEstimate, estimate, seconds, whole};
use super::steps::{StepsView, certainty, words};
use super::target::{MACHINE_CONFIG, OperatorProgress, TargetRelease, is_migration, origin};
use super::{ClusterSnapshot, IncompleteSnapshot};
use crate::decide::blocks::{columns, duration, first_line, rounded, shortened};
use crate::decide::object::{ClusterObject, text, time};

/// Assessment of an update that takes far too long.
const STALLED_WORD: &str = "Stalled";

/// An update that is so much over its estimate has stalled. Seconds.
const STALLED: f64 = -600.0;

/// An update whose step is so much over its longest earlier run has stalled; as long as above.
const OVERDUE_SECS: u64 = 600;

/// What is left below this is not shown exactly. Seconds.
const SOON: f64 = 600.0;

/// Stands for the time that is left of an update that has stalled, before the reason.
const NO_ESTIMATE: &str = "N/A; ";

/// Longest reason of a table.
const REASON_WIDTH: usize = 20;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ControlPlaneView {
    pub(crate) assessment: &'static str,
    /// Version that is updated to.
    pub(crate) target: String,
    /// What follows the version: where the update comes from.
    origin: String,
    /// Operators that are being updated.
    pub(crate) updating: Vec<UpdatingOperator>,
    updated: usize,
    waiting: usize,
    total: usize,
    unavailable: usize,
    degraded: usize,
    /// Since the start.
    pub(crate) elapsed: String,
    /// The same, to the second.
    #[serde(skip)]
    pub(crate) age: String,
    /// What is left, in words; none once it is done.
    remaining: Option<String>,
    /// Seconds that are left by the recorded steps, else by upstream's formula, while these say
    /// something.
    remaining_seconds: Option<i64>,
    /// What this cluster's own updates took, if there were enough.
    history: Option<HistoryEstimate>,
    /// The version operator's own record; none if it keeps none of this update.
    steps: Option<StepsView>,
    completed: Option<Timestamp>,
}

/// An operator that is being updated.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct UpdatingOperator {
    name: String,
    since: String,
    reason: String,
    message: String,
}

impl ControlPlaneView {
    pub(crate) fn new(
        cluster: &ClusterSnapshot,
        now: Timestamp,
    ) -> Result<Self, IncompleteSnapshot> {
        let history = cluster.version.list("/status/history");
        let current = history.first().ok_or(IncompleteSnapshot::NoHistory)?;
        let target = text(current, "/version").to_owned();
        let started = time(current, "/startedTime").ok_or(IncompleteSnapshot::NoStart)?;
        let completed = (text(current, "/state") == "Completed")
            .then(|| time(current, "/completionTime"))
            .flatten();
        let counted: Vec<&ClusterObject> = cluster
            .operators
            .iter()
            .filter(|operator| is_of_release(operator))
            .collect();
        let release = TargetRelease {
            version: &target,
            machine_config_image: cluster.machine_config_image.as_deref(),
            is_migration: is_migration(history),
        };
        let progress = |operator: &ClusterObject| release.progress(operator);
        let count = |wanted: OperatorProgress| {
            counted
                .iter()
                .filter(|operator| progress(operator) == wanted)
                .count()
        };
        let updating: Vec<UpdatingOperator> = counted
            .iter()
            .filter(|operator| progress(operator) == OperatorProgress::Updating)
            .map(|operator| UpdatingOperator::of(operator, now))
            .collect();
        let is_available = |operator: &&&ClusterObject| {
            operator
                .condition("Available")
                .is_some_and(|condition| condition.is_true())
        };
        let is_degraded = |operator: &&&ClusterObject| {
            operator
                .condition("Degraded")
                .is_some_and(|condition| condition.is_true())
        };
        let available = counted.iter().filter(is_available).count();
        let updated = count(OperatorProgress::Updated);
        let total = counted.len();
        let ended = completed.unwrap_or(now);
        let elapsed = seconds(started, ended);
        let mut this = Self {
            assessment: "Progressing",
            origin: origin(history),
            updating,
            updated,
            waiting: count(OperatorProgress::Waiting),
            total,
            unavailable: total - available,
            degraded: counted
                .iter()
                .filter(is_available)
                .filter(is_degraded)
                .count(),
            elapsed: duration(rounded(elapsed)),
            age: duration(whole(seconds(started, now))),
            remaining: None,
            remaining_seconds: None,
            history: HistoryEstimate::of(took(history)),
            steps: cluster
                .record
                .as_ref()
                .and_then(|record| StepsView::of(record, &target, now)),
            completed,
            target: target.clone(),
        };
        if completed.is_some() {
            this.assessment = "Completed";
            return Ok(this);
        }
        // All operators have the version from the start, and earlier updates were of another kind.
        if release.is_migration {
            this.remaining = Some("N/A for Multi-Architecture Migration".to_owned());
            return Ok(this);
        }
        let share = if total == 0 {
            0.0
        } else {
            ratio(updated, total)
        };
        let left = counted
            .iter()
            .filter(|operator| progress(operator) != OperatorProgress::Updated);
        let left: Vec<&str> = left.map(|operator| operator.name()).collect();
        let progressed = progressed(&counted, &left, started, now);
        let left = estimate(baseline(history), progressed, elapsed, share);
        if !this.judge_by_steps() {
            this.judge(elapsed, left);
        }
        Ok(this)
    }

    /// Judges by what steps took in earlier updates. False without a record of them.
    fn judge_by_steps(&mut self) -> bool {
        let steps = self.steps.as_ref();
        let Some(left) = steps.and_then(|steps| steps.remaining.clone()) else {
            return false;
        };
        let over = words(left.overdue_secs);
        if left.overdue_secs > OVERDUE_SECS {
            self.assessment = STALLED_WORD;
            let component = &left.overdue;
            self.remaining = Some(format!(
                "{NO_ESTIMATE}{component} takes {over} longer than in any earlier update"
            ));
            return true;
        }
        if left.overdue_secs > 0 {
            self.assessment = "Progressing - Slow";
        }
        self.remaining_seconds = i64::try_from(left.secs).ok();
        self.remaining = Some(format!("{}; {}", words(left.secs), certainty(&left)));
        true
    }

    /// Judges by upstream's formula, which was to take so long in all, to the minute.
    fn judge(&mut self, elapsed: f64, left: f64) {
        if left < STALLED {
            self.assessment = STALLED_WORD;
            let whole = whole(elapsed) + rounded(left);
            let whole = duration(whole / 60 * 60);
            self.remaining = Some(format!("{NO_ESTIMATE}estimate duration was {whole}"));
            return;
        }
        self.remaining_seconds = Some(rounded(left));
        self.remaining = Some(if left < SOON {
            "<10m".to_owned()
        } else {
            duration(rounded(left))
        });
        if left < 0.0 {
            self.assessment = "Progressing - Slow";
        }
    }

    /// Why the update takes too long, if it does.
    pub(crate) fn overdue(&self) -> Option<&str> {
        if self.assessment != STALLED_WORD {
            return None;
        }
        let why = self.remaining.as_deref()?;
        Some(why.strip_prefix(NO_ESTIMATE).unwrap_or(why))
    }

    /// Seconds that are left, least and most, and the source: the recorded steps, else
    /// upstream's formula. None once it is done or while neither applies.
    pub(crate) fn time_left(&self) -> Option<(i64, i64, String)> {
        let left = self.remaining_seconds.filter(|left| *left >= 0)?;
        let steps = self.steps.as_ref();
        Some(match steps.and_then(|steps| steps.remaining.as_ref()) {
            Some(steps) => {
                let most = i64::try_from(steps.most_secs).unwrap_or(i64::MAX);
                (left, left.max(most), certainty(steps))
            }
            None => (left, left, "by a formula".to_owned()),
        })
    }

    pub(crate) const fn is_done(&self) -> bool {
        self.completed.is_some()
    }

    /// How far the operators are, and what they wait for; none once they are done.
    pub(crate) fn left(&self) -> Option<String> {
        if self.completed.is_some() {
            return None;
        }
        let mut text = format!("{} of {} operators are updated", self.updated, self.total);
        if let Some(wait) = self.steps.as_ref().and_then(StepsView::first_wait) {
            text = format!("{text}, waits for {wait}");
        } else if let Some(operator) = self.updating.first() {
            text = format!("{text}, {} has taken {}", operator.name, operator.since);
        }
        Some(text)
    }

    pub(crate) fn text(&self) -> String {
        let mut text = "= Control Plane =\n".to_owned();
        if let Some(completed) = self.completed {
            text.extend([format!(
                "Update to {} successfully completed at {completed:.0} (duration: {})\n",
                self.target, self.elapsed
            )]);
        } else {
            let percent = 100.0 * ratio(self.updated, self.total.max(1));
            let names: Vec<&str> = self
                .updating
                .iter()
                .map(|operator| operator.name.as_str())
                .collect();
            let mut rows = vec![
                ("Assessment:", self.assessment.to_owned()),
                ("Target Version:", format!("{}{}", self.target, self.origin)),
            ];
            if !names.is_empty() {
                rows.push(("Updating:", names.join(", ")));
            }
            rows.push((
                "Completion:",
                format!(
                    "{percent:.0}% ({} operators updated, {} updating, {} waiting)",
                    self.updated,
                    names.len(),
                    self.waiting
                ),
            ));
            let remaining = self.remaining.as_deref().unwrap_or("N/A");
            let lasts = format!("{} (Est. Time Remaining: {remaining})", self.elapsed);
            rows.push(("Duration:", lasts));
            rows.extend(self.steps.iter().flat_map(StepsView::rows));
            let width = "Operator Health:".len();
            for (name, value) in rows {
                text.extend([format!("{name:width$} {value}\n")]);
            }
        }
        text.extend([format!("Operator Health: {}\n", self.health())]);
        text
    }

    fn health(&self) -> String {
        let healthy = self.total - self.unavailable - self.degraded;
        let mut parts = vec![format!("{healthy} Healthy")];
        if self.unavailable > 0 {
            parts.push(format!("{} Unavailable", self.unavailable));
        }
        if self.degraded > 0 {
            parts.push(format!("{} Available but degraded", self.degraded));
        }
        parts.join(", ")
    }
}

impl UpdatingOperator {
    fn of(operator: &ClusterObject, now: Timestamp) -> Self {
        let condition = operator.condition("Progressing");
        let since = condition.as_ref().and_then(|condition| condition.since);
        let or_dash = |text: &str| {
            if text.is_empty() {
                "-".to_owned()
            } else {
                text.to_owned()
            }
        };
        let (reason, message) =
            condition.map_or(("", ""), |condition| (condition.reason, condition.message));
        Self {
            name: operator.name().to_owned(),
            since: since.map_or_else(
                || "-".to_owned(),
                |since| duration(whole(seconds(since, now))),
            ),
            reason: or_dash(&shortened(reason, REASON_WIDTH)),
            message: or_dash(&first_line(message)),
        }
    }
}

/// Operators that are being updated, under their title.
pub(crate) fn operator_table(view: &ControlPlaneView) -> String {
    if view.updating.is_empty() {
        return String::new();
    }
    let head = ["NAME", "SINCE", "REASON", "MESSAGE"]
        .map(str::to_owned)
        .to_vec();
    let mut rows = vec![head];
    rows.extend(view.updating.iter().map(|operator| {
        vec![
            operator.name.clone(),
            operator.since.clone(),
            operator.reason.clone(),
            operator.message.clone(),
        ]
    }));
    format!("\nUpdating Cluster Operators\n{}", columns(0, 3, 0, &rows))
}

/// Operators that come with a release say for which clusters they are.
pub(crate) fn is_of_release(operator: &ClusterObject) -> bool {
    operator.annotations().keys().any(|key| {
        key.starts_with("include.release.openshift.io/")
            || key.starts_with("exclude.release.openshift.io/")
    })
}

/// What the updates before took, in seconds; the installation is none.
fn took(history: &[serde_json::Value]) -> Vec<i64> {
    let before = history
        .get(1..history.len().saturating_sub(1))
        .unwrap_or_default();
    let complete = before
        .iter()
        .filter(|entry| text(entry, "/state") == "Completed");
    complete
        .filter_map(|entry| {
            let took = seconds(
                time(entry, "/startedTime")?,
                time(entry, "/completionTime")?,
            );
            Some(whole(took))
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "seconds of an update")]
fn baseline(history: &[serde_json::Value]) -> Option<f64> {
    took(history).first().map(|seconds| *seconds as f64)
}

/// Seconds from the start to when an operator last began or ceased to move.
///
/// Once the operator of the nodes alone is left, its own start counts: others move while nodes
/// reboot. `left` names the operators that are not updated.
pub(crate) fn progressed(
    operators: &[&ClusterObject],
    left: &[&str],
    started: Timestamp,
    now: Timestamp,
) -> f64 {
    let of_nodes = operators
        .iter()
        .find(|operator| operator.name() == MACHINE_CONFIG)
        .and_then(|operator| operator.condition("Progressing"))
        .filter(|condition| left == [MACHINE_CONFIG] && condition.is_true());
    let moving = operators
        .iter()
        .filter_map(|operator| operator.condition("Progressing"));
    let moved = of_nodes
        .and_then(|condition| condition.since)
        .or_else(|| moving.filter_map(|condition| condition.since).max());
    let moved = moved.filter(|moved| *moved > started).unwrap_or(now);
    seconds(started, moved)
}

#[expect(clippy::cast_precision_loss, reason = "a number of operators")]
fn ratio(part: usize, all: usize) -> f64 {
    part as f64 / all as f64
}
