//! From the observer's verdicts to the timeline.

use jiff::Timestamp;
use lab::audit::nodes;
use observer::laws::node;
use observer::record::Record;
use observer::release::{RunLevel, unwaited_share};
use observer::rollout::{Roll, Rollout, Verdict, Workload};

use crate::run::{CONTROL_PLANE, WORKERS};
use crate::steps::StepSpan;
use crate::timeline::{Lane, Timeline};
use crate::update::Updated;
use crate::workload::{LABEL, MAX_OUT, NEEDED};

/// What the observer judges the demo by.
pub(crate) fn workload() -> Workload {
    Workload {
        label: (LABEL.0.to_owned(), LABEL.1.to_owned()),
        needed: NEEDED,
        max_out: MAX_OUT,
    }
}

/// The run as it was judged.
pub(crate) struct Judged {
    /// For people.
    pub(crate) breaches: Vec<String>,
    /// Of the workers.
    rolls: Vec<Roll>,
    /// Of all nodes.
    verdict: Verdict,
    levels: Vec<RunLevel>,
    steps: Vec<StepSpan>,
}

impl Judged {
    /// Each pool is judged by itself, and both are shown.
    pub(crate) fn of(mut rolls: Vec<Roll>, updated: Option<Updated>, record: &Record) -> Self {
        let judge = |pool, rolls| {
            let rollout = Rollout {
                record: record.of_nodes(pool),
                rolls,
                workload: workload(),
                is_over: true,
            };
            rollout.judge()
        };
        let mut of_release = Vec::new();
        let (mut levels, mut steps) = (Vec::new(), Vec::new());
        let mut of_control_plane = None;
        if let Some(updated) = updated {
            rolls.push(updated.workers);
            let judged = updated.release.judge(&record.audit);
            of_release = judged.breaches;
            levels = judged.levels;
            steps = updated.steps;
            of_control_plane = Some(judge(CONTROL_PLANE, vec![updated.control_plane]));
        }
        let mut verdict = judge(WORKERS, rolls.clone());
        if let Some(other) = of_control_plane {
            verdict.breaches.extend(other.breaches);
            verdict.phases.extend(other.phases);
            verdict.outages.extend(other.outages);
            verdict.fetched_while_out_bytes += other.fetched_while_out_bytes;
        }
        let breaches = verdict.breaches.iter().map(ToString::to_string);
        let of_release = of_release.iter();
        let of_release = of_release.map(|what| format!("release out of order: {what}"));
        Self {
            breaches: breaches.chain(of_release).collect(),
            rolls,
            verdict,
            levels,
            steps,
        }
    }

    /// The run in numbers.
    pub(crate) fn timeline(&self) -> Timeline {
        let verdict = &self.verdict;
        let start = self.rolls.first();
        let start = start.map_or(Timestamp::MAX, |roll| roll.start);
        let lane = |(node, spans): (&String, &Vec<_>)| Lane {
            name: node.clone(),
            phases: spans.clone(),
        };
        // Each pool has a budget of its own.
        let most_out = [WORKERS, CONTROL_PLANE].map(|pool| {
            let of_pool = verdict.outages.iter();
            let of_pool = of_pool.filter(|(node, _)| node.starts_with(pool));
            nodes::max_overlap(of_pool.flat_map(|(_, outages)| outages))
        });
        Timeline {
            steps: self.steps.clone(),
            run_levels: self.levels.clone(),
            unwaited_share: unwaited_share(&self.levels),
            nodes: verdict.phases.iter().map(lane).collect(),
            max_out: most_out.into_iter().max().unwrap_or_default(),
            min_ready_replicas: node::fewest(&verdict.ready, start).1,
            fetched_while_out_bytes: verdict.fetched_while_out_bytes,
            proven: self.breaches.is_empty(),
        }
    }
}
