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

use self::cuts::{Between, CUTS, Cut, Next, returns};
use self::turns::Turns;
use super::points::Tally;
use super::site::{Site, expect, settle};
use super::stage::Stages;
use super::state::{Kept, State, strays};
use super::tracer::{self, Ended, Order};
use super::way::{End, words};

/// After so many failures a way is given up: they have one cause.
const FAILURES_MAX: usize = 5;

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
}

impl Progress {
    const fn new(stride: usize) -> Self {
        Self {
            is_taken: AtomicBool::new(false),
            turns: Mutex::new(Turns::new(stride)),
            failures: AtomicUsize::new(0),
        }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills the program at each `stride`th point of every way; says how many, and what was found.
pub(crate) fn run(
    site: &Site,
    stages: &Stages,
    stride: usize,
    hosts: &mut [Host],
) -> Result<String> {
    let suite = Suite {
        site,
        stages,
        progress: CUTS.iter().map(|_| Progress::new(stride)).collect(),
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
    let failures = suite.failures.into_inner().unwrap_or_default();
    let tally = suite.tally.into_inner().unwrap_or_default();
    tally.judge("killed programs", &failures)
}

impl Suite<'_> {
    #[expect(
        clippy::unnecessary_wraps,
        reason = "what a thread of the suite returns"
    )]
    fn work(&self, host: &mut Host) -> Result<()> {
        for (cut, progress) in CUTS.iter().zip(&self.progress) {
            if returns(cut) && progress.is_taken.swap(true, Ordering::Relaxed) {
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
                is_there = returns(cut) && self.is_back(cut, host);
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
            let doubts = super::tree::differences("/var", &state.shared, &stage.state.shared);
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
                drop(host.reboot());
                ensure!(host.boots().len() > seen, "the host did not reboot");
                settle(host)
            }
            Next::Reboots(verb) => {
                let seen = host.boots().len();
                // The reboot ends it, or has begun before it does.
                drop(run(verb, plan, 1));
                host.wait_booted_after(seen, lab::host::BOOTED_WITHIN)?;
                settle(host)
            }
        }
    }

    /// Takes a host back to the start of a way; false if that is not where it is then.
    fn is_back(&self, cut: &Cut, host: &mut Host) -> bool {
        let back = cut
            .back
            .iter()
            .try_for_each(|next| self.go_on(*next, "", host));
        let (stage, _) = cut.way.start.of(self.stages);
        let is_there = || Ok::<_, anyhow::Error>(State::of(host)?.doubts(&stage.state).is_empty());
        back.is_ok() && is_there().unwrap_or(false)
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
