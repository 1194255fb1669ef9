//! How long a run still takes, by how long its jobs took when they last ran.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::lanes::{self, Next, Plan, State};
use crate::progress::Progress;

/// What is expected of a job that was never seen.
const UNSEEN_SECS: f64 = 60.0;

/// From how many units on a job's own pace counts.
const OWN_PACE_UNITS: u32 = 20;

/// Times on two cores without anything cached, for the first run on a machine.
const FIRST: &str = include_str!("first-times.json");

/// A job's last run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) secs: f64,
    /// Units that were done, if some are counted.
    pub(crate) units: Option<u32>,
}

/// Last runs by the names of jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Times(BTreeMap<String, Seen>);

impl Times {
    /// Reads what [`Self::print`] wrote, over the times of a first run. What cannot be read counts
    /// as absent: it costs an estimate.
    pub(crate) fn parse(text: &str) -> Self {
        let mut times = read(FIRST);
        times.extend(read(text));
        Self(times)
    }

    /// As JSON: `{"name": {"secs": 1.5, "units": 3}}`.
    pub(crate) fn print(&self) -> String {
        let seen = |(name, seen): (&String, &Seen)| {
            let value = match seen.units {
                Some(units) => json!({ "secs": seen.secs, "units": units }),
                None => json!({ "secs": seen.secs }),
            };
            (name.clone(), value)
        };
        let all: serde_json::Map<_, _> = self.0.iter().map(seen).collect();
        format!("{:#}\n", Value::Object(all))
    }

    /// Keeps a run. One that had little to do says nothing of the pace.
    pub(crate) fn keep(&mut self, name: &str, run: Seen) {
        let seen_units = self.0.get(name).and_then(|seen| seen.units);
        let is_small = match (seen_units, run.units) {
            (Some(seen_units), Some(units)) => units < seen_units / 2,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if !is_small {
            self.0.insert(name.to_owned(), run);
        }
    }

    pub(crate) fn seen(&self, name: &str) -> Option<Seen> {
        self.0.get(name).copied()
    }

    /// Seconds that a job takes from its start.
    fn whole(&self, name: &str) -> f64 {
        self.seen(name).map_or(UNSEEN_SECS, |seen| seen.secs)
    }

    /// Seconds that a running job still takes.
    fn rest(&self, name: &str, job: &Running) -> f64 {
        let seen = self.seen(name);
        let by_time = (self.whole(name) - job.ran_secs).max(1.0);
        let Some(progress) = &job.progress else {
            return by_time;
        };
        let seen_units = seen.and_then(|seen| seen.units);
        let Some(all) = progress.all.or(seen_units).filter(|all| *all > 0) else {
            return by_time;
        };
        let left = f64::from(all.saturating_sub(progress.done));
        if left == 0.0 {
            // The last units have begun, and Go's are the largest: its linker runs for a minute.
            return by_time;
        }
        let done = progress.done.saturating_sub(job.began.done);
        let own_pace = (done >= OWN_PACE_UNITS)
            .then(|| (job.ran_secs - job.began.secs).max(0.0) / f64::from(done));
        let known_pace = seen
            .zip(seen_units)
            .map(|(seen, units)| seen.secs / f64::from(units.max(1)));
        match own_pace.or(known_pace) {
            Some(pace) => (left * pace).max(1.0),
            None => by_time,
        }
    }
}

fn read(text: &str) -> BTreeMap<String, Seen> {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let seen = |(name, value): (&String, &Value)| {
        let seen = Seen {
            secs: value.get("secs")?.as_f64()?,
            units: value
                .get("units")
                .and_then(Value::as_u64)
                .and_then(|units| u32::try_from(units).ok()),
        };
        Some((name.clone(), seen))
    };
    value
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(seen)
        .collect()
}

/// Where a job's work began: what an earlier run left is counted within seconds, and says nothing
/// of the pace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Began {
    pub(crate) secs: f64,
    pub(crate) done: u32,
}

/// A running job.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    /// Its place among the plans.
    pub(crate) index: usize,
    pub(crate) ran_secs: f64,
    pub(crate) progress: Option<Progress>,
    pub(crate) began: Began,
}

/// Time until all jobs have ended, if each that waits takes as long as last time.
pub(crate) fn left(
    plans: &[Plan],
    states: &[State],
    running: &[Running],
    times: &Times,
) -> Duration {
    let mut states = states.to_vec();
    let name = |index: usize| plans.get(index).map_or("", |plan| plan.name);
    let mut ends: Vec<(usize, f64)> = running
        .iter()
        .map(|job| {
            let rest = times.rest(name(job.index), job);
            (job.index, rest)
        })
        .collect();
    let mut now = 0.0;
    loop {
        match lanes::next(plans, &states) {
            Next::Start(index) => {
                set(&mut states, index, State::Running);
                ends.push((index, now + times.whole(name(index))));
            }
            Next::Drop(index) => set(&mut states, index, State::Dropped),
            Next::Wait => {
                let first = ends
                    .iter()
                    .enumerate()
                    .min_by(|a, b| a.1.1.total_cmp(&b.1.1));
                // What runs and has no end is not among the running: nothing more can be reckoned.
                let Some(place) = first.map(|(place, _)| place) else {
                    return Duration::from_secs_f64(now);
                };
                let (index, end) = ends.swap_remove(place);
                now = end.max(now);
                set(&mut states, index, State::Passed);
            }
            Next::End => return Duration::from_secs_f64(now),
        }
    }
}

