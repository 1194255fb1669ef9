//! From the observer's verdict to the timeline and its picture.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lab::audit::nodes::{self, Interval};
use observer::laws::node;
use observer::rollout::{Rollout, Verdict, Workload};

use crate::picture::{self, Outage, Picture};
use crate::timeline::{Lane, Timeline};
use crate::workload::{LABEL, MAX_OUT, NEEDED, REPLICAS};

/// What the observer judges the demo by.
pub(crate) fn workload() -> Workload {
    Workload {
        label: (LABEL.0.to_owned(), LABEL.1.to_owned()),
        needed: NEEDED,
        max_out: MAX_OUT,
    }
}

/// The run in numbers.
pub(crate) fn timeline(rollout: &Rollout, verdict: &Verdict) -> Timeline {
    let start = rollout.rolls.first();
    let start = start.map_or(Timestamp::MAX, |roll| roll.start);
    let lane = |(node, spans): (&String, &Vec<_>)| Lane {
        name: node.clone(),
        phases: spans.clone(),
    };
    Timeline {
        nodes: verdict.phases.iter().map(lane).collect(),
        max_out: nodes::max_overlap(verdict.outages.values().flatten()),
        min_ready_replicas: node::fewest(&verdict.ready, start).1,
        fetched_while_out_bytes: verdict.fetched_while_out_bytes,
        proven: verdict.breaches.is_empty(),
    }
}

/// The picture of the run, as text.
pub(crate) fn picture(rollout: &Rollout, verdict: &Verdict, timeline: &Timeline) -> String {
    let rolls: Vec<_> = rollout
        .rolls
        .iter()
        .map(|roll| picture::Roll {
            title: roll.title.clone(),
            start: roll.start,
            end: roll.end,
        })
        .collect();
    let end = rolls.last().map_or(Timestamp::MAX, |roll| roll.end);
    let outages: Vec<_> = timeline
        .nodes
        .iter()
        .map(|lane| drawn(&verdict.outages, &lane.name, end))
        .collect();
    let picture = Picture {
        timeline,
        rolls: &rolls,
        outages: &outages,
        ready: &verdict.ready,
        replicas: REPLICAS,
        needed: NEEDED,
    };
    picture.draw().to_string()
}

fn drawn(outages: &BTreeMap<String, Vec<Interval>>, node: &str, end: Timestamp) -> Vec<Outage> {
    let drawn = |interval: &Interval| Outage {
        start: interval.from.1,
        end: interval.until.map_or(end, |(_, at)| at),
    };
    let of_node = outages.get(node).into_iter().flatten();
    of_node.map(drawn).collect()
}
