//! What the version operator has recorded of the update: its steps, what they wait for, and how
//! long the rest takes.

use jiff::Timestamp;
use release::progress::{ProgressRecord, RemainingTime, StepRecord};
use serde::Serialize;

use super::duration::{seconds, whole};
use crate::decide::blocks::{duration, first_line};

/// Waits that are shown as text.
const SHOWN: usize = 3;

/// The recorded steps of the update under way.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StepsView {
    done: usize,
    total: usize,
    running: Vec<RunningStep>,
    waits: Vec<WaitView>,
    /// What is left, learned from earlier updates; none if they say too little.
    pub(crate) remaining: Option<RemainingTime>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RunningStep {
    run_level: String,
    component: String,
    /// Manifests that are done, and all.
    manifests: (usize, usize),
    elapsed_secs: u64,
    /// What it took in earlier updates; none if it is new.
    usual_secs: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WaitView {
    object: String,
    run_level: String,
    reason: String,
    message: String,
    since: Timestamp,
    /// How long that is, in words.
    lasts: String,
}

impl StepsView {
    /// The record, if it is of the update to `version`, which is under way.
    pub(crate) fn of(record: &ProgressRecord, version: &str, now: Timestamp) -> Option<Self> {
        if record.version != version || record.completed.is_some() {
            return None;
        }
        let running = |step: &StepRecord| RunningStep {
            run_level: step.run_level.clone(),
            component: step.component.clone(),
            manifests: (step.done, step.manifests),
            elapsed_secs: step.elapsed_secs(now).unwrap_or_default(),
            usual_secs: step.usual_secs(),
        };
        let waits = record.waits.iter().map(|wait| WaitView {
            object: wait.object.clone(),
            run_level: wait.run_level.clone(),
            reason: wait.reason.clone(),
            message: wait.message.clone(),
            since: wait.since,
            lasts: duration(whole(seconds(wait.since, now))),
        });
        Some(Self {
            done: record.ended(),
            total: record.steps.len() + record.omitted_steps,
            running: record.running().map(running).collect(),
            waits: waits.collect(),
            remaining: record.remaining(now),
        })
    }

    /// What it waits for, if it waits.
    pub(crate) fn first_wait(&self) -> Option<String> {
        self.waits.first().map(WaitView::text)
    }

    /// Rows of the table of the control plane.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let mut steps = format!("{} of {} done", self.done, self.total);
        let running: Vec<String> = self.running.iter().map(RunningStep::text).collect();
        if !running.is_empty() {
            steps = format!("{steps}; running: {}", running.join(", "));
        }
        let mut rows = vec![("Steps:", steps)];
        let waits = self.waits.iter().take(SHOWN).map(WaitView::text);
        rows.extend(waits.map(|text| ("Waiting for:", text)));
        if let Some(more) = self.waits.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            rows.push(("Waiting for:", format!("{more} more objects")));
        }
        rows
    }
}

impl WaitView {
    fn text(&self) -> String {
        let message = first_line(&self.message);
        format!("{} for {}: {message}", self.object, self.lasts)
    }
}

impl RunningStep {
    fn text(&self) -> String {
        let Self {
            run_level,
            component,
            ..
        } = self;
        let elapsed = words(self.elapsed_secs);
        match self.usual_secs {
            Some(usual) => format!(
                "{run_level} {component} ({elapsed}, usually {})",
                words(usual)
            ),
            None => format!("{run_level} {component} ({elapsed})"),
        }
    }
}

/// How sure an estimate is.
pub(crate) fn certainty(remaining: &RemainingTime) -> String {
    let RemainingTime {
        least_secs,
        most_secs,
        runs,
        unknown_steps,
        ..
    } = remaining;
    let plural = if *runs == 1 { "" } else { "s" };
    let mut text = format!(
        "{} to {} by {runs} earlier update{plural}",
        words(*least_secs),
        words(*most_secs)
    );
    if *unknown_steps > 0 {
        text = format!("{text}, without {unknown_steps} new steps");
    }
    text
}

/// A number of seconds in words.
pub(crate) fn words(secs: u64) -> String {
    match secs {
        0 => "0s".to_owned(),
        secs => duration(i64::try_from(secs).unwrap_or(i64::MAX)),
    }
}
