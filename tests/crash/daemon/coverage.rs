//! Which points there are in an update, and at which of them a life was killed.
//!
//! Lives are not alike: one that goes on where another was killed has less to do. A point is
//! therefore not known by its number, but by what the program said last, how often it had said so,
//! the call that comes next with its path or peer and length, and how many such there were since.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::super::call::Call;
use super::super::tracer::Point;

/// What the program says of each pod that it evicts.
const EVICTS: &str = "evicting pod";

/// So many digits or more of a name are another each time: attempts, digests.
const RANDOM: usize = 8;

/// One life's points, in order.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// What it said last, and how often it had.
    landmark: String,
    landmarks: BTreeMap<String, usize>,
    calls: BTreeMap<String, usize>,
}

/// Which points are tried: by their names, so that a point is chosen in each life or in none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// One of so many.
    pub(crate) stride: usize,
    /// Which.
    pub(crate) sample: usize,
}

impl Share {
    /// Every point.
    pub(crate) const ALL: Self = Self {
        stride: 1,
        sample: 0,
    };

    fn has(self, name: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let (stride, sample) = (self.stride as u64, self.sample as u64);
        hasher.finish() % stride == sample % stride
    }
}

/// All scenarios.
#[derive(Debug)]
pub(super) struct Coverage {
    share: Share,
    scenarios: BTreeMap<&'static str, Scenario>,
}

#[derive(Debug, Default)]
struct Scenario {
    tried: BTreeSet<String>,
    kills: BTreeMap<String, usize>,
    updates: usize,
    /// Points of the last update, in order.
    last: Vec<String>,
    /// Kills in the last update.
    last_kills: usize,
}

impl Course {
    /// The name of the point where this life is now.
    pub(super) fn meets(&mut self, point: &Point<'_>) -> String {
        for call in point.done {
            if let Some(said) = landmark(&call.says) {
                let count = self.landmarks.entry(said.clone()).or_default();
                *count += 1;
                self.landmark = format!("{said} {count}");
            }
        }
        let Call { name, path, .. } = point.next;
        let call = format!("{}: {name} {}", self.landmark, without_random(path));
        let count = self.calls.entry(call.clone()).or_default();
        *count += 1;
        format!("{call} {count}")
    }
}

impl Coverage {
    /// Nothing was tried yet.
    pub(super) const fn new(share: Share) -> Self {
        Self {
            share,
            scenarios: BTreeMap::new(),
        }
    }

    /// Another update of this scenario begins.
    pub(super) fn begin(&mut self, scenario: &'static str) {
        let scenario = self.scenarios.entry(scenario).or_default();
        scenario.updates += 1;
        scenario.last.clear();
        scenario.last_kills = 0;
    }

    /// A life comes to this point; whether it is chosen and no life was killed there yet.
    pub(super) fn is_new(&mut self, scenario: &'static str, name: &str) -> bool {
        let scenario = self.scenarios.entry(scenario).or_default();
        scenario.last.push(name.to_owned());
        self.share.has(name) && !scenario.tried.contains(name)
    }

    /// A life ends there, before this call.
    pub(super) fn killed(&mut self, scenario: &'static str, name: String, next: &Call) {
        let scenario = self.scenarios.entry(scenario).or_default();
        scenario.tried.insert(name);
        scenario.last_kills += 1;
        let network = if next.is_to_network() {
            " (network)"
        } else {
            ""
        };
        *scenario
            .kills
            .entry(format!("{}{network}", next.name))
            .or_default() += 1;
    }

    /// Kills in the last update of a scenario, and in all.
    pub(super) fn kills(&self, scenario: &str) -> (usize, usize) {
        self.scenarios.get(scenario).map_or((0, 0), |scenario| {
            (scenario.last_kills, scenario.kills.values().sum())
        })
    }

    /// Chosen points of the last update of a scenario at which no life was ever killed.
    pub(super) fn missed(&self, scenario: &str) -> Vec<&str> {
        let Some(scenario) = self.scenarios.get(scenario) else {
            return Vec::new();
        };
        let missed = scenario
            .last
            .iter()
            .filter(|name| self.share.has(name) && !scenario.tried.contains(*name));
        missed.map(String::as_str).collect()
    }

    /// How many chosen points the last update of a scenario had.
    pub(super) fn points(&self, scenario: &str) -> usize {
        let last = self.scenarios.get(scenario).map(|scenario| &scenario.last);
        let chosen = last.into_iter().flatten();
        chosen.filter(|name| self.share.has(name)).count()
    }

