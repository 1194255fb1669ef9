//! How long the rest of a pool's roll takes, from the nodes of it that are done, and before there
//! are enough, from the roll before it.
//!
//! The nodes that wait are played through the pool's budget many times, each with the duration of
//! one that is done. The order of events is left to the controller; only how many may be out at
//! once counts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use jiff::Timestamp;
use serde::Serialize;

use crate::decide::blocks::duration;

/// Fewer nodes say nothing.
const LEAST: usize = 3;

/// A node of the last roll that took so many times what the middle one took did not take part: it
/// joined later, or the roll stood still.
const APART: i64 = 4;

/// How often the rest is played. The tenth part of them decides the p90.
const PLAYS: usize = 400;

/// Where the numbers of each forecast begin, so that equal facts give equal forecasts.
const SEED: u64 = 0x5115_aa75;

/// Facts about a roll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RollFacts {
    pub(crate) began: Timestamp,
    /// When each node that is done was done.
    pub(crate) done: Vec<Timestamp>,
    /// When each node that waits was done the last time.
    pub(crate) earlier: Vec<Timestamp>,
    /// Nodes that are being updated.
    pub(crate) under_way: usize,
    /// Nodes that wait for their turn.
    pub(crate) waiting: usize,
    /// How many may be out at once.
    pub(crate) at_once: usize,
}

impl RollFacts {
    /// Of a roll in which no node is done or under way.
    pub(crate) const fn of_none(began: Timestamp, at_once: usize) -> Self {
        Self {
            began,
            done: Vec::new(),
            earlier: Vec::new(),
            under_way: 0,
            waiting: 0,
            at_once,
        }
    }
}

/// When the last node is done, from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RollForecast {
    /// Seconds that the rest takes at most in half of all cases.
    pub(crate) p50_seconds: i64,
    /// Seconds that it takes at most in nine of ten cases.
    pub(crate) p90_seconds: i64,
    /// From how many nodes that is measured.
    pub(crate) nodes: usize,
    /// Of which roll these are.
    pub(crate) basis: ForecastBasis,
}

/// The roll whose nodes say how long one takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ForecastBasis {
    /// The one that is forecast.
    ThisRoll,
    LastRoll,
}

impl RollForecast {
    pub(crate) fn certainty(self) -> String {
        let roll = match self.basis {
            ForecastBasis::ThisRoll => "this roll",
            ForecastBasis::LastRoll => "the last roll",
        };
        format!("as {} nodes of {roll} took", self.nodes)
    }
}

/// Why there is no forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoForecast {
    /// Too few nodes are measured.
    #[error("none before {LEAST} nodes of this roll are done")]
    TooFewNodes,
    /// No node before took as long as one under way. Seconds.
    #[error(
        "none while a node takes longer ({}) than all before it (at most {})",
        duration(*.elapsed_secs),
        duration(*.longest_secs)
    )]
    Overdue {
        /// What the node has taken so far.
        elapsed_secs: i64,
        /// What the slowest before took.
        longest_secs: i64,
    },
}

/// The forecast, or why there is none.
pub(crate) fn forecast(facts: &RollFacts, now: Timestamp) -> Result<RollForecast, NoForecast> {
    let mut done = facts.done.clone();
    done.retain(|at| *at >= facts.began);
    done.sort_unstable();
    let mut took = durations(&done, facts.began, facts.at_once);
    let mut basis = ForecastBasis::ThisRoll;
    if took.len() < LEAST {
        took = of_last_roll(&facts.earlier, facts.at_once);
        basis = ForecastBasis::LastRoll;
    }
    if took.len() < LEAST {
        return Err(NoForecast::TooFewNodes);
    }
    let elapsed = elapsed(&done, facts, now);
    let longest = took.iter().copied().max().unwrap_or_default();
    if let Some(late) = elapsed.iter().find(|passed| **passed > longest) {
        return Err(NoForecast::Overdue {
            elapsed_secs: *late,
            longest_secs: longest,
        });
    }
    let mut random = SplitMix(SEED);
    let mut plays: Vec<i64> = (0..PLAYS)
        .map(|_| play(&took, &elapsed, facts, &mut random))
        .collect();
    plays.sort_unstable();
    let quantile = |tenths: usize| {
        let place = plays.len() * tenths / 10;
        plays.get(place).copied().unwrap_or_default()
    };
    Ok(RollForecast {
        p50_seconds: quantile(5),
        p90_seconds: quantile(9),
        nodes: took.len(),
        basis,
    })
}

/// Seconds that each node took: a place in the budget is taken again as soon as its node is done.
fn durations(done: &[Timestamp], began: Timestamp, at_once: usize) -> Vec<i64> {
    let seconds = |number: usize, at: &Timestamp| {
        let place = number.checked_sub(at_once);
        let from = place.and_then(|place| done.get(place)).unwrap_or(&began);
        at.as_second() - from.as_second()
    };
    done.iter()
        .enumerate()
        .map(|(number, at)| seconds(number, at))
        .collect()
}

/// Seconds that nodes took in the last roll. Its first nodes say nothing, because nothing says when
/// it began; nor does a node that is far from the others.
fn of_last_roll(earlier: &[Timestamp], at_once: usize) -> Vec<i64> {
    let mut done = earlier.to_vec();
    done.sort_unstable();
    let mut took: Vec<i64> = done
        .iter()
        .zip(done.iter().skip(at_once))
        .map(|(before, after)| after.as_second() - before.as_second())
        .collect();
    took.sort_unstable();
    let middle = took.get(took.len() / 2).copied().unwrap_or_default();
    took.retain(|seconds| *seconds <= middle.saturating_mul(APART));
    took
}

