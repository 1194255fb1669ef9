//! Hosts with the program under test, and what is done to them without killing anything.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use host::files::Root;
use host::journal::Store;
use lab::Lab;
use lab::host::{BOOTED_WITHIN, Host, HostSpec, Shelf};
use lab::image::Image;
use lab::registry::Registry;
use lab::tree::{Commit, Tree};
use node_update::plan::Bundle;
use testbed::bare;
use testbed::cluster::DONE_WITHIN;

use super::{HOSTS, configs, small_os};

/// How long a host may take from a boot to where nothing is under way any more.
const SETTLED_WITHIN: Duration = DONE_WITHIN;

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// A lab with everything that hosts are made from.
#[derive(Debug)]
pub(crate) struct Site {
    /// Pull spec of the target's OS.
    pub(crate) new_os: String,
    /// Pull spec of the OS that only can be deployed.
    pub(crate) small_os: String,
    old_os: Commit,
    programs: PathBuf,
    hosts: AtomicU32,
    shelf: Shelf,
    registry: Registry,
    lab: Lab,
}

impl Site {
    pub(crate) fn new() -> Result<Self> {
        let tree = Tree::ready()?;
        let lab = Lab::create()?;
        let registry = Registry::start(&lab)?;
        let push = |commit: &Commit, name: &str| registry.push(&Image::native(commit)?, name);
        Ok(Self {
            new_os: push(&tree.commit(&configs::new_os())?, "os:new")?,
            small_os: push(
                &small_os::commit(&tree, &lab.dir().join("small"))?,
                "os:small",
            )?,
            old_os: tree.commit(&configs::old_os())?,
            programs: bare::programs(&lab.dir().join("bin"))?,
            hosts: AtomicU32::new(0),
            shelf: Shelf::create(&lab)?,
            registry,
            lab,
        })
    }

    /// New hosts of the old OS, which are off.
    pub(crate) fn hosts(&self) -> Result<[Host; HOSTS]> {
        let hosts: Vec<_> = (0..HOSTS).map(|_| self.host()).collect::<Result<_>>()?;
        let array = hosts.try_into();
        array.map_err(|_| anyhow::anyhow!("not as many hosts as there are ways"))
    }

    fn host(&self) -> Result<Host> {
        let name = format!("crash-{}", self.hosts.fetch_add(1, Ordering::Relaxed));
        let spec = HostSpec::new(&name, &self.old_os)
            .on(&self.shelf)
            .bin(&self.programs)
            .registry(&self.registry.location());
        let spec = bare::proved_within(bare::kubelet(spec), 1);
        Host::create(&self.lab, spec)
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

/// Stores a plan on a host as the daemon does; its directory.
pub(crate) fn put_plan(host: &Host, bundle: &Bundle) -> Result<String> {
    let etc = host.etc_of_booted()?;
    let tree = etc.parent().context("an /etc of nothing")?;
    let root = Root::open(tree, Some(&host.var()))?;
    Store::new(&root).put_plan(bundle)?;
    Ok(Store::plan_directory(&bundle.plan.attempt)?)
}

/// Runs a program on a host, which has to exit with this code.
pub(crate) fn expect(host: &Host, words: &[&str], code: i32) -> Result<()> {
    let output = host.exec(words.iter().copied())?;
    ensure!(
        output.code == Some(code),
        "`{}` exits with {:?}, not {code}: {}",
        words.join(" "),
        output.code,
        output.stderr.trim_end()
    );
    Ok(())
}

/// Waits until a host is up, nothing is under way, and the guard is done.
pub(crate) fn settle(host: &Host) -> Result<()> {
    let journal = host.var().join("lib/slipway/journal.json");
    let until = Instant::now() + SETTLED_WITHIN;
    loop {
        let is_up = host
            .boots()
            .last()
            .is_some_and(|boot| boot.ready.is_some() && boot.ended.is_none());
        if is_up && !journal.exists() && !guard_runs(host) {
            return Ok(());
        }
        ensure!(host.is_on(), "the host went down");
        if Instant::now() >= until {
            let words = [
                "journalctl",
                "-b",
                "-o",
                "cat",
                "-u",
                "slipway-guard",
                "-u",
                "slipway-verify",
            ];
            let log = host
                .exec(words)
                .map(|output| output.stdout)
                .unwrap_or_default();
            ensure!(false, "the host does not settle; its guard says:\n{log}");
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether one of the guard's units is at work. A host on its way down cannot be asked.
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
