//! From what was recorded to the timeline and the laws that were broken.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ::tests::observer::laws::{self, Breach, Law};
use ::tests::observer::phases::{Phase, Span};
use ::tests::observer::{phases, pods, traffic};
use jiff::Timestamp;
use lab::audit::nodes::Interval;
use lab::audit::pods::{evictions, ready};
use lab::audit::{Event, nodes};
use lab::host::Boot;
use lab::registry::Request;

use crate::picture::{Outage, Picture};
use crate::timeline::{Lane, Timeline};
use crate::workload::{LABEL, MAX_OUT, NEEDED, REPLICAS};

/// Everything the judgement is made from.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) rolls: Vec<Roll>,
    /// The API server's.
    pub(crate) audit: Vec<Event>,
    /// Of each host, by its node's name.
    pub(crate) boots: BTreeMap<String, Vec<Boot>>,
    /// What each host asked of the registry, by its node's name.
    pub(crate) fetches: BTreeMap<String, Vec<Request>>,
}

/// One roll as it went.
#[derive(Debug)]
pub(crate) struct Roll {
    pub(crate) title: String,
    /// The rendered configuration that every node was to reach.
    pub(crate) config: String,
    pub(crate) reboots: bool,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
    /// What was found on the hosts at its end that speaks against it.
    pub(crate) doubts: Vec<String>,
}

/// The judgement, and what a picture of it needs.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) breaches: Vec<Breach>,
    pub(crate) timeline: Timeline,
    outages: Vec<Vec<Outage>>,
    ready: Vec<(Timestamp, usize)>,
}

impl Verdict {
    /// The picture of the run.
    pub(crate) fn picture<'a>(&'a self, rolls: &'a [crate::picture::Roll]) -> Picture<'a> {
        Picture {
            timeline: &self.timeline,
            rolls,
            outages: &self.outages,
            ready: &self.ready,
            replicas: REPLICAS,
            needed: NEEDED,
        }
    }
}

impl Record {
    /// Judges the whole run.
    pub(crate) fn judge(&self) -> Verdict {
        let start = self.rolls.first().map_or(Timestamp::MAX, |roll| roll.start);
        let end = self.rolls.last().map_or(Timestamp::MAX, |roll| roll.end);
        let histories = nodes::histories(&self.audit);
        let mut outages = laws::outages(&self.audit, start);
        outages.retain(|node, _| self.boots.contains_key(node));
        let ready = ready(&self.audit, "default", LABEL);
        let pods = pods::lives(&self.audit);

        let mut breaches = Vec::new();
        breaches.extend(laws::budget(&outages, MAX_OUT));
        breaches.extend(laws::readiness(&ready, start, NEEDED));
        breaches.extend(laws::drained(&pods, &self.went_down(start)));
        breaches.extend(laws::spared(&evictions(&self.audit), &pods));
        breaches.extend(traffic::modest(&self.audit));
        breaches.extend(traffic::kept(&self.audit));
        breaches.extend(self.without_an_outage(&outages));
        breaches.extend(self.without_an_image());
        let fetched_while_out_bytes = self.fetched_while_out(&outages, &mut breaches);
        for (node, history) in &histories {
            breaches.extend(
                self.rolls
                    .iter()
                    .filter(|roll| roll.reboots)
                    .filter_map(|roll| {
                        laws::truthful(node, history, &roll.config, self.booted(node, roll))
                    }),
            );
        }
        breaches.extend(self.undisturbed(&outages));
        breaches.extend(
            self.rolls
                .iter()
                .flat_map(|roll| &roll.doubts)
                .map(|doubt| Breach {
                    law: Law::Proven,
                    what: doubt.clone(),
                }),
        );

        let lane = |(node, boots): (&String, &Vec<Boot>)| {
            let came_up: Vec<_> = boots.iter().filter_map(|boot| boot.ready).collect();
            let history = histories.get(node).map_or(&[][..], Vec::as_slice);
            Lane {
                name: node.clone(),
                phases: phases::spans(history, &came_up),
            }
        };
        let lanes: Vec<Lane> = self.boots.iter().map(lane).collect();
        breaches.extend(self.without_a_phase(&lanes));
        let timeline = Timeline {
            nodes: lanes,
            max_out: nodes::max_overlap(outages.values().flatten()),
            min_ready_replicas: laws::fewest(&ready, start).1,
            fetched_while_out_bytes,
            proven: breaches.is_empty(),
        };
        let drawn = |interval: &Interval| Outage {
            start: interval.from.1,
            end: interval.until.map_or(end, |(_, at)| at),
        };
        let outages_of = |node| {
            outages
                .get(node)
                .map_or_else(Vec::new, |out| out.iter().map(drawn).collect())
        };
        Verdict {
            breaches,
            timeline,
            outages: self.boots.keys().map(outages_of).collect(),
            ready,
        }
    }