fn set(states: &mut [State], index: usize, state: State) {
    if let Some(place) = states.get_mut(index) {
        *place = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(name: &'static str, lanes: u8, after: &[&'static str]) -> Plan {
        Plan {
            name,
            lanes,
            after: after.to_vec(),
        }
    }

    fn times(seen: &[(&str, f64, Option<u32>)]) -> Times {
        let seen = seen.iter().map(|(name, secs, units)| {
            let seen = Seen {
                secs: *secs,
                units: *units,
            };
            ((*name).to_owned(), seen)
        });
        Times(seen.collect())
    }

    fn secs(plans: &[Plan], running: &[Running], times: &Times) -> u64 {
        let mut states = vec![State::Waiting; plans.len()];
        for job in running {
            states[job.index] = State::Running;
        }
        left(plans, &states, running, times).as_secs()
    }

    #[test]
    fn jobs_beside_each_other_and_after_one_another_are_reckoned() {
        let plans = [
            plan("crates", 1, &[]),
            plan("tree", 1, &[]),
            plan("programs", 1, &["crates"]),
            plan("roll", 1, &["programs", "tree"]),
        ];
        let times = times(&[
            ("crates", 100.0, None),
            ("tree", 150.0, None),
            ("programs", 10.0, None),
            ("roll", 30.0, None),
        ]);
        assert_eq!(secs(&plans, &[], &times), 180);
        let running = [Running {
            index: 1,
            ran_secs: 140.0,
            progress: None,
            began: Began::default(),
        }];
        assert_eq!(secs(&plans, &running, &times), 140);
    }

    #[test]
    fn a_job_with_little_left_to_do_takes_little() {
        let plans = [plan("crates", 1, &[])];
        let times = times(&[("crates", 500.0, Some(500))]);
        let running = |done, all, ran_secs| {
            [Running {
                index: 0,
                ran_secs,
                progress: Some(Progress {
                    done,
                    all: Some(all),
                    what: String::new(),
                }),
                began: Began::default(),
            }]
        };
        assert_eq!(secs(&plans, &running(0, 500, 5.0), &times), 500);
        assert_eq!(secs(&plans, &running(10, 500, 5.0), &times), 490);
        // Half as fast as the last time.
        assert_eq!(secs(&plans, &running(250, 500, 500.0), &times), 500);
        assert_eq!(secs(&plans, &running(490, 500, 1.0), &times), 1);
        // Linking: all units have begun.
        assert_eq!(secs(&plans, &running(500, 500, 440.0), &times), 60);
    }

    #[test]
    fn what_an_earlier_run_left_says_nothing_of_the_pace() {
        let plans = [plan("crates", 1, &[])];
        let times = times(&[("crates", 500.0, Some(500))]);
        let running = |done, ran_secs| {
            [Running {
                index: 0,
                ran_secs,
                progress: Some(Progress {
                    done,
                    all: Some(500),
                    what: String::new(),
                }),
                began: Began {
                    secs: 10.0,
                    done: 300,
                },
            }]
        };
        assert_eq!(secs(&plans, &running(300, 10.0), &times), 200);
        assert_eq!(secs(&plans, &running(350, 110.0), &times), 300);
    }

    #[test]
    fn a_small_run_does_not_replace_a_whole_one() {
        let mut times = times(&[("crates", 500.0, Some(500)), ("demo", 100.0, None)]);
        let run = |secs, units| Seen { secs, units };
        times.keep("crates", run(3.0, Some(4)));
        times.keep("crates", run(1.0, None));
        assert_eq!(times.seen("crates"), Some(run(500.0, Some(500))));
        times.keep("crates", run(300.0, Some(480)));
        assert_eq!(times.seen("crates"), Some(run(300.0, Some(480))));
        times.keep("demo", run(90.0, None));
        assert_eq!(times.seen("demo"), Some(run(90.0, None)));
    }

    #[test]
    fn printed_times_are_read_back_over_those_of_a_first_run() {
        let mut kept = Times::parse("");
        assert_eq!(kept, Times(read(FIRST)));
        assert!(!kept.0.is_empty(), "the times of a first run are not read");
        kept.keep(
            "a suite",
            Seen {
                secs: 1.5,
                units: Some(3),
            },
        );
        assert_eq!(Times::parse(&kept.print()), kept);
        assert_eq!(Times::parse("broken"), Times::parse(""));
    }
}
