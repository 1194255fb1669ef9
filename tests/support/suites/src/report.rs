//! What a person sees of a run: how far its jobs are, a line when one ends, the end of a failed
//! one's log, and the summary.
#![expect(
    clippy::disallowed_methods,
    reason = "the runner writes a run's own files"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::forecast::{Running, Seen, Times};
use crate::job::{Log, Outcome};
use crate::lanes::{Plan, State};
use crate::progress::lasting;
use crate::screen::Screen;
use crate::workspace::Workspace;
use crate::{forecast, screen};

/// Lines of a failed job's log that are shown.
const SHOWN_LINES: usize = 150;

/// How wide the name of a job is shown.
const NAME_WIDTH: usize = 18;

/// All that happened so far.
#[derive(Debug)]
pub(crate) struct Report {
    since: Instant,
    screen: Screen,
    /// Of runs before, and of this one.
    seen_times: Times,
    /// Seconds of each job, by name, in the order of their ends.
    times: Vec<(String, f64)>,
    passed: u32,
    failed: Vec<String>,
    failures: String,
    skipped: Vec<String>,
}

impl Report {
    /// On standard output.
    pub(crate) fn new(workspace: &Workspace) -> Self {
        Self::on(Screen::new(), workspace)
    }

    /// In a file of one line, which another program shows.
    pub(crate) fn in_file(path: PathBuf, workspace: &Workspace) -> Self {
        Self::on(Screen::File(path), workspace)
    }

    fn on(screen: Screen, workspace: &Workspace) -> Self {
        Self {
            since: Instant::now(),
            screen,
            seen_times: read(workspace),
            times: Vec::new(),
            passed: 0,
            failed: Vec::new(),
            failures: String::new(),
            skipped: Vec::new(),
        }
    }

    /// A line of its own, with the time since the start.
    pub(crate) fn say(&mut self, line: &str) {
        let at = clock(self.since.elapsed());
        self.screen.say(&format!("{at} {line}"));
    }

    /// Time between two calls of [`Self::status`].
    pub(crate) fn tick(&self) -> Duration {
        self.screen.tick()
    }

    /// How far all jobs are.
    pub(crate) fn status(&mut self, plans: &[Plan], states: &[State], running: &[Running]) {
        let ended = states
            .iter()
            .filter(|state| !matches!(state, State::Waiting | State::Running))
            .count();
        let left = forecast::left(plans, states, running, &self.seen_times);
        let heading = format!(
            "{} {ended} of {} done, about {} left",
            clock(self.since.elapsed()),
            plans.len(),
            rounded(left)
        );
        let lines = running.iter().map(|job| {
            let name = plans.get(job.index).map_or("", |plan| plan.name);
            let units = self.seen_times.seen(name).and_then(|seen| seen.units);
            line(name, job, units)
        });
        let lines: Vec<_> = lines.collect();
        self.screen.status(&heading, &lines);
    }

    /// Keeps how long a job took, for the next run's forecast.
    fn keep(&mut self, name: &str, job: &Running) {
        let units = job
            .progress
            .as_ref()
            .map(|progress| progress.done.saturating_sub(job.began.done))
            .filter(|done| *done > 0);
        let secs = job.ran_secs;
        self.seen_times.keep(name, Seen { secs, units });
    }

    pub(crate) fn dropped(&mut self, name: &str, after: &[&str]) {
        self.say(&format!("DROPPED {name}: it needs {}", after.join(", ")));
        self.failed.push(name.to_owned());
    }

    pub(crate) fn ended(&mut self, name: &str, job: &Running, result: Result<Outcome>, log: &Log) {
        let took = Duration::from_secs_f64(job.ran_secs);
        let ran = !result
            .as_ref()
            .is_ok_and(|outcome| !outcome.stamp.is_empty());
        if ran {
            self.times.push((name.to_owned(), job.ran_secs));
        }
        self.skipped.extend(
            log.skipped()
                .into_iter()
                .map(|what| format!("{name}: {what}")),
        );
        match result {
            Ok(Outcome { stamp, .. }) if !stamp.is_empty() => {
                self.say(&format!("stamp   {name}: {stamp}"));
                self.skipped.push(format!("{name}: {stamp}"));
            }
            Ok(Outcome { tests, note, .. }) => {
                self.keep(name, job);
                self.passed += tests;
                let tests = match tests {
                    0 => String::new(),
                    1 => ", 1 test".to_owned(),
                    tests => format!(", {tests} tests"),
                };
                let note = if note.is_empty() {
                    note
                } else {
                    format!(": {note}")
                };
                self.say(&format!("ok      {name} ({}{tests}){note}", clock(took)));
            }
            Err(error) => {
                self.failed.push(name.to_owned());
                let text = log.text().unwrap_or_default();
                let lines = lasting(&text);
                let from = lines.len().saturating_sub(SHOWN_LINES);
                let end = lines.get(from..).unwrap_or_default().join("\n");
                let why = format!(
                    "FAILED  {name} ({}): {error:#}\n{end}\n--- the end of {}",
                    clock(took),
                    log.path.display()
                );
                self.say(&why);
                self.failures.push_str(&why);
                self.failures.push('\n');
            }
        }
    }

