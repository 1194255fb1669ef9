//! What a rollout does to its pool.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use jiff::Timestamp;
use lab::audit::nodes::Interval;

use super::Law;
use crate::phases::{Phase, Span};
use crate::rollout::{Roll, Rollout};

/// Laws of a pool.
pub const LAWS: &[&Law] = &[&BUDGET, &PROVEN];

/// A pool has no more than `maxUnavailable` nodes out of service.
pub static BUDGET: Law = Law {
    name: "Budget",
    sentence: "no more nodes are out than the pool allows",
    judge: |run| {
        let max_out = run
            .rolled
            .as_ref()
            .map(|rolled| rolled.rollout.workload.max_out);
        let found = max_out.and_then(|max_out| budget(&run.outages, max_out));
        found.into_iter().collect()
    },
};

/// In the end every node is what it was to be. Of a run that is not over, it says nothing yet.
pub static PROVEN: Law = Law {
    name: "Proven",
    sentence: "every node is proven to be what it was to be",
    judge: |run| {
        let rolled = run.rolled.as_ref();
        let Some(rolled) = rolled.filter(|rolled| rolled.rollout.is_over) else {
            return Vec::new();
        };
        let rollout = rolled.rollout;
        let mut found = without_an_outage(rollout, &run.outages);
        found.extend(without_an_image(rollout));
        found.extend(rollout.rolls.iter().flat_map(|roll| roll.doubts.clone()));
        found.extend(without_a_phase(rollout, &rolled.phases));
        found
    },
};

/// At the moment with most nodes out.
fn budget(outages: &BTreeMap<String, Vec<Interval>>, max_out: usize) -> Option<String> {
    let starts = outages.values().flatten().map(|outage| outage.from);
    let worst = starts
        .map(|(version, at)| {
            let is_open = |outage: &Interval| {
                outage.from.0 <= version && outage.until.is_none_or(|until| until.0 > version)
            };
            let out: Vec<_> = outages
                .iter()
                .filter(|(_, intervals)| intervals.iter().any(is_open))
                .map(|(node, _)| node.as_str())
                .collect();
            (out, at)
        })
        .max_by_key(|(out, at)| (out.len(), std::cmp::Reverse(*at)))?;
    let (out, at) = worst;
    (out.len() > max_out).then(|| format!("{} at {at}, of {max_out}", out.join(", ")))
}

/// Nodes that never went out of service in a stretch of time. Where each had to, an outage that is
/// not in the record [`budget`] cannot judge.
fn unseen<'a>(
    outages: &BTreeMap<String, Vec<Interval>>,
    nodes: impl Iterator<Item = &'a String>,
    during: &RangeInclusive<Timestamp>,
) -> Vec<&'a str> {
    let was_out = |node: &&String| {
        let mut out = outages.get(*node).into_iter().flatten();
        out.any(|outage| during.contains(&outage.from.1))
    };
    nodes
        .filter(|node| !was_out(node))
        .map(String::as_str)
        .collect()
}

/// The nodes that a roll is about: a host that joined after it is none of them.
fn nodes_of<'a>(rollout: &'a Rollout, roll: &Roll) -> impl Iterator<Item = &'a String> {
    let (record, end) = (&rollout.record, roll.end);
    let nodes = record.boots.keys();
    nodes.filter(move |node| record.had_booted(node, end))
}

/// Every node was out of service for each roll that reboots: else the record has not what the
/// budget is judged by.
fn without_an_outage(rollout: &Rollout, outages: &BTreeMap<String, Vec<Interval>>) -> Vec<String> {
    let mut found = Vec::new();
    for roll in rollout.rolls.iter().filter(|roll| roll.reboots) {
        let nodes = nodes_of(rollout, roll);
        let unseen = unseen(outages, nodes, &(roll.start..=roll.end));
        let unseen = unseen.into_iter();
        found.extend(
            unseen.map(|node| format!("{node} was never seen out in the roll {}", roll.title)),
        );
    }
    found
}

/// Phases of a roll that reboots which every node shows: its reboot waits until that is written.
/// Others may pass before they are (`docs/reference/daemon.md`, "Node annotations"): a drain of a
/// node without pods, too.
const SHOWN: [Phase; 1] = [Phase::Reboot];

/// Every node has the phases of each roll that reboots which are always written: an empty timeline
/// shows nothing. A roll that does not reboot may be too short to show any.
fn without_a_phase(rollout: &Rollout, phases: &BTreeMap<String, Vec<Span>>) -> Vec<String> {
    let mut found = Vec::new();
    for roll in &rollout.rolls {
        let was_there = |node: &str| rollout.record.had_booted(node, roll.end);
        for (node, spans) in phases.iter().filter(|(node, _)| was_there(node)) {
            let during = |span: &&Span| (roll.start..=roll.end).contains(&span.start);
            let seen = spans.iter().filter(during).map(|span| span.phase);
            let seen: BTreeSet<Phase> = seen.collect();
            let missing: Vec<_> = SHOWN
                .into_iter()
                .filter(|phase| roll.reboots && !seen.contains(phase))
                .map(Phase::name)
                .collect();
            let missing = match (roll.reboots && seen.is_empty(), missing.is_empty()) {
                (true, _) => "phase".to_owned(),
                (false, false) => missing.join(", "),
                (false, true) => continue,
            };
            found.push(format!(
                "{node} showed no {missing} in the roll {}",
                roll.title
            ));
        }
    }
    found
}

/// Every node fetched something for each roll with another OS: else what it fetched while it was
/// out would not be seen either.
fn without_an_image(rollout: &Rollout) -> Vec<String> {
    let mut found = Vec::new();
    for roll in rollout.rolls.iter().filter(|roll| roll.reboots) {
        for node in nodes_of(rollout, roll) {
            let fetches = rollout.record.fetches.get(node).into_iter().flatten();
            let bytes = fetches
                .filter(|request| request.is_blob_fetch())
                .filter(|request| (roll.start..=roll.end).contains(&request.started))
                .map(|request| request.bytes)
                .sum::<u64>();
            if bytes == 0 {
                found.push(format!(
                    "{node} fetched no image for the roll {}",
                    roll.title
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
