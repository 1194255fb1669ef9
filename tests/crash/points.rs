//! Which points there are, which of them are tried, and how many were.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use lab::host::Host;

use super::call::Call;
use super::tracer::Point;

/// What temporary files of the program's own end with.
pub(super) const TEMPORARY: &str = ".slipway-new";

/// Where deployments are, in whatever mount namespace.
const DEPLOYMENTS: &str = "/ostree/deploy/slipway/deploy/";

/// How many points of libostree's bulk there are to one that is tried.
const BULK: usize = 2000;

/// Which points of a run are tried, where each costs a boot.
///
/// libostree's bulk are the objects and links that it makes and removes in its repository, and in a
/// deployment that no boot entry names: tens of thousands of a whole OS, a few hundred of the small
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Each one.
    Every,
    /// Each that is not of the bulk, and of the bulk each [`BULK`]th.
    Sampled,
    /// Each that is of the bulk, and no other.
    Bulk,
}

/// Picks the points of one run that are tried.
#[derive(Debug)]
pub(crate) struct Chooser {
    choice: Choice,
    /// The first point of the bulk that is tried.
    first: usize,
    bulk: usize,
    /// Deployments that boot entries name; read anew when they change.
    named: Option<Vec<String>>,
    /// Whether the program's own steps are under way in a new deployment.
    steps: bool,
    /// Points there were, tried or not.
    pub(crate) seen: usize,
}

impl Chooser {
    /// Which of each [`BULK`] points of the bulk is tried is `sample`'s to choose.
    pub(crate) const fn new(choice: Choice, sample: usize) -> Self {
        Self {
            choice,
            first: sample % BULK,
            bulk: 0,
            named: None,
            steps: false,
            seen: 0,
        }
    }

    /// Whether a point is tried.
    pub(crate) fn chooses(&mut self, host: &Host, point: &Point<'_>) -> Result<bool> {
        self.seen += 1;
        let mut is_bulk = true;
        for call in point.done {
            is_bulk &= self.is_bulk(host, call)?;
        }
        let is_sampled = self.bulk % BULK == self.first;
        self.bulk += usize::from(is_bulk);
        Ok(match self.choice {
            Choice::Every => true,
            Choice::Sampled => !is_bulk || is_sampled,
            Choice::Bulk => is_bulk,
        })
    }

    fn is_bulk(&mut self, host: &Host, call: &Call) -> Result<bool> {
        let path = call.path.as_str();
        if path.contains("/loader") || path.contains("/ostree/boot.") {
            self.named = None;
        }
        if path.ends_with("/journal.json") {
            self.steps = false;
        }
        if path.contains("/ostree/repo/") {
            return Ok(!path.contains("/refs/"));
        }
        let Some((_, below)) = path.split_once(DEPLOYMENTS) else {
            return Ok(false);
        };
        if path.ends_with(TEMPORARY) {
            self.steps = true;
        } else if call.name == "unlinkat" {
            // What a sweep removes, file by file.
            self.steps = false;
        }
        let (id, inside) = below.split_once('/').unwrap_or((below, ""));
        Ok(!self.steps && !inside.is_empty() && !self.is_named(host, id)?)
    }

    fn is_named(&mut self, host: &Host, id: &str) -> Result<bool> {
        if self.named.is_none() {
            let entries = host.entries()?;
            let name = |entry: &lab::host::Entry| {
                let dir = entry.deployment(host.sysroot())?;
                Ok(dir
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned())
            };
            self.named = Some(entries.iter().map(name).collect::<Result<_>>()?);
        }
        Ok(self.named.iter().flatten().any(|named| named == id))
    }
}

/// How many points were tried, by scenario and call, and how many there were.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    tried: BTreeMap<&'static str, BTreeMap<&'static str, usize>>,
    seen: BTreeMap<&'static str, usize>,
}

impl Tally {
    /// Counts a point, by the call after which it is.
    pub(crate) fn count(&mut self, scenario: &'static str, call: &'static str) {
        *self
            .tried
            .entry(scenario)
            .or_default()
            .entry(call)
            .or_default() += 1;
    }

    /// A run of a scenario had so many points; one without a kill had most.
    pub(crate) fn saw(&mut self, scenario: &'static str, points: usize) {
        let seen = self.seen.entry(scenario).or_default();
        *seen = points.max(*seen);
    }

    /// A line a scenario, and the sum; an error where something failed, or no point of a scenario
    /// was tried.
    pub(crate) fn judge(&self, what: &str, failures: &[String]) -> Result<String> {
        let report = self.report(what);
        ensure!(
            failures.is_empty(),
            "{report}\n{} failed:\n{}",
            failures.len(),
            failures.join("\n")
        );
        let is_untried = |scenario: &&&'static str| !self.tried.contains_key(**scenario);
        let untried: Vec<_> = self.seen.keys().filter(is_untried).copied().collect();
        ensure!(
            !self.seen.is_empty() && untried.is_empty(),
            "{report}\nno point was tried of {}",
            untried.join(", ")
        );
        Ok(report)
    }

    fn report(&self, what: &str) -> String {
        let mut all: BTreeMap<&str, usize> = BTreeMap::new();
        for calls in self.tried.values() {
            for (call, count) in calls {
                *all.entry(*call).or_default() += count;
            }
        }
        let of_scenario = |(scenario, calls): (&&'static str, _)| {
            line(
                scenario,
                calls,
                self.seen.get(scenario).copied().unwrap_or_default(),
            )
        };
        let mut lines: Vec<_> = self.tried.iter().map(of_scenario).collect();
        lines.push(line(what, &all, self.seen.values().sum()));
        lines.join("\n")
    }
}

fn line(scenario: &str, calls: &BTreeMap<&str, usize>, seen: usize) -> String {
    let sum: usize = calls.values().sum();
    let each: Vec<_> = calls
        .iter()
        .map(|(call, count)| format!("{call} {count}"))
        .collect();
    format!(
        "{scenario:28} {sum:5} of {seen:6} points: {}",
        each.join(", ")
    )
}
