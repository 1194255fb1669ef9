//! The program is killed, and its host goes on.
//!
//! After each kill a reboot has to find either the old or the new state, whole. Then comes what
//! would come next on a node, and has to end well.
//!
//! - `kills`: where it is killed, and what comes next
//! - `schedule`: which point the next run is for

mod kills;
mod schedule;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, ensure};
use lab::host::Host;
use testbed::files;
use testbed::single_host::expect;

use self::kills::{Between, KILLS, Kill, Next};
use self::schedule::Schedule;
use super::env::{Env, settle};
use super::fixture::Fixtures;
use super::points::Tally;
use super::scenario::{End, words};
use super::state::{Kept, State, strays};
use super::tracer::{self, Ended, Order};

/// After so many failures a scenario ends: they have one cause.
const FAILURES_MAX: usize = 5;

/// So often the program may fail to bring a host back to the start of a scenario. Restoring the
/// disks hides such failures.
const NOT_BACK_MAX: usize = 3;

/// Exit codes above this one are of programs that a signal ended.
const SIGNALLED: i32 = 128;

/// What the workers share.
struct Suite<'a> {
    env: &'a Env,
    fixtures: &'a Fixtures,
    /// By kill.
    progress: Vec<Progress>,
    tally: Mutex<Tally>,
    failures: Mutex<Vec<String>>,
}

struct Progress {
    /// Whether a host has it, of those that one host runs alone.
    is_taken: AtomicBool,
    schedule: Mutex<Schedule>,
    failures: AtomicUsize,
    /// How often a host was brought back to the start by the program.
    back: AtomicUsize,
    /// Why it was not.
    not_back: Mutex<Vec<String>>,
}

impl Progress {
    const fn new((stride, sample): (usize, usize)) -> Self {
        Self {
            is_taken: AtomicBool::new(false),
            schedule: Mutex::new(Schedule::new(stride, sample)),
            failures: AtomicUsize::new(0),
            back: AtomicUsize::new(0),
            not_back: Mutex::new(Vec::new()),
        }
    }

    /// What a reader should know of a scenario besides its points; a line each.
    fn notes(&self, name: &str) -> Vec<String> {
        let mut notes = Vec::new();
        let (again, left) = self.schedule().gone();
        if again > 0 {
            notes.push(format!("  {name}: points gone for again {again} times"));
        }
        if !left.is_empty() {
            notes.push(format!("  {name}: points never come to again: {left:?}"));
        }
        let not_back = self.not_back();
        if !not_back.is_empty() {
            let back = self.back.load(Ordering::Relaxed);
            let why = not_back.join("\n    ");
            notes.push(format!(
                "  {name}: brought back {back} times by the program, {} times by its disks:\n    {why}",
                not_back.len()
            ));
        }
        notes
    }

    fn not_back(&self) -> MutexGuard<'_, Vec<String>> {
        self.not_back.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills the program at each `stride`th point of every scenario, from where `sample` says; says how
/// many, and what was found.
pub(crate) fn run(
    env: &Env,
    fixtures: &Fixtures,
    (stride, sample): (usize, usize),
    hosts: &mut [Host],
) -> Result<String> {
    let suite = Suite {
        env,
        fixtures,
        progress: KILLS
            .iter()
            .map(|_| Progress::new((stride, sample)))
            .collect(),
        tally: Mutex::default(),
        failures: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = hosts
            .iter_mut()
            .map(|host| scope.spawn(|| suite.work(host)))
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .map_err(|_| anyhow::anyhow!("a worker panicked"))?
        })
    })?;
    let mut failures = suite.failures.into_inner().unwrap_or_default();
    let tally = suite.tally.into_inner().unwrap_or_default();
    for (kill, progress) in KILLS.iter().zip(&suite.progress) {
        for note in progress.notes(kill.scenario.name) {
            eprintln!("{note}");
        }
        let not_back = progress.not_back().len();
        if not_back > NOT_BACK_MAX {
            let name = kill.scenario.name;
            failures.push(format!(
                "  {name}: the program did not bring the host back to its start {not_back} times"
            ));
        }
    }
    tally.judge("killed programs", &failures)
}

