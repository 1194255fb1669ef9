//! A pool that was rolled from one configuration to the next, judged by all laws.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use jiff::Timestamp;
use lab::audit::nodes::{self, Interval};
use lab::audit::pods::{evictions, ready};
use lab::host::Boot;
use serde::{Deserialize, Serialize};

use super::laws::{self, Breach, Claim, Law};
use super::phases::{self, Phase, Span};
use super::record::Record;
use super::{pods, traffic};

/// What was recorded of a cluster, and what it was asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rollout {
    /// The facts.
    pub record: Record,
    /// In order.
    pub rolls: Vec<Roll>,
    /// What ran meanwhile.
    pub workload: Workload,
    /// Whether the last roll is at its end.
    pub is_over: bool,
}

/// What has to be kept running, and how much of the pool may be out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Workload {
    /// Label of the pods, in namespace `default`.
    pub label: (String, String),
    /// Fewest of them that have to be ready.
    pub needed: usize,
    /// Most nodes that may be out at once.
    pub max_out: usize,
}

/// One roll as it went.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Roll {
    /// For people.
    pub title: String,
    /// The rendered configuration that every node was to reach.
    pub config: String,
    /// Content of the OS that they were to run, as [`lab::tree::content`] gives it.
    pub content: String,
    /// Whether it needs a reboot.
    pub reboots: bool,
    /// When it was asked for.
    pub start: Timestamp,
    /// When every node was there, or given up.
    pub end: Timestamp,
    /// What was found on the hosts at its end that speaks against it.
    pub doubts: Vec<String>,
}

impl Roll {
    fn claim(&self) -> Claim<'_> {
        Claim {
            config: &self.config,
            content: &self.content,
            since: self.start,
        }
    }
}

/// The judgement, and what it was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// All laws that did not hold.
    pub breaches: Vec<Breach>,
    /// Phases of each node's updates.
    pub phases: BTreeMap<String, Vec<Span>>,
    /// When each node was out of service.
    pub outages: BTreeMap<String, Vec<Interval>>,
    /// How many pods of the workload were ready, and since when.
    pub ready: Vec<(Timestamp, usize)>,
    /// Bytes that nodes took from the registry while they were out.
    pub fetched_while_out_bytes: u64,
}

impl Rollout {
    /// Judges it. Of a run that is not over, [`Law::Proven`] says nothing yet.
    pub fn judge(&self) -> Verdict {
        let mut verdict = self.judge_so_far();
        if !self.is_over {
            return verdict;
        }
        let breaches = &mut verdict.breaches;
        breaches.extend(self.without_an_outage(&verdict.outages));
        breaches.extend(self.without_an_image());
        let doubts = self.rolls.iter().flat_map(|roll| &roll.doubts);
        breaches.extend(doubts.map(|doubt| Law::Proven.broken(doubt.clone())));
        breaches.extend(self.without_a_phase(&verdict.phases));
        verdict
    }

    /// All laws but [`Law::Proven`].
    fn judge_so_far(&self) -> Verdict {
        let record = &self.record;
        let Workload {
            label: (key, value),
            needed,
            max_out,
        } = &self.workload;
        let start = self.rolls.first().map_or(Timestamp::MAX, |roll| roll.start);
        let histories = nodes::histories(&record.audit);
        let outages = laws::outages(&histories, start);
        let ready = ready(&record.audit, "default", (key, value));
        let pods = pods::lives(&record.audit);

        let mut breaches = Vec::new();
        breaches.extend(laws::budget(&outages, *max_out));
        breaches.extend(laws::readiness(&ready, start, *needed));
        breaches.extend(laws::drained(&pods, &record.went_down(start, |_| true)));
        breaches.extend(laws::spared(&evictions(&record.audit), &pods));
        breaches.extend(traffic::modest(&record.audit));
        breaches.extend(traffic::kept(&record.audit));
        breaches.extend(record.fetched_while(&outages));
        for (node, history) in &histories {
            let reboots = self.rolls.iter().filter(|roll| roll.reboots);
            let boots = record.boots.get(node).map_or(&[][..], Vec::as_slice);
            breaches.extend(
                reboots.flat_map(|roll| laws::truthful(node, history, boots, roll.claim())),
            );
        }
        breaches.extend(self.undisturbed(&outages));

        let spans = |(node, boots): (&String, &Vec<Boot>)| {
            let came_up: Vec<_> = boots.iter().filter_map(|boot| boot.ready).collect();
            let history = histories.get(node).map_or(&[][..], Vec::as_slice);
            (node.clone(), phases::spans(history, &came_up))
        };
        Verdict {
            breaches,
            phases: record.boots.iter().map(spans).collect(),
            fetched_while_out_bytes: record.bytes_fetched_while(&outages).into_values().sum(),
            outages,
            ready,
        }
    }