    /// Why jobs failed, with their logs; empty where none did.
    pub(crate) fn failures(&self) -> &str {
        &self.failures
    }

    /// Prints the summary and keeps the times; whether all passed.
    ///
    /// # Errors
    ///
    /// The times cannot be written.
    pub(crate) fn end(&mut self, workspace: &Workspace) -> Result<bool> {
        self.screen.clear();
        self.times
            .push(("all".to_owned(), self.since.elapsed().as_secs_f64()));
        let path = file(workspace);
        fs::create_dir_all(&workspace.cache)?;
        fs::write(&path, self.seen_times.print())
            .with_context(|| format!("cannot write {}", path.display()))?;

        let (passed, failed, skipped) = (self.passed, self.failed.len(), self.skipped.len());
        if passed == 0 && failed == 0 {
            // Something was built, for what the caller does next.
            return Ok(true);
        }
        let mut times = self.times.clone();
        times.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut out = String::from("\nSeconds, slowest first:\n");
        for (name, secs) in times {
            writeln!(out, "{secs:>8.1}  {name}")?;
        }
        for (title, lines) in [("Skipped", &self.skipped), ("Failed", &self.failed)] {
            if !lines.is_empty() {
                writeln!(out, "\n{title}:")?;
                lines
                    .iter()
                    .try_for_each(|line| writeln!(out, "  {line}"))?;
            }
        }
        writeln!(out, "\n{passed} passed, {failed} failed, {skipped} skipped")?;
        screen::write(&out);
        Ok(self.failed.is_empty())
    }
}

/// How long jobs took on this machine, for all checkouts.
fn file(workspace: &Workspace) -> PathBuf {
    workspace.cache.join("times.json")
}

/// How long each job took when it last ran.
pub(crate) fn read(workspace: &Workspace) -> Times {
    Times::parse(&fs::read_to_string(file(workspace)).unwrap_or_default())
}

/// A running job: `crates  312 of 460  kube-client`; `units` is how many it had last time.
fn line(name: &str, job: &Running, units: Option<u32>) -> String {
    let progress = job.progress.clone().unwrap_or_default();
    let all = progress.all.or_else(|| units.filter(|_| progress.done > 0));
    let count = match all {
        Some(all) => format!("{} of {}", progress.done, all.max(progress.done)),
        None => clock(Duration::from_secs_f64(job.ran_secs)),
    };
    format!("{name:NAME_WIDTH$} {count:14} {}", progress.what)
        .trim_end()
        .to_owned()
}

/// In minutes, or in seconds where it is less.
fn rounded(time: Duration) -> String {
    match time.as_secs() {
        secs @ 0..60 => format!("{} s", secs.max(1)),
        secs => format!("{} min", (secs + 30) / 60),
    }
}

/// Minutes and seconds.
pub(crate) fn clock(time: Duration) -> String {
    format!("{:02}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::Began;
    use crate::progress::Progress;

    fn running(done: u32, all: Option<u32>, what: &str) -> Running {
        Running {
            index: 0,
            ran_secs: 75.0,
            progress: Some(Progress {
                done,
                all,
                what: what.to_owned(),
            }),
            began: Began::default(),
        }
    }

    #[test]
    fn a_line_has_the_count_or_the_time() {
        let cases = [
            (
                running(312, Some(460), "kube-client"),
                None,
                "crates             312 of 460     kube-client",
            ),
            (
                running(40, None, "dracut"),
                Some(400),
                "crates             40 of 400      dracut",
            ),
            // More than last time.
            (
                running(40, None, "dracut"),
                Some(30),
                "crates             40 of 40       dracut",
            ),
            (
                running(0, None, "Downloading"),
                Some(400),
                "crates             01:15          Downloading",
            ),
            (running(40, None, ""), None, "crates             01:15"),
        ];
        for (job, units, expected) in cases {
            assert_eq!(line("crates", &job, units), expected);
        }
    }

    #[test]
    fn what_is_left_has_one_unit() {
        for (secs, expected) in [
            (0, "1 s"),
            (59, "59 s"),
            (60, "1 min"),
            (90, "2 min"),
            (600, "10 min"),
        ] {
            assert_eq!(rounded(Duration::from_secs(secs)), expected);
        }
    }
}
