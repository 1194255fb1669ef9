//! The progress record: what of a release is applied, what runs, what it waits for and since when,
//! and how long each step took before.
//!
//! The version operator keeps it in a ConfigMap, so that clients can read it and a restart goes on
//! from it. Nothing that is done becomes undone in the record of one release.
//!
//! - `estimate`: how long the rest takes, by the earlier runs of its steps

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

mod estimate;

pub use estimate::RemainingTime;

/// Namespace of the ConfigMap.
pub const NAMESPACE: &str = "openshift-cluster-version";

pub const NAME: &str = "update-progress";

/// Key of the record in it.
pub const KEY: &str = "progress.json";

/// Earlier runs of a step that are kept, newest first.
const RUNS: usize = 5;

/// Steps that a record has at most; a release has about sixty.
const STEPS: usize = 300;

/// Waits that a record has at most, and the characters of a text in them.
const WAITS: usize = 20;
const TEXT_CHARS: usize = 200;

/// Between two writes where a step began or ended, or another object is waited for.
const AFTER_STEP: Duration = Duration::from_secs(15);

/// Between two writes where only counts and messages differ.
const AFTER_TEXT: Duration = Duration::from_mins(5);

/// How far a release is.
///
/// Shape: JSON in [`KEY`], times in RFC 3339, lengths of time in seconds. Bounds: 300 steps, 20
/// waits, 200 characters a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressRecord {
    pub version: String,
    pub image: String,
    pub started: Timestamp,
    /// When all of it was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Timestamp>,
    /// Its steps, in their order.
    pub steps: Vec<StepRecord>,
    /// How many steps are left out here.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_steps: usize,
    /// What it waits for, longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitRecord>,
}

/// A component in a run level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepRecord {
    /// Digits; empty for files whose names name no place.
    pub run_level: String,
    pub component: String,
    /// Its manifests that the cluster applies.
    pub manifests: usize,
    /// The most of them that were done.
    pub done: usize,
    /// When the first of them began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When all of them were done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Seconds that the same step took in earlier updates, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_secs: Vec<u64>,
}

/// An object that a step waits for, or that could not be applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitRecord {
    /// Kind and name, such as `clusteroperator "dns"`.
    pub object: String,
    /// Run level of its step.
    pub run_level: String,
    /// Component of its step.
    pub component: String,
    pub reason: String,
    pub message: String,
    pub since: Timestamp,
}

/// What one pass over a release has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassProgress {
    pub version: String,
    pub image: String,
    /// Manifests in the order of the release.
    pub tasks: Vec<TaskProgress>,
    /// Whether its steps are run as in other updates, so that they tell how long these take.
    pub is_typical: bool,
    /// Whether all of the release was applied once.
    pub is_complete: bool,
}

/// A manifest in a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskProgress {
    /// Run level; empty if its file names none.
    pub run_level: String,
    pub component: String,
    /// Kind and name of the object.
    pub object: String,
    pub state: TaskState,
}

/// How far a manifest is in a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TaskState {
    /// Its turn has not come.
    #[default]
    Pending,
    Started,
    /// It is waited for, or could not be applied.
    Waits {
        reason: String,
        message: String,
        /// Since when, if that was recorded.
        since: Option<Timestamp>,
    },
    /// It is as it must be.
    Done,
}

