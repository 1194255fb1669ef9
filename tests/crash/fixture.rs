//! Fixtures: a host's disks at each place in an undisturbed update where a scenario begins, and
//! what the host is there.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::ScopedJoinHandle;

use anyhow::{Context as _, Result, ensure};
use lab::host::{Host, Snapshot};
use node_update::plan::{Bundle, Digest, Expectation, FileState, Mode, Owners};
use testbed::single_host::{MCD_BROUGHT, MCD_OS, MCD_OS_BROUGHT, expect, put_plan};

use super::HOSTS;
use super::configs;
use super::env::{Env, boot, reboot_held, settle};
use super::state::{Kept, State};
use super::tracer::{self, Order};

/// What a plan leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The new configuration and OS.
    Update,
    /// The same with the small OS.
    Small,
    /// The same as [`Self::Update`], but that something is expected that never holds.
    Failing,
    /// A configuration without a reboot.
    Live,
}

/// A host's disks, and what it is with them.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) disks: Snapshot,
    pub(crate) state: State,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Fixtures {
    /// Nothing of the program is on the host.
    pub(crate) pristine: Fixture,
    /// What it is with the guard installed.
    pub(crate) installed: State,
    /// In the old configuration, with no image fetched.
    pub(crate) unfetched: Fixture,
    /// With images fetched.
    pub(crate) old: Fixture,
    /// The boot loader names the target.
    pub(crate) switched: Fixture,
    /// The same with the small OS.
    pub(crate) switched_small: State,
    /// It names the small OS in the old configuration: the host was pivoted.
    pub(crate) pivoted_small: State,
    /// The new OS is proved, in the old configuration.
    pub(crate) pivoted: State,
    /// The target is booted, and the guard has done its part.
    pub(crate) guarded: Fixture,
    /// The target is proved.
    pub(crate) new: State,
    /// As [`Self::guarded`], of a target that cannot be proved.
    pub(crate) failing: Fixture,
    /// That one is given up, and the boot loader names the origin again.
    pub(crate) given_up: Fixture,
    /// In the configuration that needs no reboot.
    pub(crate) live: State,
}

/// The states from which all other fixtures are made.
struct Beginning {
    pristine: Fixture,
    installed: State,
    unfetched: Fixture,
    old: Fixture,
}

impl Beginning {
    /// Takes a new host to its old configuration, and has it fetch images.
    fn prepare(env: &Env, host: &mut Host) -> Result<Self> {
        boot(host, false)?;
        let pristine = Fixture::of(host)?;
        expect(host, &[MCD_OS_BROUGHT, "guard", "--install"], 0)?;
        let installed = State::of(host)?;
        let first = configs::plan("first", &configs::none()?, &configs::old()?)?;
        expect(host, &[MCD_OS, "apply", &put_plan(host, &first)?], 0)?;
        // What a boot itself writes is written then.
        host.reboot()?;
        let unfetched = Fixture::of(host)?;
        // An image that no plan needs is let go of by the next fetch.
        for change in [Change::Small, Change::Update] {
            env.put(host, change)?;
        }
        for image in [&env.small_os, &env.new_os] {
            expect(host, &[MCD_OS, "fetch", image], 0)?;
        }
        Ok(Self {
            pristine,
            installed,
            unfetched,
            old: Fixture::of(host)?,
        })
    }
}

impl Fixtures {
    /// Makes all fixtures: the common ones on one host, then the others side by side on all hosts.
    pub(crate) fn prepare(env: &Env, hosts: &mut [Host; HOSTS]) -> Result<Self> {
        let [first, second, third, fourth] = hosts;
        let Beginning {
            pristine,
            installed,
            unfetched,
            old,
        } = Beginning::prepare(env, first)?;
        let (small, pivoted, updated, failed) = std::thread::scope(|scope| {
            let small = scope.spawn(|| small(env, &old, first));
            let pivoted = scope.spawn(|| pivoted(env, &old, second));
            let updated = scope.spawn(|| updated(env, &old, third));
            let failed = scope.spawn(|| failed(env, &old, fourth));
            anyhow::Ok((
                joined(small)?,
                joined(pivoted)?,
                joined(updated)?,
                joined(failed)?,
            ))
        })?;
        let (live, switched_small, pivoted_small) = small;
        let (switched, guarded, new) = updated;
        let (failing, given_up) = failed;
        Ok(Self {
            pristine,
            installed,
            unfetched,
            old,
            switched,
            switched_small,
            pivoted_small,
            pivoted,
            guarded,
            new,
            failing,
            given_up,
            live,
        })
    }
}

/// What a thread of a scope came to.
fn joined<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    let joined = thread.join();
    joined.map_err(|_| anyhow::anyhow!("a host's thread panicked"))?
}

