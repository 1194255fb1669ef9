//! Jobs: what runs in a lane, its log, and what it says at its end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::forecast::{Began, Running};
use crate::lanes::{self, Next, Plan, State};
use crate::progress::{Meter, Progress};
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
    meter: Meter,
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
            meter: Meter::Lines,
        }
    }

    /// How its output is read.
    #[must_use]
    pub(crate) fn meter(mut self, meter: Meter) -> Self {
        self.meter = meter;
        self
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
        command.stdout(Stdio::from(self.file()?));
        self.end_well(command, limit)
    }

    /// The same; what it prints on standard output.
    ///
    /// # Errors
    ///
    /// As [`Self::run`], or the output is not UTF-8.
    pub(crate) fn output(&self, command: &mut Command, limit: Duration) -> Result<String> {
        let path = self.path.with_extension("out");
        command.stdout(Stdio::from(File::create(&path)?));
        self.end_well(command, limit)?;
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    fn end_well(&self, command: &mut Command, limit: Duration) -> Result<()> {
        let status = self.wait(command, limit)?;
        ensure!(status.success(), "{} ({status})", shown(command));
        Ok(())
    }

    fn file(&self) -> Result<File> {
        let file = File::options().append(true).open(&self.path);
        file.with_context(|| format!("cannot open {}", self.path.display()))
    }

    /// Runs a command, whose standard output goes somewhere, to its end, whatever that is.
    fn wait(&self, command: &mut Command, limit: Duration) -> Result<ExitStatus> {
        let mut child = command
            .env("SLIPWAY_SKIPPED", &self.skipped)
            .stderr(Stdio::from(self.file()?))
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

/// A job in its lane.
struct Lane {
    thread: JoinHandle<()>,
    log: Log,
    meter: Meter,
    since: Instant,
    /// None until its output first showed how far it is.
    began: Option<Began>,
}

impl Lane {
    /// How far it is, and the pace by which the rest is reckoned.
    fn shown(&mut self, index: usize) -> Running {
        let ran_secs = self.since.elapsed().as_secs_f64();
        let progress = self.progress();
        // Cargo counts what is built already, too.
        if let (Meter::Cargo, Some(progress)) = (self.meter, &progress) {
            self.began.get_or_insert(Began {
                secs: ran_secs,
                done: progress.done,
            });
        }
        Running {
            index,
            ran_secs,
            progress,
            began: self.began.unwrap_or_default(),
        }
    }

    fn progress(&self) -> Option<Progress> {
        self.meter.read(&self.log.text().ok()?)
    }
}

/// Runs all jobs; whether all passed. Those before others in the list start first where there is a
/// choice.
///
/// # Errors
///
/// A log cannot be made, or a job waits for one that is not in the list: then none is started.
pub(crate) fn run_all(workspace: &Workspace, jobs: Vec<Job>, report: &mut Report) -> Result<bool> {
    let (mut plans, mut works) = (Vec::new(), Vec::new());
    for Job { plan, work, meter } in jobs {
        plans.push(plan);
        works.push(Some((work, meter)));
    }
    if let Some((job, missing)) = lanes::stray(&plans) {
        bail!("job {job} waits for {missing}, which is no job of this run");
    }
    let mut states = vec![State::Waiting; plans.len()];
    let mut running: BTreeMap<usize, Lane> = BTreeMap::new();
    let (ended, ends) = mpsc::channel();
    loop {
        match lanes::next(&plans, &states) {
            Next::Start(index) => {
                let (Some(plan), Some((work, meter))) = (
                    plans.get(index),
                    works.get_mut(index).and_then(Option::take),
                ) else {
                    bail!("job {index} was started twice");
                };
                let log = Log::new(workspace, plan.name)?;
                set(&mut states, index, State::Running);
                let (ended, at) = (ended.clone(), log.clone());
                let thread = thread::spawn(move || {
                    let result = work(&at);
                    // The receiver outlives all jobs.
                    drop(ended.send((index, result)));
                });
                let lane = Lane {
                    thread,
                    log,
                    meter,
                    since: Instant::now(),
                    began: None,
                };
                running.insert(index, lane);
            }
            Next::Drop(index) => {
                set(&mut states, index, State::Dropped);
                if let Some(plan) = plans.get(index) {
                    report.dropped(plan.name, &plan.after);
                }
            }
            Next::Wait => {
                let (index, result) = match ends.recv_timeout(report.tick()) {
                    Ok(ended) => ended,
                    Err(RecvTimeoutError::Timeout) => {
                        let shown = running.iter_mut().map(|(index, lane)| lane.shown(*index));
                        report.status(&plans, &states, &shown.collect::<Vec<_>>());
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => bail!("all jobs are gone"),
                };
                let (Some(mut lane), Some(plan)) = (running.remove(&index), plans.get(index))
                else {
                    bail!("job {index} ended twice");
                };
                let shown = lane.shown(index);
                let has_panicked = lane.thread.join().is_err();
                let passed = result.is_ok() && !has_panicked;
                set(
                    &mut states,
                    index,
                    if passed { State::Passed } else { State::Failed },
                );
                report.ended(plan.name, &shown, result, &lane.log);
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
