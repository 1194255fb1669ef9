//! How long the rest of a release takes, learned from earlier runs of the same steps.

use jiff::Timestamp;
use serde::Serialize;

use super::{ProgressRecord, StepRecord};

/// The rest counts as measured if at most one of so many steps has no earlier run.
const KNOWN_SHARE: usize = 5;

/// What is left of an update, and how sure that is.
///
/// Units: seconds. Components of a run level run beside each other, and run levels one after
/// another: the longest component of each counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemainingTime {
    /// By the middle of the earlier runs.
    pub secs: u64,
    /// By the shortest of them.
    pub least_secs: u64,
    /// By the longest.
    pub most_secs: u64,
    /// Earlier runs of the step that has the fewest, of those that have any.
    pub runs: usize,
    /// Steps without an earlier run, which count as none.
    pub unknown_steps: usize,
    /// By how much the step under way that is furthest over its longest earlier run is over it;
    /// zero for none.
    pub overdue_secs: u64,
    /// That step's component; empty for none.
    pub overdue: String,
}

/// What is left of one step.
#[derive(Clone, Copy, Default)]
struct Left {
    middle: u64,
    least: u64,
    most: u64,
}

impl ProgressRecord {
    /// What is left; none once it is completed, and where too many steps have no earlier run.
    pub fn remaining(&self, now: Timestamp) -> Option<RemainingTime> {
        if self.completed.is_some() || self.omitted_steps > 0 {
            return None;
        }
        let mut remaining = RemainingTime::default();
        let mut count = 0;
        for level in self
            .steps
            .chunk_by(|one, other| one.run_level == other.run_level)
        {
            let mut longest = Left::default();
            for step in level.iter().filter(|step| step.ended.is_none()) {
                count += 1;
                let Some(left) = step.left(now) else {
                    remaining.unknown_steps += 1;
                    continue;
                };
                longest = Left {
                    middle: longest.middle.max(left.middle),
                    least: longest.least.max(left.least),
                    most: longest.most.max(left.most),
                };
                let runs = step.earlier_secs.len();
                if remaining.runs == 0 || runs < remaining.runs {
                    remaining.runs = runs;
                }
                let overdue = step.overdue_secs(now);
                if overdue > remaining.overdue_secs {
                    remaining.overdue_secs = overdue;
                    remaining.overdue.clone_from(&step.component);
                }
            }
            // The record is read from the cluster: any number may stand there.
            let add = |secs: &mut u64, more: u64| *secs = secs.saturating_add(more);
            add(&mut remaining.secs, longest.middle);
            add(&mut remaining.least_secs, longest.least);
            add(&mut remaining.most_secs, longest.most);
        }
        let is_known = count > 0 && remaining.unknown_steps * KNOWN_SHARE <= count;
        (is_known && remaining.runs > 0).then_some(remaining)
    }
}

impl StepRecord {
    /// What the step usually takes: the middle of its earlier runs, in seconds.
    pub fn usual_secs(&self) -> Option<u64> {
        let mut runs = self.earlier_secs.clone();
        runs.sort_unstable();
        runs.get(runs.len() / 2).copied()
    }

    fn left(&self, now: Timestamp) -> Option<Left> {
        let elapsed = self.elapsed_secs(now).unwrap_or_default();
        let left = |took: u64| took.saturating_sub(elapsed);
        Some(Left {
            middle: left(self.usual_secs()?),
            least: left(*self.earlier_secs.iter().min()?),
            most: left(*self.earlier_secs.iter().max()?),
        })
    }

    fn overdue_secs(&self, now: Timestamp) -> u64 {
        let longest = self.earlier_secs.iter().max();
        let elapsed = self.elapsed_secs(now);
        let over = elapsed.zip(longest);
        over.map_or(0, |(elapsed, longest)| elapsed.saturating_sub(*longest))
    }
}