/// Has a host switch for a change.
fn switch(env: &Env, old: &Fixture, host: &mut Host, change: Change) -> Result<Fixture> {
    old.begin(host, false)?;
    expect(host, &[MCD_OS, "apply", &env.put(host, change)?], 4)?;
    Fixture::of(host)
}

/// The host that is in the old configuration already: a live update, then the small OS, by either
/// program.
fn small(env: &Env, old: &Fixture, host: &mut Host) -> Result<(State, State, State)> {
    expect(host, &[MCD_OS, "apply", &env.put(host, Change::Live)?], 0)?;
    let live = State::of(host)?;
    let switched = switch(env, old, host, Change::Small)?.state;
    old.begin(host, false)?;
    expect(host, &[MCD_BROUGHT, "pivot", &env.small_os], 4)?;
    Ok((live, switched, State::of(host)?))
}

fn pivoted(env: &Env, old: &Fixture, host: &mut Host) -> Result<State> {
    old.begin(host, false)?;
    expect(host, &[MCD_BROUGHT, "pivot", &env.new_os], 4)?;
    host.reboot()?;
    settle(host)?;
    State::of(host)
}

/// Switched, guarded, new.
fn updated(env: &Env, old: &Fixture, host: &mut Host) -> Result<(Fixture, Fixture, State)> {
    let switched = switch(env, old, host, Change::Update)?;
    reboot_held(host)?;
    expect(host, &[MCD_OS, "guard"], 0)?;
    let guarded = Fixture::of(host)?;
    expect(host, &[MCD_OS, "guard", "--verify"], 0)?;
    Ok((switched, guarded, State::of(host)?))
}

/// Failing, given up.
fn failed(env: &Env, old: &Fixture, host: &mut Host) -> Result<(Fixture, Fixture)> {
    switch(env, old, host, Change::Failing)?;
    reboot_held(host)?;
    expect(host, &[MCD_OS, "guard"], 0)?;
    let failing = Fixture::of(host)?;
    Ok((failing, give_up(host)?))
}

impl Fixtures {
    /// Every state in which a host may stand still.
    pub(crate) fn all(&self) -> Vec<&State> {
        let fixtures = [
            &self.pristine,
            &self.unfetched,
            &self.old,
            &self.switched,
            &self.guarded,
            &self.failing,
            &self.given_up,
        ];
        let states = [
            &self.installed,
            &self.switched_small,
            &self.pivoted_small,
            &self.pivoted,
            &self.new,
            &self.live,
        ];
        fixtures
            .map(|fixture| &fixture.state)
            .into_iter()
            .chain(states)
            .collect()
    }
}

/// Has a host give its target up, and stops it where only the reboot is missing.
fn give_up(host: &Host) -> Result<Fixture> {
    let mut last = None;
    tracer::run(
        host,
        &[MCD_OS, "guard", "--verify", "--deadline", "0"],
        &mut |point| {
            if point.next.name == "sendmsg" {
                last = Some(Fixture::of(host)?);
            }
            Ok(Order::GoOn)
        },
    )?;
    settle(host)?;
    let fixture = last.context("no reboot was asked for")?;
    let origin = Kept::of(host)?;
    ensure!(
        origin.held.is_some(),
        "the target that failed is not held: {origin:?}"
    );
    Ok(fixture)
}

impl Fixture {
    /// What a host is now.
    pub(crate) fn of(host: &Host) -> Result<Self> {
        Ok(Self {
            disks: host.snapshot()?,
            state: State::of(host)?,
        })
    }

    /// Has a host be this, booted.
    pub(crate) fn begin(&self, host: &mut Host, held: bool) -> Result<()> {
        host.kill()?;
        host.restore(&self.disks)?;
        boot(host, held)
    }
}

/// Numbers attempts: the end of one is not the end of another.
static ATTEMPTS: AtomicU32 = AtomicU32::new(0);

impl Env {
    /// Stores a plan on a host; its directory.
    pub(crate) fn put(&self, host: &Host, change: Change) -> Result<String> {
        put_plan(host, &self.plan(change)?)
    }

    fn plan(&self, change: Change) -> Result<Bundle> {
        let attempt = format!("crash-{}", ATTEMPTS.fetch_add(1, Ordering::Relaxed));
        let old = configs::old()?;
        let mut bundle = match change {
            Change::Update | Change::Failing => {
                configs::plan(&attempt, &old, &configs::rebooted(&self.new_os)?)?
            }
            Change::Small => configs::plan(&attempt, &old, &configs::rebooted(&self.small_os)?)?,
            Change::Live => configs::plan(&attempt, &old, &configs::live()?)?,
        };
        if change == Change::Failing {
            bundle.plan.expect.push(Expectation::File {
                path: "/etc/crash/never".to_owned(),
                file: FileState {
                    digest: Digest::of(b""),
                    mode: Mode(0o644),
                    owner: Owners::ROOT,
                },
            });
        }
        Ok(bundle)
    }
}
