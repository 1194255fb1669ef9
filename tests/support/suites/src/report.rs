//! What a person sees of a run: a line when a job starts and ends, the end of a failed one's log,
//! and the summary.
#![expect(
    clippy::disallowed_methods,
    reason = "the runner writes a run's own files"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::job::{Log, Outcome};
use crate::workspace::Workspace;

/// Lines of a failed job's log that are shown.
const SHOWN_LINES: usize = 150;

/// All that happened so far.
#[derive(Debug)]
pub(crate) struct Report {
    since: Instant,
    /// Seconds of each job, by name, in the order of their ends.
    times: Vec<(String, f64)>,
    passed: u32,
    failed: Vec<String>,
    skipped: Vec<String>,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            times: Vec::new(),
            passed: 0,
            failed: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// A line of its own, with the time since the start.
    pub(crate) fn say(&self, line: &str) {
        // Where standard output is closed, the exit code says it.
        drop(writeln!(
            std::io::stdout(),
            "{} {line}",
            clock(self.since.elapsed())
        ));
    }

    pub(crate) fn started(&self, name: &str) {
        self.say(&format!("        {name}"));
    }

    pub(crate) fn dropped(&mut self, name: &str, after: &[&str]) {
        self.say(&format!("DROPPED {name}: it needs {}", after.join(", ")));
        self.failed.push(name.to_owned());
    }

    pub(crate) fn ended(&mut self, name: &str, took: Duration, result: Result<Outcome>, log: &Log) {
        let ran = !result
            .as_ref()
            .is_ok_and(|outcome| !outcome.stamp.is_empty());
        if ran {
            self.times.push((name.to_owned(), took.as_secs_f64()));
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
                let lines: Vec<_> = text.lines().collect();
                let from = lines.len().saturating_sub(SHOWN_LINES);
                let end = lines.get(from..).unwrap_or_default().join("\n");
                self.say(&format!(
                    "FAILED  {name} ({}): {error:#}\n{end}\n--- end of {}",
                    clock(took),
                    log.path.display()
                ));
            }
        }
    }

    /// Prints the summary and keeps the times; whether all passed.
    ///
    /// # Errors
    ///
    /// The times cannot be written.
    pub(crate) fn end(&mut self, workspace: &Workspace) -> Result<bool> {
        self.times
            .push(("all".to_owned(), self.since.elapsed().as_secs_f64()));
        let mut kept = read(workspace);
        kept.extend(self.times.iter().cloned());
        let path = workspace.root.join("target/timings.json");
        let text = serde_json::to_string_pretty(&json!(kept))? + "\n";
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;

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
        std::io::stdout().write_all(out.as_bytes())?;
        Ok(self.failed.is_empty())
    }
}

/// Seconds that each job took when it last ran, by name.
pub(crate) fn read(workspace: &Workspace) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(workspace.root.join("target/timings.json")).unwrap_or_default();
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    let times = value.as_object().into_iter().flatten();
    times
        .filter_map(|(name, secs)| Some((name.clone(), secs.as_f64()?)))
        .collect()
}

/// Minutes and seconds.
pub(crate) fn clock(time: Duration) -> String {
    format!("{:02}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}
