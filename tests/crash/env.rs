//! Hosts with the program under test, and what is done to them without killing anything.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lab::host::{BOOTED_WITHIN, DiskCache, Host};
use lab::tree::Commit;
use testbed::single_host::{guard_log, proved_within};
use testbed::{DONE_WITHIN, HostLab, Programs, until_blocking};

use super::{HOSTS, configs, small_os};

/// How long a host may take from a boot to where nothing is under way any more.
const SETTLED_WITHIN: Duration = DONE_WITHIN;

/// Time between two polls.
const PAUSE: Duration = Duration::from_millis(20);

/// A lab with everything that hosts are made from.
#[derive(Debug)]
pub(crate) struct Env {
    /// Pull spec of the target's OS.
    pub(crate) new_os: String,
    /// Pull spec of the OS that only can be deployed.
    pub(crate) small_os: String,
    old_os: Commit,
    programs: Programs,
    hosts: AtomicU32,
    disk_cache: DiskCache,
    host_lab: HostLab,
}

impl Env {
    pub(crate) fn new() -> Result<Self> {
        let host_lab = HostLab::new()?;
        let (tree, dir) = (&host_lab.tree, host_lab.lab.dir());
        Ok(Self {
            new_os: host_lab.push(&tree.commit(&configs::new_os())?)?,
            small_os: host_lab.push(&small_os::commit(tree, &dir.join("small"))?)?,
            old_os: tree.commit(&configs::old_os())?,
            programs: Programs::built()?,
            hosts: AtomicU32::new(0),
            disk_cache: DiskCache::create(&host_lab.lab)?,
            host_lab,
        })
    }

    /// New hosts of the old OS, which are off.
    pub(crate) fn hosts(&self) -> Result<[Host; HOSTS]> {
        let hosts: Vec<_> = (0..HOSTS).map(|_| self.host()).collect::<Result<_>>()?;
        let array = hosts.try_into();
        array.map_err(|_| anyhow::anyhow!("not as many hosts as there are scenarios"))
    }

    fn host(&self) -> Result<Host> {
        let name = format!("crash-{}", self.hosts.fetch_add(1, Ordering::Relaxed));
        let spec = self.host_lab.host(&self.programs, &name, &self.old_os)?;
        let spec = proved_within(spec.on(&self.disk_cache), 1);
        Host::create(&self.host_lab.lab, spec)
    }
}

/// Starts a host that is off. With `held` the guard finds nothing to do at this boot, as if there
/// were no journal.
pub(crate) fn boot(host: &mut Host, held: bool) -> Result<()> {
    let journal = host.var().join("lib/slipway/journal.json");
    let aside = journal.with_extension("aside");
    if held {
        fs::rename(&journal, &aside).context("there is no journal to hold back")?;
    }
    host.start()?;
    host.wait_booted(BOOTED_WITHIN)?;
    if held {
        fs::rename(&aside, &journal)?;
    }
    Ok(())
}

/// Reboots a host that is up, with the guard held back.
pub(crate) fn reboot_held(host: &mut Host) -> Result<()> {
    host.stop()?;
    boot(host, true)
}

/// Waits until a host is up, nothing is under way, and the guard is done.
pub(crate) fn settle(host: &Host) -> Result<()> {
    let journal = host.var().join("lib/slipway/journal.json");
    let settled = until_blocking("the host to settle", SETTLED_WITHIN, PAUSE, || {
        let boot = host.boots().pop();
        let is_up = boot.is_some_and(|boot| boot.ready.is_some() && boot.ended.is_none());
        if is_up && !journal.exists() && !guard_runs(host) {
            return Ok(Ok(()));
        }
        ensure!(host.is_on(), "the host went down");
        Ok(Err(format!("up: {is_up}")))
    });
    settled.with_context(|| format!("its guard says:\n{}", guard_log(host)))
}

/// Whether one of the guard's units is active. A host going down cannot be asked.
fn guard_runs(host: &Host) -> bool {
    let words = [
        "systemctl",
        "is-active",
        "slipway-guard.service",
        "slipway-verify.service",
    ];
    let Ok(output) = host.exec(words) else {
        return true;
    };
    let mut states = output.stdout.lines();
    output.stdout.is_empty() || states.any(|state| !matches!(state, "inactive" | "failed"))
}
