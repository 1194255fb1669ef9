//! From what was recorded to the timeline and the laws that were broken.

use std::collections::BTreeMap;
use std::ops::Range;

use ::tests::observer::laws::{self, Breach, Law};
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
        let timeline = Timeline {
            nodes: self.boots.iter().map(lane).collect(),
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
mod tests {
    use lab::audit::Version;

    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + i64::try_from(second).unwrap()).unwrap()
    }

    /// Node `a` fetches a blob between these seconds, in a roll that lasts from 0 to 100.
    fn record(from: u64, to: u64) -> Record {
        let fetch = Request {
            started: at(from),
            finished: at(to),
            method: "GET".to_owned(),
            path: "/v2/os/blobs/sha256:0".to_owned(),
            status: 200,
            bytes: 5,
            remote: "10.0.0.10".parse().unwrap(),
            user_agent: "skopeo".to_owned(),
        };
        let roll = Roll {
            title: "one".to_owned(),
            config: "rendered-worker-1".to_owned(),
            reboots: true,
            start: at(0),
            end: at(100),
            doubts: Vec::new(),
        };
        Record {
            rolls: vec![roll],
            audit: Vec::new(),
            boots: BTreeMap::from([("a".to_owned(), Vec::new())]),
            fetches: BTreeMap::from([("a".to_owned(), vec![fetch])]),
        }
    }

    #[test]
    fn what_is_fetched_while_a_node_is_out_is_found() {
        let out = Interval {
            from: (Version(1), at(20)),
            until: Some((Version(2), at(30))),
        };
        let outages = BTreeMap::from([("a".to_owned(), vec![out])]);
        for (from, to, bytes) in [
            (5, 19, 0),
            (31, 32, 0),
            (22, 23, 5),
            (19, 21, 5),
            (29, 31, 5),
            (5, 60, 5),
        ] {
            let mut breaches = Vec::new();
            let found = record(from, to).fetched_while_out(&outages, &mut breaches);
            assert_eq!(
                (found, breaches.len()),
                (bytes, usize::from(bytes > 0)),
                "{from} to {to}"
            );
        }
    }

    #[test]
    fn a_roll_in_which_a_node_was_never_out_is_found() {
        let out_at = |second| {
            let out = Interval {
                from: (Version(1), at(second)),
                until: None,
            };
            BTreeMap::from([("a".to_owned(), vec![out])])
        };
        let mut record = record(5, 6);
        for (outages, found) in [(out_at(20), 0), (out_at(101), 1), (BTreeMap::new(), 1)] {
            assert_eq!(
                record.without_an_outage(&outages).len(),
                found,
                "{outages:?}"
            );
        }
        let breaches = record.without_an_outage(&BTreeMap::new());
        assert_eq!(breaches[0].what, "a was never seen out in the roll one");
        record.rolls[0].reboots = false;
        assert_eq!(record.without_an_outage(&BTreeMap::new()), []);
    }

    #[test]
    fn an_empty_audit_log_proves_nothing() {
        let verdict = record(5, 6).judge();
        assert_eq!(verdict.timeline.min_ready_replicas, 0);
        assert!(!verdict.timeline.proven);
        let laws: Vec<_> = verdict.breaches.iter().map(|breach| breach.law).collect();
        assert_eq!(laws, [Law::Readiness, Law::Proven]);
    }

    #[test]
    fn a_roll_for_which_nothing_was_fetched_is_found() {
        assert_eq!(record(5, 6).without_an_image(), []);
        let breaches = record(105, 106).without_an_image();
        assert_eq!(breaches[0].what, "a fetched no image for the roll one");
    }
}