    /// Every node was out of service for each roll that reboots: else the record has not what the budget is
    /// judged by.
    fn without_an_outage(&self, outages: &BTreeMap<String, Vec<Interval>>) -> Vec<Breach> {
        let mut breaches = Vec::new();
        for roll in self.rolls.iter().filter(|roll| roll.reboots) {
            let nodes = self.record.boots.keys();
            let unseen = laws::unseen(outages, nodes, &(roll.start..=roll.end));
            breaches.extend(unseen.into_iter().map(|node| {
                let what = format!("{node} was never seen out in the roll {}", roll.title);
                Law::Proven.broken(what)
            }));
        }
        breaches
    }

    /// Every node has each phase of each roll that reboots, and something of the others, whose phases are too short to be sure of:
    /// an empty timeline shows nothing.
    fn without_a_phase(&self, phases: &BTreeMap<String, Vec<Span>>) -> Vec<Breach> {
        let mut breaches = Vec::new();
        for roll in &self.rolls {
            for (node, spans) in phases {
                let during = |span: &&Span| (roll.start..=roll.end).contains(&span.start);
                let seen = spans.iter().filter(during).map(|span| span.phase);
                let seen: BTreeSet<Phase> = seen.collect();
                let missing: Vec<_> = Phase::ALL
                    .into_iter()
                    .filter(|phase| roll.reboots && !seen.contains(phase))
                    .map(Phase::name)
                    .collect();
                let missing = match (seen.is_empty(), missing.is_empty()) {
                    (true, _) => "phase".to_owned(),
                    (false, false) => missing.join(", "),
                    (false, true) => continue,
                };
                let what = format!("{node} showed no {missing} in the roll {}", roll.title);
                breaches.push(Law::Proven.broken(what));
            }
        }
        breaches
    }

    /// Every node fetched something for each roll with another OS: else what it fetched while it was out
    /// would not be seen either.
    fn without_an_image(&self) -> Vec<Breach> {
        let mut breaches = Vec::new();
        for roll in self.rolls.iter().filter(|roll| roll.reboots) {
            for node in self.record.boots.keys() {
                let fetches = self.record.fetches.get(node).into_iter().flatten();
                let bytes = fetches
                    .filter(|request| request.is_blob_fetch())
                    .filter(|request| (roll.start..=roll.end).contains(&request.started))
                    .map(|request| request.bytes)
                    .sum::<u64>();
                if bytes == 0 {
                    let what = format!("{node} fetched no image for the roll {}", roll.title);
                    breaches.push(Law::Proven.broken(what));
                }
            }
        }
        breaches
    }

    /// A roll without reboot has no node out, and no host that boots.
    fn undisturbed(&self, outages: &BTreeMap<String, Vec<Interval>>) -> Vec<Breach> {
        let mut breaches = Vec::new();
        for roll in self.rolls.iter().filter(|roll| !roll.reboots) {
            let during = Range {
                start: roll.start,
                end: roll.end,
            };
            let broken = |node: &String, what: &str, at: Timestamp| {
                Law::Undisturbed.broken(format!("{node} {what} at {at}"))
            };
            for (node, out) in outages {
                let began = out.iter().map(|interval| interval.from.1);
                let began = began.filter(|at| during.contains(at));
                breaches.extend(began.map(|at| broken(node, "was out", at)));
            }
            for (node, boots) in &self.record.boots {
                let began = boots.iter().map(|boot| boot.started);
                let began = began.filter(|at| during.contains(at));
                breaches.extend(began.map(|at| broken(node, "booted", at)));
            }
        }
        breaches
    }
}

#[cfg(test)]
mod records;
#[cfg(test)]
mod tests;