    /// When each host ended to boot again.
    fn went_down(&self, since: Timestamp) -> BTreeMap<String, Vec<Timestamp>> {
        let ends = |boots: &[Boot]| -> Vec<_> {
            let ends = boots.iter().filter_map(|boot| boot.ended).map(|(at, _)| at);
            ends.filter(|at| *at > since).collect()
        };
        self.boots
            .iter()
            .map(|(node, boots)| (node.clone(), ends(boots)))
            .collect()
    }

    /// When the host last came up during a roll.
    fn booted(&self, node: &str, roll: &Roll) -> Option<Timestamp> {
        let during = roll.start..roll.end;
        let boots = self.boots.get(node)?.iter().map(|boot| boot.started);
        boots.filter(|at| during.contains(at)).max()
    }

    fn fetched_while_out(
        &self,
        outages: &BTreeMap<String, Vec<Interval>>,
        breaches: &mut Vec<Breach>,
    ) -> u64 {
        let mut total = 0;
        for (node, out) in outages {
            let is_out = |request: &&Request| {
                out.iter().any(|interval| {
                    interval.from.1 <= request.finished
                        && interval
                            .until
                            .is_none_or(|(_, until)| request.started <= until)
                })
            };
            let fetches = self.fetches.get(node).into_iter().flatten();
            let fetches =
                fetches.filter(|request| request.is_blob_fetch() || request.is_manifest_fetch());
            let bytes = fetches
                .filter(is_out)
                .map(|request| request.bytes)
                .sum::<u64>();
            if bytes > 0 {
                let what = format!("{node} took {bytes} bytes from the registry");
                breaches.push(Breach {
                    law: Law::FetchBefore,
                    what,
                });
            }
            total += bytes;
        }
        total
    }

    /// Every node was out of service for each roll that reboots: else the record has not what the budget is
    /// judged by.
    fn without_an_outage(&self, outages: &BTreeMap<String, Vec<Interval>>) -> Vec<Breach> {
        let mut breaches = Vec::new();
        for roll in self.rolls.iter().filter(|roll| roll.reboots) {
            let unseen = laws::unseen(outages, self.boots.keys(), &(roll.start..=roll.end));
            breaches.extend(unseen.into_iter().map(|node| Breach {
                law: Law::Proven,
                what: format!("{node} was never seen out in the roll {}", roll.title),
            }));
        }
        breaches
    }

    /// Every lane has each phase of each roll that reboots, and something of the others, whose phases are too short to be sure of:
    /// an empty timeline shows nothing.
    fn without_a_phase(&self, lanes: &[Lane]) -> Vec<Breach> {
        let mut breaches = Vec::new();
        for roll in &self.rolls {
            for lane in lanes {
                let during = |span: &&Span| (roll.start..=roll.end).contains(&span.start);
                let seen: BTreeSet<Phase> = lane
                    .phases
                    .iter()
                    .filter(during)
                    .map(|span| span.phase)
                    .collect();
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
                breaches.push(Breach {
                    law: Law::Proven,
                    what: format!(
                        "{} showed no {missing} in the roll {}",
                        lane.name, roll.title
                    ),
                });
            }
        }
        breaches
    }

    /// Every node fetched something for each roll with another OS: else what it fetched while it was out
    /// would not be seen either.
    fn without_an_image(&self) -> Vec<Breach> {
        let mut breaches = Vec::new();
        for roll in self.rolls.iter().filter(|roll| roll.reboots) {
            for node in self.boots.keys() {
                let fetches = self.fetches.get(node).into_iter().flatten();
                let bytes = fetches
                    .filter(|request| request.is_blob_fetch())
                    .filter(|request| (roll.start..=roll.end).contains(&request.started))
                    .map(|request| request.bytes)
                    .sum::<u64>();
                if bytes == 0 {
                    breaches.push(Breach {
                        law: Law::Proven,
                        what: format!("{node} fetched no image for the roll {}", roll.title),
                    });
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
            let broken = |node: &String, what: &str, at: Timestamp| Breach {
                law: Law::Undisturbed,
                what: format!("{node} {what} at {at}"),
            };
            for (node, out) in outages {
                let began = out.iter().map(|interval| interval.from.1);
                breaches.extend(
                    began
                        .filter(|at| during.contains(at))
                        .map(|at| broken(node, "was out", at)),
                );
            }
            for (node, boots) in &self.boots {
                let began = boots.iter().map(|boot| boot.started);
                breaches.extend(
                    began
                        .filter(|at| during.contains(at))
                        .map(|at| broken(node, "booted", at)),
                );
            }
        }
        breaches
    }
}

#[cfg(test)]
mod tests;