impl ProgressRecord {
    /// Reads the ConfigMap's key.
    ///
    /// # Errors
    /// It is no record; the message has line and field.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The text of the ConfigMap's key.
    pub fn print(&self) -> String {
        // Serializing a structure of texts, numbers and times to a string has nothing to fail at.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether this is the record of a release.
    pub fn is_of(&self, version: &str, image: &str) -> bool {
        (self.version.as_str(), self.image.as_str()) == (version, image)
    }

    /// The record after what a pass has come to; `before` is the one that was stored last, of this
    /// release or another one.
    pub fn next(before: Option<&Self>, pass: &PassProgress, now: Timestamp) -> Self {
        let same = before.filter(|before| before.is_of(&pass.version, &pass.image));
        if let Some(same) = same.filter(|same| same.completed.is_some()) {
            return same.clone();
        }
        let mut steps = steps(&pass.tasks);
        let omitted_steps = steps.len().saturating_sub(STEPS);
        steps.truncate(STEPS);
        for (step, is_begun) in &mut steps {
            let earlier = before.and_then(|before| before.step(&step.run_level, &step.component));
            if let Some(earlier) = earlier {
                step.earlier_secs.clone_from(&earlier.earlier_secs);
            }
            if let Some(earlier) = earlier.filter(|_| same.is_some()) {
                step.started = earlier.started;
                step.ended = earlier.ended;
                step.done = step.done.max(earlier.done).min(step.manifests);
            }
            step.advance(*is_begun, pass, now);
        }
        Self {
            version: pass.version.clone(),
            image: pass.image.clone(),
            started: same.map_or(now, |same| same.started),
            completed: pass.is_complete.then_some(now),
            steps: steps.into_iter().map(|(step, _)| step).collect(),
            omitted_steps,
            waits: waits(same, pass, now),
        }
    }

    /// Whether it is to be stored where `stored` is, so long after the last write. Each is a write:
    /// at most four a minute, and none while nothing changes.
    pub fn is_due(&self, stored: Option<&Self>, since_write: Option<Duration>) -> bool {
        let Some(stored) = stored else {
            return true;
        };
        if self == stored {
            return false;
        }
        if !self.is_of(&stored.version, &stored.image) || self.completed != stored.completed {
            return true;
        }
        let Some(since_write) = since_write else {
            return true;
        };
        let pause = if self.outline() == stored.outline() {
            AFTER_TEXT
        } else {
            AFTER_STEP
        };
        since_write >= pause
    }

    /// Steps that run.
    pub fn running(&self) -> impl Iterator<Item = &StepRecord> {
        let steps = self.steps.iter();
        steps.filter(|step| step.started.is_some() && step.ended.is_none())
    }

    /// How many steps are done.
    pub fn ended(&self) -> usize {
        let steps = self.steps.iter();
        steps.filter(|step| step.ended.is_some()).count()
    }

    fn step(&self, run_level: &str, component: &str) -> Option<&StepRecord> {
        let is_it = |step: &&StepRecord| step.run_level == run_level && step.component == component;
        self.steps.iter().find(is_it)
    }

    /// All but counts and messages.
    fn outline(&self) -> impl PartialEq {
        let steps = self.steps.iter();
        let steps = steps.map(|step| (step.started, step.ended, step.component.clone()));
        let waits = self.waits.iter();
        let waits = waits.map(|wait| (wait.object.clone(), wait.reason.clone()));
        (steps.collect::<Vec<_>>(), waits.collect::<Vec<_>>())
    }
}

impl StepRecord {
    /// Begins and ends by what a pass has come to. An end is learned from.
    fn advance(&mut self, is_begun: bool, pass: &PassProgress, now: Timestamp) {
        if is_begun || pass.is_complete {
            self.started.get_or_insert(now);
        }
        let is_done = self.done == self.manifests || pass.is_complete;
        if self.ended.is_some() || !is_done {
            return;
        }
        self.done = self.manifests;
        self.ended = Some(now);
        if let Some(took) = self.elapsed_secs(now).filter(|_| pass.is_typical) {
            self.earlier_secs.insert(0, took);
            self.earlier_secs.truncate(RUNS);
        }
    }

    /// Seconds since it began.
    pub fn elapsed_secs(&self, now: Timestamp) -> Option<u64> {
        let elapsed = now.duration_since(self.started?).as_secs();
        // Clocks of two processes may differ.
        Some(u64::try_from(elapsed).unwrap_or_default())
    }
}

/// Steps in the order of their first manifests, and whether any of them has begun.
fn steps(tasks: &[TaskProgress]) -> Vec<(StepRecord, bool)> {
    let mut steps: Vec<(StepRecord, bool)> = Vec::new();
    for task in tasks {
        let is_its = |(step, _): &(StepRecord, bool)| {
            step.run_level == task.run_level && step.component == task.component
        };
        let at = steps.iter().position(is_its).unwrap_or_else(|| {
            let step = StepRecord {
                run_level: task.run_level.clone(),
                component: task.component.clone(),
                ..StepRecord::default()
            };
            steps.push((step, false));
            steps.len() - 1
        });
        if let Some((step, is_begun)) = steps.get_mut(at) {
            step.manifests += 1;
            step.done += usize::from(task.state == TaskState::Done);
            *is_begun |= task.state != TaskState::Pending;
        }
    }
    steps
}

/// What is waited for. What an earlier pass or process waited for stays, with its time, until its
/// turn has come again and it is done.
fn waits(same: Option<&ProgressRecord>, pass: &PassProgress, now: Timestamp) -> Vec<WaitRecord> {
    if pass.is_complete {
        return Vec::new();
    }
    let cut = |text: &str| text.chars().take(TEXT_CHARS).collect::<String>();
    let one = |task: &TaskProgress| {
        let object = cut(&task.object);
        let earlier = same.and_then(|same| same.waits.iter().find(|wait| wait.object == object));
        match &task.state {
            TaskState::Done => None,
            TaskState::Pending | TaskState::Started => earlier.cloned(),
            TaskState::Waits {
                reason,
                message,
                since,
            } => Some(WaitRecord {
                object,
                run_level: task.run_level.clone(),
                component: task.component.clone(),
                reason: cut(reason),
                message: cut(message),
                since: earlier
                    .map(|earlier| earlier.since)
                    .or(*since)
                    .unwrap_or(now),
            }),
        }
    };
    let mut waits: Vec<WaitRecord> = pass.tasks.iter().filter_map(one).collect();
    waits.sort_by_key(|wait| wait.since);
    waits.truncate(WAITS);
    waits
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests;
