//! The host is killed, and boots.
//!
//! A killed host leaves what its file systems hold at that moment, and nothing else. So each
//! scenario runs once and stops at every point for a copy of the disks; each copy is then booted on
//! another host, as after the kill, and has to come to rest in one of the permitted states.
//!
//! Where an OS is deployed, a scenario runs twice: with a whole one, which the host may boot; and
//! with the small one, whose bulk is small enough to try each of its points.

mod deaths;

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::{Context as _, Result, ensure};
use lab::host::{Host, Snapshot};
use testbed::single_host::expect;

use self::deaths::{DEATHS, Death};
use super::env::{Env, boot, settle};
use super::fixture::Fixtures;
use super::points::{Choice, Chooser, Tally};
use super::scenario::{End, words};
use super::state::{Kept, State, strays};
use super::tracer::{self, Order};

/// A host at the moment of its death.
struct Dead {
    death: Death,
    /// After which call.
    call: &'static str,
    at: String,
    disks: Snapshot,
}

/// What the workers share.
struct Suite<'a> {
    env: &'a Env,
    fixtures: &'a Fixtures,
    /// Chooses of libostree's bulk.
    sample: usize,
    tally: Mutex<Tally>,
    failures: Mutex<Vec<String>>,
}

/// Kills a host at every point of every scenario; says how many, and what was found.
///
/// The first host runs the scenarios; it and the others boot the copies.
pub(crate) fn run(
    env: &Env,
    fixtures: &Fixtures,
    sample: usize,
    hosts: &mut [Host],
) -> Result<String> {
    let suite = Suite {
        env,
        fixtures,
        sample,
        tally: Mutex::default(),
        failures: Mutex::default(),
    };
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    let (first, others) = hosts.split_first_mut().context("no host")?;
    std::thread::scope(|scope| {
        let mut workers: Vec<_> = others
            .iter_mut()
            .map(|host| scope.spawn(|| suite.resurrect_all(&receiver, host)))
            .collect();
        workers.push(scope.spawn(|| {
            for death in DEATHS {
                suite
                    .go(*death, first, &sender)
                    .context(death.scenario.name)?;
            }
            drop(sender);
            suite.resurrect_all(&receiver, first)
        }));
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .map_err(|_| anyhow::anyhow!("a worker panicked"))?
        })
    })?;
    let failures = suite.failures.into_inner().unwrap_or_default();
    let tally = suite.tally.into_inner().unwrap_or_default();
    tally.judge("killed hosts", &failures)
}

impl Suite<'_> {
    /// Runs a scenario to its end, with a copy of the disks at each point.
    fn go(&self, death: Death, host: &mut Host, dead: &Sender<Dead>) -> Result<()> {
        let verb = death.scenario.begin(self.env, self.fixtures, host)?;
        let verb: Vec<&str> = verb.iter().map(String::as_str).collect();
        let mut chooser = Chooser::new(death.tried, self.sample);
        let send = |call: &'static str, at: String| -> Result<()> {
            let disks = host.snapshot()?;
            Ok(dead.send(Dead {
                death,
                call,
                at,
                disks,
            })?)
        };
        let ended = tracer::run(host, &verb, &mut |point| {
            if chooser.chooses(host, point)? {
                let call = point.done.first().map_or("nothing", |call| call.name);
                send(call, point.to_string())?;
            }
            Ok(Order::GoOn)
        })?;
        // The end is no point of the bulk; with the small OS, it could not be booted.
        if let Some(call) = ended.done.last()
            && death.tried != Choice::Bulk
        {
            send(call.name, format!("its end, after {call}"))?;
        }
        self.tally
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .saw(death.scenario.name, chooser.seen);
        Ok(())
    }

    fn resurrect_all(&self, dead: &Mutex<Receiver<Dead>>, host: &mut Host) -> Result<()> {
        loop {
            let next = dead
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .recv();
            // No sender is left.
            let Ok(dead) = next else { return Ok(()) };
            if let Err(error) = self.resurrect(&dead, host) {
                let text = format!(
                    "  {}, killed at {}: {error:#}",
                    dead.death.scenario.name, dead.at
                );
                eprintln!("{text}");
                self.failures
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .push(text);
            }
            let mut tally = self
                .tally
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            tally.count(dead.death.scenario.name, dead.call);
        }
    }

    fn resurrect(&self, dead: &Dead, host: &mut Host) -> Result<()> {
        host.kill()?;
        host.restore(&dead.disks)?;
        let before = Kept::of(host)?;
        boot(host, false)?;
        settle(host)?;
        if !dead.death.again.is_empty() {
            let words = words(dead.death.again, "", self.env);
            expect(
                host,
                &words.iter().map(String::as_str).collect::<Vec<_>>(),
                0,
            )?;
        }
        let state = State::of(host)?;
        let doubts = dead
            .death
            .ends
            .iter()
            .map(|end| (end, state.doubts(end.of(self.fixtures))));
        let closest = doubts.min_by_key(|(_, doubts)| doubts.len());
        let (end, doubts) = closest.context("it may be nothing")?;
        ensure!(doubts.is_empty(), "{}", doubts.join("; "));
        let kept = Kept::of(host)?;
        check_outcome(*end, &before, &kept)?;
        let strays = strays(host)?;
        ensure!(
            strays.is_empty() || dead.death.leaves_strays,
            "nothing names {}",
            strays.join(", ")
        );
        Self::runs(host)
    }

    /// By the host's own tools: it runs what it should, and nothing failed.
    fn runs(host: &Host) -> Result<()> {
        let status = host.run(["ostree", "admin", "status"])?;
        ensure!(
            status.starts_with("* "),
            "it has not booted the first deployment: {status}"
        );
        let failed = host.run([
            "systemctl",
            "list-units",
            "--failed",
            "--plain",
            "--no-legend",
        ])?;
        ensure!(failed.is_empty(), "units failed: {failed}");
        expect(
            host,
            &["systemctl", "is-active", "--quiet", "kubelet.service"],
            0,
        )
    }
}

/// The journal is closed, and what it ended with is what the host is.
fn check_outcome(end: End, before: &Kept, kept: &Kept) -> Result<()> {
    ensure!(!kept.is_open, "an attempt is still open: {kept:?}");
    let (attempt, outcome) = kept.last.clone().unwrap_or_default();
    ensure!(
        !kept.plans.contains(&attempt),
        "the plan of {attempt} is still there"
    );
    let was_closed = !before.is_open;
    let is_right = match (end, outcome.as_str()) {
        _ if was_closed => kept.last == before.last,
        (End::New | End::Pivoted | End::Live, "proved") => kept.held.is_none(),
        (End::Old, "rolled-back") => kept.held.is_some(),
        (End::Old, "undone") => true,
        _ => false,
    };
    ensure!(is_right, "it is {end:?} and says {kept:?}");
    Ok(())
}
