//! The program is killed, and its host goes on.
//!
//! After each kill a reboot has to find either the old or the new state, whole. Then comes what would
//! come next on a node, and has to end well.
//!
//! - `cuts`: where it is killed, and what comes next
//! - `turns`: which point the next run is for

mod cuts;
mod turns;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, ensure};
use lab::host::Host;
use testbed::files;
use testbed::single_host::expect;

use self::cuts::{Between, CUTS, Cut, Next};
use self::turns::Turns;
use super::points::Tally;
use super::site::{Site, settle};
use super::stage::Stages;
use super::state::{Kept, State, strays};
use super::tracer::{self, Ended, Order};
use super::way::{End, words};

/// After so many failures a way is given up: they have one cause.
const FAILURES_MAX: usize = 5;

/// So often a host may not be back at the start of a way by the program's own means. More would hide behind the disks
/// that are put back then.
const NOT_BACK_MAX: usize = 3;

/// Exit codes above this one are of programs that a signal ended.
const SIGNALLED: i32 = 128;

/// What the workers share.
struct Suite<'a> {
    site: &'a Site,
    stages: &'a Stages,
    /// By cut.
    progress: Vec<Progress>,
    tally: Mutex<Tally>,
    failures: Mutex<Vec<String>>,
}

struct Progress {
    /// Whether somebody has it, of those that one host goes alone.
    is_taken: AtomicBool,
    turns: Mutex<Turns>,
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
            turns: Mutex::new(Turns::new(stride, sample)),
            failures: AtomicUsize::new(0),
            back: AtomicUsize::new(0),
            not_back: Mutex::new(Vec::new()),
        }
    }

    /// What a person should know of a way beside its points; a line each.
    fn notes(&self, name: &str) -> Vec<String> {
        let mut notes = Vec::new();
        let (again, left) = self.turns().gone();
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

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills the program at each `stride`th point of every way, from where `sample` says; says how many, and what was
/// found.
pub(crate) fn run(
    site: &Site,
    stages: &Stages,
    (stride, sample): (usize, usize),
    hosts: &mut [Host],
) -> Result<String> {
    let suite = Suite {
        site,
        stages,
        progress: CUTS
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
    for (cut, progress) in CUTS.iter().zip(&suite.progress) {
        for note in progress.notes(cut.way.name) {
            eprintln!("{note}");
        }
        let not_back = progress.not_back().len();
        if not_back > NOT_BACK_MAX {
            let name = cut.way.name;
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
        for (cut, progress) in CUTS.iter().zip(&self.progress) {
            if cut.back.is_some() && progress.is_taken.swap(true, Ordering::Relaxed) {
                continue;
            }
            let mut is_there = false;
            loop {
                let Some(point) = progress.turns().take() else {
                    break;
                };
                if let Err(error) = self.cut(cut, progress, point, is_there, host) {
                    let failures = progress.failures.fetch_add(1, Ordering::Relaxed) + 1;
                    if failures == FAILURES_MAX {
                        progress.turns().give_up();
                    }
                    self.failed(cut, point, &error);
                }
                is_there = cut
                    .back
                    .is_some_and(|back| self.is_back(cut, back, progress, host));
            }
        }
        Ok(())
    }

    /// Cuts a way at one of its points, if it comes to it.
    fn cut(
        &self,
        cut: &Cut,
        progress: &Progress,
        point: usize,
        is_there: bool,
        host: &mut Host,
    ) -> Result<()> {
        let way = &cut.way;
        let verb = if is_there {
            way.begin_there(self.site, host)?
        } else {
            way.begin(self.site, self.stages, host)?
        };
        let mut at = String::from("its end");
        let (ended, seen) = kill_at(point, &verb, host, &mut at)?;
        if ended.is_killed {
            progress.turns().cut(seen);
        } else {
            progress.turns().uncut(point, seen);
        }
        {
            let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.saw(way.name, seen);
            if let (true, Some(call)) = (ended.is_killed, ended.done.first()) {
                tally.count(way.name, call.name);
            }
        }
        self.follow(cut, &verb, &ended, host)
            .with_context(|| format!("killed at {at}"))
    }

    fn follow(&self, cut: &Cut, verb: &[String], ended: &Ended, host: &mut Host) -> Result<()> {
        let plan = verb.last().map(String::as_str).unwrap_or_default();
        if ended.is_killed {
            self.look(cut, host).context("right after")?;
            for next in cut.next {
                self.go_on(*next, plan, host)?;
            }
        } else if let [Next::Reboots(_)] = cut.next {
            // It is on its way, or back already.
            settle(host)?;
        } else if let [.., Next::Reboot] = cut.next {
            self.go_on(Next::Reboot, plan, host)?;
        }
        let stays_open = matches!(cut.ends, [End::SwitchedSmall | End::PivotedSmall]);
        if !ended.is_killed && !stays_open && Kept::of(host)?.is_open {
            // A way that nobody cut, to be taken back from its end.
            for next in cut.next {
                self.go_on(*next, plan, host)?;
            }
        }
        let kept = Kept::of(host)?;
        ensure!(
            !kept.is_open || stays_open,
            "an attempt is still open: {kept:?}"
        );
        let state = State::of(host)?;
        let doubts = cut.ends.iter().map(|end| state.doubts(end.of(self.stages)));
        let closest = doubts.min_by_key(Vec::len).unwrap_or_default();
        ensure!(closest.is_empty(), "in the end {}", closest.join("; "));
        let strays = strays(host)?;
        ensure!(strays.is_empty(), "nothing names {}", strays.join(", "));
        Ok(())
    }

    /// What a host is between the kill and what comes next.
    fn look(&self, cut: &Cut, host: &Host) -> Result<()> {
        if cut.between == Between::Own {
            return Ok(());
        }
        let state = State::of(host)?;
        let kept = Kept::of(host)?;
        if cut.between == Between::Open && kept.is_open {
            return Ok(());
        }
        let all = self.stages.all();
        let doubts = all.iter().map(|known| state.first.doubts(&known.first));
        let closest = doubts.min_by_key(Vec::len).unwrap_or_default();
        ensure!(
            closest.is_empty(),
            "what boots is not whole: {}",
            closest.join("; ")
        );
        if cut.between == Between::Untouched {
            let (stage, _) = cut.way.start.of(self.stages);
            let doubts = files::differences("/var", &state.shared, &stage.state.shared);
            ensure!(doubts.is_empty(), "{}", doubts.join("; "));
        }
        Ok(())
    }

    fn go_on(&self, next: Next, plan: &str, host: &mut Host) -> Result<()> {
        let run = |verb: &[&str], plan: &str, code| {
            let words = words(verb, plan, self.site);
            expect(
                host,
                &words.iter().map(String::as_str).collect::<Vec<_>>(),
                code,
            )
        };
        match next {
            Next::Run(verb, code) => run(verb, plan, code),
            Next::RunPlan(change, verb, code) => run(verb, &self.site.put(host, change)?, code),
            Next::Reboot => {
                // It may be on its way down already.
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
                let words = words(verb, plan, self.site);
                let ended = host.exec(words.iter().map(String::as_str));
                host.wait_booted_after(seen, lab::host::BOOTED_WITHIN)?;
                // The reboot ends it by a signal, or the host is down before it is run. By itself it ends only as failed.
                if let Ok(output) = &ended {
                    let is_killed = output.code.is_none_or(|code| code > SIGNALLED);
                    ensure!(
                        is_killed || output.code == Some(1),
                        "it went back with another word: {output:?}"
                    );
                }
                settle(host)
            }
        }
    }

    /// Takes a host back to the start of a way; false if that is not where it is then, which is noted.
    fn is_back(&self, cut: &Cut, back: &[Next], progress: &Progress, host: &mut Host) -> bool {
        match self.bring_back(cut, back, host) {
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

    fn bring_back(&self, cut: &Cut, back: &[Next], host: &mut Host) -> Result<()> {
        for next in back {
            self.go_on(*next, "", host)?;
        }
        let (stage, _) = cut.way.start.of(self.stages);
        let doubts = State::of(host)?.doubts(&stage.state);
        ensure!(doubts.is_empty(), "{}", doubts.join("; "));
        Ok(())
    }

    fn failed(&self, cut: &Cut, point: usize, error: &anyhow::Error) {
        let text = format!("  {}, point {point}: {error:#}", cut.way.name);
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
