//! Jobs: what runs in a lane, its log, and what it says at its end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::lanes::{self, Next, Plan, State};
use crate::report::Report;
use crate::workspace::Workspace;

/// Time between two polls at a running command.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// No command of the build takes longer, even with empty caches.
pub(crate) const BUILD_LIMIT: Duration = Duration::from_mins(40);

/// What a job does.
pub(crate) type Work = Box<dyn FnOnce(&Log) -> Result<Outcome> + Send>;

/// A job with its place in the order.
pub(crate) struct Job {
    pub(crate) plan: Plan,
    pub(crate) work: Work,
}

impl Job {
    pub(crate) fn new(
        name: &'static str,
        after: &[&'static str],
        work: impl FnOnce(&Log) -> Result<Outcome> + Send + 'static,
    ) -> Self {
        let plan = Plan {
            name,
            lanes: 1,
            after: after.to_vec(),
        };
        Self {
            plan,
            work: Box::new(work),
        }
    }

    #[must_use]
    pub(crate) fn lanes(mut self, lanes: u8) -> Self {
        self.plan.lanes = lanes;
        self
    }
}

/// How a job ended well.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Tests that passed; none for what is no suite.
    pub(crate) tests: u32,
    /// What the summary says of it beside.
    pub(crate) note: String,
    /// By which stamp it did not run; empty if it ran.
    pub(crate) stamp: String,
}

/// Where the output of a job's commands goes.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) path: PathBuf,
    /// File to which tests append what they skipped.
    skipped: PathBuf,
}

impl Log {
    /// An empty log.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub(crate) fn new(workspace: &Workspace, name: &str) -> Result<Self> {
        let folder = workspace.root.join("target/logs");
        fs::create_dir_all(&folder)?;
        let log = Self {
            path: folder.join(format!("{name}.log")),
            skipped: folder.join(format!("{name}.skipped")),
        };
        for path in [&log.path, &log.skipped] {
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(log)
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    ///
    /// It cannot be started, fails, or has not ended within `limit`: then it is killed.
    pub(crate) fn run(&self, command: &mut Command, limit: Duration) -> Result<()> {
        let status = self.wait(command, limit)?;
        ensure!(status.success(), "{} ({status})", shown(command));
        Ok(())
    }

    /// Runs a command to its end, whatever that is.
    ///
    /// # Errors
    ///
    /// It cannot be started, or has not ended within `limit`: then it is killed.
    pub(crate) fn wait(&self, command: &mut Command, limit: Duration) -> Result<ExitStatus> {
        let file = File::options().append(true).open(&self.path)?;
        let mut child = command
            .env("SLIPWAY_SKIPPED", &self.skipped)
            .stdout(Stdio::from(file.try_clone()?))
            .stderr(Stdio::from(file))
            .spawn()
            .with_context(|| format!("cannot run {}", shown(command)))?;
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                child.kill()?;
                child.wait()?;
                bail!(
                    "{} did not end within {} min",
                    shown(command),
                    limit.as_secs() / 60
                );
            }
            thread::sleep(POLL_EVERY);
        }
    }

    /// All that was written so far.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(crate) fn text(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(&self.path)?).into_owned())
    }

    /// What was skipped, each once: lines `skipped: …` of the output, and of the file that tests
    /// append to.
    pub(crate) fn skipped(&self) -> Vec<String> {
        let read = |path: &Path| fs::read(path).unwrap_or_default();
        let text = [read(&self.path), read(&self.skipped)].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut skipped: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("skipped: ").map(str::to_owned))
            .collect();
        skipped.sort();
        skipped.dedup();
        skipped
    }
}

/// A command as a person would type it.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// Runs all jobs; whether all passed. Those before others in the list start first where there is a
/// choice.
///
/// # Errors
///
/// A log cannot be made.
pub(crate) fn run_all(workspace: &Workspace, jobs: Vec<Job>, report: &mut Report) -> Result<bool> {
    let (plans, mut works): (Vec<Plan>, Vec<Option<Work>>) = jobs
        .into_iter()
        .map(|job| (job.plan, Some(job.work)))
        .unzip();
    let mut states = vec![State::Waiting; plans.len()];
    let mut running = BTreeMap::new();
    let (ended, ends) = mpsc::channel();
    loop {
        match lanes::next(&plans, &states) {
            Next::Start(index) => {
                let (Some(plan), Some(work)) = (
                    plans.get(index),
                    works.get_mut(index).and_then(Option::take),
                ) else {
                    bail!("job {index} was started twice");
                };
                let log = Log::new(workspace, plan.name)?;
                report.started(plan.name);
                set(&mut states, index, State::Running);
                let (ended, at) = (ended.clone(), log.clone());
                let thread = thread::spawn(move || {
                    let result = work(&at);
                    // The receiver outlives all jobs.
                    drop(ended.send((index, result)));
                });
                running.insert(index, (thread, log, Instant::now()));
            }
            Next::Drop(index) => {
                set(&mut states, index, State::Dropped);
                if let Some(plan) = plans.get(index) {
                    report.dropped(plan.name, &plan.after);
                }
            }
            Next::Wait => {
                let (index, result) = ends.recv().context("all jobs are gone")?;
                let (Some((thread, log, since)), Some(plan)) =
                    (running.remove(&index), plans.get(index))
                else {
                    bail!("job {index} ended twice");
                };
                let has_panicked = thread.join().is_err();
                let passed = result.is_ok() && !has_panicked;
                set(
                    &mut states,
                    index,
                    if passed { State::Passed } else { State::Failed },
                );
                report.ended(plan.name, since.elapsed(), result, &log);
            }
            Next::End => return Ok(states.iter().all(|state| *state == State::Passed)),
        }
    }
}

fn set(states: &mut [State], index: usize, state: State) {
    if let Some(place) = states.get_mut(index) {
        *place = state;
    }
}