/// Seconds that the nodes under way have taken: they began when the last places became free.
fn elapsed(done: &[Timestamp], facts: &RollFacts, now: Timestamp) -> Vec<i64> {
    let free = done.iter().rev().map(Some).chain(std::iter::repeat(None));
    let is_first_turn = done.len() < facts.at_once;
    free.take(facts.under_way)
        .map(|at| match at {
            Some(at) if !is_first_turn => *at,
            _ => facts.began,
        })
        .map(|at| now.as_second() - at.as_second())
        .collect()
}

/// Seconds until the last node is done, in one case.
fn play(took: &[i64], elapsed: &[i64], facts: &RollFacts, random: &mut SplitMix) -> i64 {
    let mut places: BinaryHeap<Reverse<i64>> = elapsed
        .iter()
        .map(|passed| {
            let possible: Vec<i64> = took.iter().copied().filter(|all| all >= passed).collect();
            Reverse(random.one_of(&possible) - passed)
        })
        .collect();
    while places.len() < facts.at_once {
        places.push(Reverse(0));
    }
    for _ in 0..facts.waiting {
        let Reverse(free) = places.pop().unwrap_or(Reverse(0));
        places.push(Reverse(free + random.one_of(took)));
    }
    places
        .into_iter()
        .map(|Reverse(end)| end)
        .max()
        .unwrap_or_default()
}

/// A small generator of numbers that look random.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of the values; zero if there is none.
    fn one_of(&mut self, values: &[i64]) -> i64 {
        let count = u64::try_from(values.len()).unwrap_or(1).max(1);
        let place = usize::try_from(self.next() % count).unwrap_or_default();
        values.get(place).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn facts(done: &[i64], under_way: usize, waiting: usize, at_once: usize) -> RollFacts {
        RollFacts {
            began: at(0),
            done: done.iter().map(|seconds| at(*seconds)).collect(),
            earlier: Vec::new(),
            under_way,
            waiting,
            at_once,
        }
    }

    #[test]
    fn equal_nodes_give_an_exact_forecast() {
        // Each node takes 60 s; one has been under way for 20 s.
        let one = facts(&[60, 120, 180], 1, 4, 1);
        let expected = RollForecast {
            p50_seconds: 40 + 4 * 60,
            p90_seconds: 40 + 4 * 60,
            nodes: 3,
            basis: ForecastBasis::ThisRoll,
        };
        assert_eq!(forecast(&one, at(200)), Ok(expected));
        // Two at once: the four that wait take two turns.
        let two = facts(&[60, 60, 120, 120], 2, 4, 2);
        let found = forecast(&two, at(140)).unwrap();
        assert_eq!((found.p50_seconds, found.p90_seconds), (40 + 120, 40 + 120));
    }

    #[test]
    fn unequal_nodes_give_a_range_and_the_same_one_again() {
        let facts = facts(&[60, 180, 240, 400], 0, 10, 1);
        let found = forecast(&facts, at(400)).unwrap();
        assert!(found.p50_seconds < found.p90_seconds, "{found:?}");
        // Ten of 60 to 160 s each.
        assert!((600..=1600).contains(&found.p50_seconds), "{found:?}");
        assert_eq!(forecast(&facts, at(400)), Ok(found));
    }

    #[test]
    fn nodes_of_before_and_too_few_nodes_say_nothing() {
        let none = Err(NoForecast::TooFewNodes);
        assert_eq!(forecast(&facts(&[60, 120], 1, 4, 1), at(130)), none);
        assert_eq!(forecast(&facts(&[-500, -400, 60], 1, 4, 1), at(130)), none);
    }

    #[test]
    fn the_last_roll_says_how_long_nodes_take_before_this_one_does() {
        let day = 86_400;
        // Five nodes, 60 s each; one of them joined a day later.
        let earlier = [0, 60, 120, 180, day].map(|seconds| at(seconds - 10 * day));
        let facts = RollFacts {
            earlier: earlier.into(),
            ..facts(&[], 0, 5, 1)
        };
        let expected = RollForecast {
            p50_seconds: 300,
            p90_seconds: 300,
            nodes: 3,
            basis: ForecastBasis::LastRoll,
        };
        assert_eq!(forecast(&facts, at(0)), Ok(expected));
        assert_eq!(expected.certainty(), "as 3 nodes of the last roll took");
        // Two at once: half as long, from one node less.
        let two = RollFacts {
            earlier: [0, 0, 60, 60, 120, 120].map(at).into(),
            at_once: 2,
            waiting: 6,
            ..facts.clone()
        };
        let found = forecast(&two, at(200)).unwrap();
        assert_eq!((found.p90_seconds, found.nodes), (180, 4));
        // Three nodes are too few: they give two lengths of time.
        let few = RollFacts {
            earlier: earlier[..3].to_vec(),
            ..facts
        };
        assert!(forecast(&few, at(0)).is_err());
    }

    #[test]
    fn a_node_that_takes_longer_than_all_ends_the_forecast() {
        let found = forecast(&facts(&[60, 120, 180], 1, 4, 1), at(300));
        let expected = "none while a node takes longer (2m) than all before it (at most 1m)";
        assert_eq!(found.unwrap_err().to_string(), expected);
    }
}