    /// How many points of the last update are before something is sent over the network, and how
    /// many are between or after evictions.
    pub(super) fn requests(&self, scenario: &str) -> (usize, usize) {
        let count = |part: &str| {
            let last = self
                .scenarios
                .get(scenario)
                .into_iter()
                .flat_map(|scenario| &scenario.last);
            last.filter(|name| name.contains(part)).count()
        };
        (count(" tcp "), count(EVICTS))
    }

    /// A line a scenario, and each point that was missed.
    pub(super) fn report(&self) -> String {
        let mut lines = Vec::new();
        for (name, scenario) in &self.scenarios {
            let missed = self.missed(name);
            let kills: usize = scenario.kills.values().sum();
            let each: Vec<_> = (scenario.kills.iter())
                .map(|(call, count)| format!("{call} {count}"))
                .collect();
            lines.push(format!(
                "{name:28} {:5} of {:6} chosen points of an update without a kill, one in {}; {kills} kills in {} updates: {}",
                self.points(name) - missed.len(),
                self.points(name),
                self.share.stride,
                scenario.updates,
                each.join(", ")
            ));
            lines.extend(missed.iter().map(|point| format!("  not tried: {point}")));
        }
        lines.join("\n")
    }
}

/// What a line of the log is about: its first words without values, and the phase, event or verb.
/// None if it is no line of the log.
fn landmark(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().skip(1);
    let level = words.next()?;
    if !matches!(level, "INFO" | "WARN" | "ERROR") {
        return None;
    }
    let (first, second) = (words.next()?, words.next().unwrap_or_default());
    let (key, value) = second.split_once('=').unwrap_or((second, ""));
    let value = value.trim_matches('"');
    Some(match (first, key) {
        ("phase" | "event", _) => format!("{first} {value}"),
        // The unit is `slipway-<verb>-<attempt>.service`.
        ("started", _) => format!("started {}", value.split('-').nth(1).unwrap_or_default()),
        _ => format!("{first} {key}"),
    })
}

/// A path with each long run of hexadecimal digits as one star.
fn without_random(path: &str) -> String {
    let mut plain = String::new();
    let mut run = String::new();
    for char in path.chars().chain(['\0']) {
        if char.is_ascii_hexdigit() && !char.is_ascii_uppercase() {
            run.push(char);
            continue;
        }
        let is_random = run.len() >= RANDOM && run.contains(|char: char| char.is_ascii_digit());
        plain.push_str(if is_random { "*" } else { &run });
        run.clear();
        if char != '\0' {
            plain.push(char);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_of_a_stride_are_all_points_and_each_once() {
        let has = |sample, point: usize| Share { stride: 4, sample }.has(&format!("point {point}"));
        for point in 0..100 {
            let samples = (0..4).filter(|sample| has(*sample, point)).count();
            assert_eq!(samples, 1, "{point}");
        }
        let chosen = (0..100).filter(|point| has(7, *point)).count();
        assert!((10..=40).contains(&chosen), "{chosen}");
    }

    #[test]
    fn a_line_of_the_log_is_a_landmark_without_its_values() {
        let of = |line| landmark(line).unwrap_or_default();
        assert_eq!(
            of("2026-11-22T08:04:41.754100Z INFO phase phase=\"Verifying\" waits_for=\"checks\"\n"),
            "phase Verifying"
        );
        assert_eq!(
            of("2026-11-22T08:04:42.1Z INFO started unit=\"slipway-apply-1a2-2.service\"\n"),
            "started apply"
        );
        assert_eq!(
            of("2026-11-22T08:04:42.1Z INFO evicting pod pod=default/a\n"),
            "evicting pod"
        );
        assert_eq!(
            of("2026-11-22T08:04:42.1Z WARN planned attempt=\"1\"\n"),
            "planned attempt"
        );
        assert_eq!(
            of("2026-11-22T08:04:42.1Z INFO event message_id=\"Drain\" Draining node\n"),
            "event Drain"
        );
        assert_eq!(of(""), "");
        assert_eq!(of("a panic of the program\n"), "");
    }

    #[test]
    fn names_that_are_another_each_time_are_alike() {
        assert_eq!(
            without_random("/var/plans/1a20249349d-2/plan.json"),
            "/var/plans/*-2/plan.json"
        );
        assert_eq!(
            without_random("tcp 10.88.0.1:6443, 512 bytes"),
            "tcp 10.88.0.1:6443, 512 bytes"
        );
        assert_eq!(
            without_random("/a/deadbeeffeed/1234567"),
            "/a/deadbeeffeed/1234567"
        );
    }
}