impl Suite<'_> {
    #[expect(
        clippy::unnecessary_wraps,
        reason = "what a thread of the suite returns"
    )]
    fn work(&self, host: &mut Host) -> Result<()> {
        for (kill, progress) in KILLS.iter().zip(&self.progress) {
            if kill.back.is_some() && progress.is_taken.swap(true, Ordering::Relaxed) {
                continue;
            }
            let mut is_there = false;
            loop {
                let Some(point) = progress.schedule().take() else {
                    break;
                };
                if let Err(error) = self.kill(kill, progress, point, is_there, host) {
                    let failures = progress.failures.fetch_add(1, Ordering::Relaxed) + 1;
                    if failures == FAILURES_MAX {
                        progress.schedule().give_up();
                    }
                    self.failed(kill, point, &error);
                }
                is_there = kill
                    .back
                    .is_some_and(|back| self.is_back(kill, back, progress, host));
            }
        }
        Ok(())
    }

    /// Kills the program at one of a scenario's points, if the run reaches it.
    fn kill(
        &self,
        kill: &Kill,
        progress: &Progress,
        point: usize,
        is_there: bool,
        host: &mut Host,
    ) -> Result<()> {
        let scenario = &kill.scenario;
        let verb = if is_there {
            scenario.begin_there(self.env, host)?
        } else {
            scenario.begin(self.env, self.fixtures, host)?
        };
        let mut at = String::from("its end");
        let (ended, seen) = kill_at(point, &verb, host, &mut at)?;
        if ended.is_killed {
            progress.schedule().killed(seen);
        } else {
            progress.schedule().ended(point, seen);
        }
        {
            let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.saw(scenario.name, seen);
            if let (true, Some(call)) = (ended.is_killed, ended.done.first()) {
                tally.count(scenario.name, call.name);
            }
        }
        self.follow(kill, &verb, &ended, host)
            .with_context(|| format!("killed at {at}"))
    }

    fn follow(&self, kill: &Kill, verb: &[String], ended: &Ended, host: &mut Host) -> Result<()> {
        let plan = verb.last().map(String::as_str).unwrap_or_default();
        if ended.is_killed {
            self.check(kill, host).context("right after")?;
            for next in kill.next {
                self.go_on(*next, plan, host)?;
            }
        } else if let [Next::Reboots(_)] = kill.next {
            // It is going down, or up again already.
            settle(host)?;
        } else if let [.., Next::Reboot] = kill.next {
            self.go_on(Next::Reboot, plan, host)?;
        }
        let stays_open = matches!(kill.ends, [End::SwitchedSmall | End::PivotedSmall]);
        if !ended.is_killed && !stays_open && Kept::of(host)?.is_open {
            // A scenario that ran to its end, from which it is reverted.
            for next in kill.next {
                self.go_on(*next, plan, host)?;
            }
        }
        let kept = Kept::of(host)?;
        ensure!(
            !kept.is_open || stays_open,
            "an attempt is still open: {kept:?}"
        );
        let state = State::of(host)?;
        let doubts = kill
            .ends
            .iter()
            .map(|end| state.doubts(end.of(self.fixtures)));
        let closest = doubts.min_by_key(Vec::len).unwrap_or_default();
        ensure!(closest.is_empty(), "in the end {}", closest.join("; "));
        let strays = strays(host)?;
        ensure!(strays.is_empty(), "nothing names {}", strays.join(", "));
        Ok(())
    }

    /// What a host is between the kill and what comes next.
    fn check(&self, kill: &Kill, host: &Host) -> Result<()> {
        if kill.between == Between::Own {
            return Ok(());
        }
        let state = State::of(host)?;
        let kept = Kept::of(host)?;
        if kill.between == Between::Open && kept.is_open {
            return Ok(());
        }
        let all = self.fixtures.all();
        let doubts = all.iter().map(|known| state.first.doubts(&known.first));
        let closest = doubts.min_by_key(Vec::len).unwrap_or_default();
        ensure!(
            closest.is_empty(),
            "what boots is not whole: {}",
            closest.join("; ")
        );
        if kill.between == Between::Untouched {
            let (fixture, _) = kill.scenario.start.of(self.fixtures);
            let doubts = files::differences("/var", &state.shared, &fixture.state.shared);
            ensure!(doubts.is_empty(), "{}", doubts.join("; "));
        }
        Ok(())
    }

    fn go_on(&self, next: Next, plan: &str, host: &mut Host) -> Result<()> {
        let run = |verb: &[&str], plan: &str, code| {
            let words = words(verb, plan, self.env);
            expect(
                host,
                &words.iter().map(String::as_str).collect::<Vec<_>>(),
                code,
            )
        };
        match next {
            Next::Run(verb, code) => run(verb, plan, code),
            Next::RunPlan(change, verb, code) => run(verb, &self.env.put(host, change)?, code),
            Next::Reboot => {
                // It may be going down already.
                let seen = host.boots().len();
                let asked = host.reboot();
                ensure!(
                    host.boots().len() > seen,
                    "the host did not reboot: {asked:?}"
                );
                settle(host)
            }
            Next::Reboots(verb) => {
                let seen = host.boots().len();
                let words = words(verb, plan, self.env);
                let ended = host.exec(words.iter().map(String::as_str));
                host.wait_booted_after(seen, lab::host::BOOTED_WITHIN)?;
                // The reboot ends it by a signal, or the host is down before it is run. Otherwise
                // it ends only as failed.
                if let Ok(output) = &ended {
                    let is_killed = output.code.is_none_or(|code| code > SIGNALLED);
                    ensure!(
                        is_killed || output.code == Some(1),
                        "it rolled back with another exit code: {output:?}"
                    );
                }
                settle(host)
            }
        }
    }

    /// Takes a host back to the start of a scenario; false if that is not where it is then, which
    /// is noted.
    fn is_back(&self, kill: &Kill, back: &[Next], progress: &Progress, host: &mut Host) -> bool {
        match self.bring_back(kill, back, host) {
            Ok(()) => {
                progress.back.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(why) => {
                progress.not_back().push(format!("{why:#}"));
                false
            }
        }
    }

    fn bring_back(&self, kill: &Kill, back: &[Next], host: &mut Host) -> Result<()> {
        for next in back {
            self.go_on(*next, "", host)?;
        }
        let (fixture, _) = kill.scenario.start.of(self.fixtures);
        let doubts = State::of(host)?.doubts(&fixture.state);
        ensure!(doubts.is_empty(), "{}", doubts.join("; "));
        Ok(())
    }

    fn failed(&self, kill: &Kill, point: usize, error: &anyhow::Error) {
        let text = format!("  {}, point {point}: {error:#}", kill.scenario.name);
        eprintln!("{text}");
        self.failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(text);
    }
}

/// Kills a verb at the point of that number; how it ended, and how many points it had until then.
fn kill_at(number: usize, verb: &[String], host: &Host, at: &mut String) -> Result<(Ended, usize)> {
    let verb: Vec<&str> = verb.iter().map(String::as_str).collect();
    let mut seen = 0;
    let ended = tracer::run(host, &verb, &mut |point| {
        seen += 1;
        if seen <= number {
            return Ok(Order::GoOn);
        }
        *at = point.to_string();
        Ok(Order::Kill)
    })?;
    Ok((ended, seen))
}
