//! A run as laws judge it: what a record shows, worked out once.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lab::audit::nodes::{self, Interval, NodeSnapshot};
use lab::audit::pods::ready;
use lab::host::{Boot, End};

use crate::laws::{self, Breach};
use crate::phases::{self, Span};
use crate::pods::{self, PodLife};
use crate::record::Record;
use crate::rollout::Rollout;
use crate::wire;

/// What laws read.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The facts.
    pub record: &'a Record,
    /// What each Node was.
    pub histories: BTreeMap<String, Vec<NodeSnapshot>>,
    /// Where pods were.
    pub pods: Vec<PodLife>,
    /// When each node counts as out of service.
    pub outages: BTreeMap<String, Vec<Interval>>,
    /// When each node's host ended, where its pods had to have left.
    pub went_down: BTreeMap<String, Vec<Timestamp>>,
    /// What a rollout shows besides. Without one, laws that ask what was wanted say nothing.
    pub rolled: Option<Rolled<'a>>,
}

/// What a rollout shows besides.
#[derive(Clone, Debug)]
pub struct Rolled<'a> {
    /// The requested roll.
    pub rollout: &'a Rollout,
    /// When the first roll was.
    pub start: Timestamp,
    /// How many pods of the workload were ready, and since when.
    pub ready: Vec<(Timestamp, usize)>,
    /// Phases of each node's updates.
    pub phases: BTreeMap<String, Vec<Span>>,
}

impl<'a> Run<'a> {
    /// Any run, in which hosts go down for other reasons than an update: only a node that is
    /// cordoned counts as out, and a host has to be drained only for a reboot that its node
    /// announced, unless its control plane is a single replica.
    pub(crate) fn of_record(record: &'a Record, since: Timestamp) -> Self {
        let histories = nodes::histories(&record.audit);
        let mut went_down = went_down(record, since, |end| end != End::Killed);
        for (node, times) in &mut went_down {
            let history = histories.get(node).map_or(&[][..], Vec::as_slice);
            times.retain(|at| needs_drain(history, *at));
        }
        Self {
            record,
            outages: intervals(&histories, since, |state| state.is_unschedulable),
            pods: pods::lives(&record.audit),
            histories,
            went_down,
            rolled: None,
        }
    }

    /// A rollout: a node that is cordoned or not Ready is out, and every host has to be drained.
    pub(crate) fn of_rollout(rollout: &'a Rollout) -> Self {
        let record = &rollout.record;
        let start = rollout.rolls.first();
        let start = start.map_or(Timestamp::MAX, |roll| roll.start);
        // Of its own nodes: each pool has a budget of its own. One without a host counts.
        let pool_of = |config: &str| config.rsplit_once('-').map(|(pool, _)| pool.to_owned());
        let pool = rollout.rolls.first().and_then(|roll| pool_of(&roll.config));
        let is_member = |state: &NodeSnapshot| {
            let config = state.annotations.get(wire::CURRENT_CONFIG);
            config.is_some_and(|config| pool_of(config) == pool)
        };
        let mut histories = nodes::histories(&record.audit);
        histories.retain(|node, history| {
            record.boots.contains_key(node) || history.iter().any(is_member)
        });
        let spans = |(node, boots): (&String, &Vec<Boot>)| {
            let came_up: Vec<_> = boots.iter().filter_map(|boot| boot.ready).collect();
            let history = histories.get(node).map_or(&[][..], Vec::as_slice);
            (node.clone(), phases::spans(history, &came_up))
        };
        let (key, value) = &rollout.workload.label;
        let rolled = Rolled {
            rollout,
            start,
            ready: ready(&record.audit, "default", (key, value)),
            phases: record.boots.iter().map(spans).collect(),
        };
        let is_out = |state: &NodeSnapshot| state.is_unschedulable || !state.is_ready;
        Self {
            record,
            outages: intervals(&histories, start, is_out),
            pods: pods::lives(&record.audit),
            histories,
            went_down: went_down(record, start, |_| true),
            rolled: Some(rolled),
        }
    }

    /// Judges it by all laws.
    pub(crate) fn judge(&self) -> Vec<Breach> {
        laws::all().flat_map(|law| law.judge(self)).collect()
    }

    /// Bytes of images and their manifests that each node took while it was out.
    pub fn bytes_fetched_while_out(&self) -> BTreeMap<&str, u64> {
        let of = |node: &String, out: &[Interval]| {
            let fetches = self.record.fetches.get(node).into_iter().flatten();
            fetches
                .filter(|request| request.is_blob_fetch() || request.is_manifest_fetch())
                .filter(|request| {
                    out.iter().any(|interval| {
                        let until = interval.until;
                        interval.from.1 <= request.finished
                            && until.is_none_or(|(_, until)| request.started <= until)
                    })
                })
                .map(|request| request.bytes)
                .sum()
        };
        let outages = self.outages.iter();
        outages
            .map(|(node, out)| (node.as_str(), of(node, out)))
            .collect()
    }
}

/// When each host ended, after `since` and for a reason that counts.
fn went_down(
    record: &Record,
    since: Timestamp,
    counts: impl Fn(End) -> bool,
) -> BTreeMap<String, Vec<Timestamp>> {
    let ends = |boots: &[Boot]| -> Vec<_> {
        let ends = boots.iter().filter_map(|boot| boot.ended);
        let ends = ends.filter(|(at, end)| *at > since && counts(*end));
        ends.map(|(at, _)| at).collect()
    };
    let boots = record.boots.iter();
    boots
        .map(|(node, boots)| (node.clone(), ends(boots)))
        .collect()
}

/// Whether the node had announced a reboot, for which its pods had to leave.
fn needs_drain(history: &[NodeSnapshot], down: Timestamp) -> bool {
    let last = history.iter().rev().find(|state| state.at <= down);
    let value = |key| last.and_then(|state| state.annotations.get(key));
    value(wire::PHASE).is_some_and(|phase| phase == wire::REBOOTING)
        && value(wire::CONTROL_PLANE_TOPOLOGY).is_none_or(|one| one != wire::SINGLE_REPLICA)
}

/// When something held of each node, from a moment on.
///
/// What began before counts from then on; what had ended is left out.
fn intervals(
    histories: &BTreeMap<String, Vec<NodeSnapshot>>,
    since: Timestamp,
    holds: impl Fn(&NodeSnapshot) -> bool,
) -> BTreeMap<String, Vec<Interval>> {
    let of = |(node, history): (&String, &Vec<NodeSnapshot>)| {
        let mut intervals = nodes::intervals(history, &holds);
        intervals.retain(|interval| interval.until.is_none_or(|(_, until)| until > since));
        (node.clone(), intervals)
    };
    histories.iter().map(of).collect()
}

#[cfg(test)]
mod tests;
