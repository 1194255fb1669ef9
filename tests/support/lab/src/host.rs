//! A host: a real systemd on a real ostree deployment, in namespaces of its own.
//!
//! Its disks are files; what is booted is what the boot loader entries name at that time. `/usr`,
//! `/sysroot` and `/boot` are read-only, `/etc` is the deployment's and `/var` the stateroot's.
//! A reboot by logind ends everything in it and enters whatever is to be booted then.
//!
//! - `containers`: what runs pods on it
//! - `entries`: what a boot loader would start
//! - `ignition`: Ignition before its first boot
//! - `install`: its disks and first deployment
//! - `pod`: a program on it in the form of a DaemonSet's container
//! - `power`: boots, one after the other
//! - `snapshot`: its disks as they are at one moment
//! - `spec`: what it is made from
//! - `template`: what all disks are copied from

mod containers;
mod entries;
mod ignition;
mod install;
mod pod;
mod power;
mod snapshot;
mod spec;
mod template;

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::unistd::Pid;

pub use self::containers::{BUSYBOX, Containers};
pub(crate) use self::entries::deployment_id;
pub use self::entries::{DeploymentId, Entry, entries};
pub(crate) use self::install::{Disks, Images, install, write as install_file};
pub use self::install::{STATEROOT, pull_into};
pub use self::pod::{Pod, PodSpec, Propagation};
use self::power::Power;
pub use self::power::{Boot, End};
pub use self::snapshot::{DiskCache, Snapshot};
pub use self::spec::HostSpec;
use self::spec::WhenDown;
use crate::PATIENCE;
use crate::cgroup::Cgroup;
use crate::network::Port;
use crate::place::Lab;
use crate::program::{command, output};
use crate::tree::Commit;

/// What runs as the first process, and becomes systemd.
const INIT: &[u8] = include_bytes!("host/init.sh");

/// How long a host may take to boot. It takes one second on an idle machine of two cores.
pub const BOOTED_WITHIN: Duration = PATIENCE;

/// How long a host may take to go down in order.
const DOWN_WITHIN: Duration = PATIENCE.saturating_mul(2);

/// A host of a lab. Killed when dropped; its files go with the lab.
#[derive(Debug)]
pub struct Host {
    machine: Arc<Machine>,
    supervisor: Option<JoinHandle<()>>,
}

/// What a program inside a host left behind.
#[derive(Clone, Debug)]
pub struct Output {
    /// Exit code; 128 and the signal's number if one ended it; none if the host went down.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// The parts of a host that its supervisor shares.
struct Machine {
    name: String,
    dir: PathBuf,
    // Dropped in this order; the lab last.
    disks: Disks,
    images: Images,
    port: Port,
    cgroup: Cgroup,
    power: Power,
    binds: Vec<(PathBuf, String)>,
    when_down: Option<WhenDown>,
    /// It makes links, routes and packet filters for its pods.
    routes_pods: bool,
    lab: Lab,
}

impl Host {
    /// Makes a host, which is off.
    ///
    /// # Errors
    ///
    /// One of that name exists in the lab, or its commit cannot be deployed.
    pub fn create(lab: &Lab, spec: HostSpec) -> Result<Self> {
        let dir = lab.dir().join(&spec.name);
        fs::create_dir(&dir).with_context(|| format!("cannot make the host {}", spec.name))?;
        let images = match &spec.disk_cache {
            Some(disk_cache) => disk_cache.dir().join(&spec.name),
            None => dir.join("disks"),
        };
        fs::create_dir(&images)?;
        let images = Images::make(&spec, &images, 0)?;
        let sysroot = images.root.with_file_name("sysroot");
        fs::create_dir(&sysroot)?;
        let disks = images.mount(&sysroot)?;
        install(&spec, &disks).with_context(|| format!("cannot install the host {}", spec.name))?;
        let port = lab.plug(&spec.name)?;
        if spec.routes_pods {
            port.forward()?;
        }
        let machine = Machine {
            disks,
            images,
            port,
            routes_pods: spec.routes_pods,
            cgroup: lab.cgroup().child(&spec.name),
            power: Power::default(),
            name: spec.name,
            binds: spec.binds,
            when_down: spec.when_down,
            dir,
            lab: lab.clone(),
        };
        let run = machine.run_dir();
        fs::create_dir(&run)?;
        for (_, name) in &machine.binds {
            fs::create_dir(run.join(name))?;
        }
        install::write(&run.join("init"), INIT, 0o755)?;
        Ok(Self {
            machine: Arc::new(machine),
            supervisor: None,
        })
    }

    /// Its name, also that of its node.
    pub fn name(&self) -> &str {
        &self.machine.name
    }

    /// Its address in the lab's network.
    pub fn address(&self) -> Ipv4Addr {
        self.machine.port.address()
    }

    /// Folder with `console.log` and `boots.jsonl`.
    pub fn dir(&self) -> &Path {
        &self.machine.dir
    }

    /// Its sysroot, as this machine sees it, whether the host is up or not.
    pub fn sysroot(&self) -> &Path {
        self.machine.disks.sysroot()
    }

    /// `/var` of the host, as this machine sees it.
    pub fn var(&self) -> PathBuf {
        self.sysroot()
            .join("ostree/deploy")
            .join(STATEROOT)
            .join("var")
    }

    /// Directory of a deployment, as this machine sees it.
    pub fn deployment_dir(&self, deployment: &DeploymentId) -> PathBuf {
        let deployments = self
            .sysroot()
            .join("ostree/deploy")
            .join(STATEROOT)
            .join("deploy");
        deployments.join(deployment.to_string())
    }

    /// `/etc` of the last booted deployment, as this machine sees it.
    ///
    /// # Errors
    ///
    /// The host was never started.
    pub fn etc_of_booted(&self) -> Result<PathBuf> {
        let boot = self.boots().pop().context("the host was never started")?;
        Ok(self.deployment_dir(&boot.deployment).join("etc"))
    }

    /// Its boot loader entries, the one to be booted first.
    ///
    /// # Errors
    ///
    /// As [`entries`].
    pub fn entries(&self) -> Result<Vec<Entry>> {
        entries(self.sysroot())
    }

    /// All boots, in order.
    pub fn boots(&self) -> Vec<Boot> {
        self.machine.power.boots()
    }

    /// Turns it on. From then on it boots again whenever it asks for a reboot.
    ///
    /// # Errors
    ///
    /// It is on already.
    pub fn start(&mut self) -> Result<()> {
        ensure!(
            self.machine.power.take(),
            "the host {} is on already",
            self.name()
        );
        let machine = Arc::clone(&self.machine);
        let supervisor = std::thread::Builder::new()
            .name(format!("host-{}", self.name()))
            .spawn(move || power::supervise(&machine))?;
        self.supervisor = Some(supervisor);
        Ok(())
    }

    /// Waits until it is up: systemd has started everything.
    ///
    /// # Errors
    ///
    /// It does not come up, or not in time; with the end of its console.
    pub fn wait_booted(&self, within: Duration) -> Result<Boot> {
        self.wait_booted_after(0, within)
    }

    /// Waits until it is up in another boot than its first `seen` ones.
    ///
    /// # Errors
    ///
    /// As [`Self::wait_booted`].
    pub fn wait_booted_after(&self, seen: usize, within: Duration) -> Result<Boot> {
        self.machine
            .power
            .wait_ready(seen, within)
            .with_context(|| {
                let console = fs::read(self.dir().join("console.log")).unwrap_or_default();
                let text = String::from_utf8_lossy(&console).into_owned();
                let last: Vec<_> = text.lines().rev().take(20).collect();
                let last = last.into_iter().rev().collect::<Vec<_>>().join("\n");
                format!("host {}, whose console ends with:\n{last}\n", self.name())
            })
    }

    /// Reboots it by logind and waits until it is up again.
    ///
    /// # Errors
    ///
    /// It is down, logind refuses, or it does not come up.
    pub fn reboot(&self) -> Result<Boot> {
        let seen = self.boots().len();
        let output = self.exec([
            "busctl",
            "call",
            "org.freedesktop.login1",
            "/org/freedesktop/login1",
            "org.freedesktop.login1.Manager",
            "Reboot",
            "b",
            "false",
        ])?;
        // The answer may be lost while the host goes down, with the bus or the program that waits
        // for it; then the boot shows it.
        let was_killed = matches!(output.code, None | Some(137 | 143));
        let lost = ["Connection reset", "disconnected from message bus"];
        let was_lost = lost.iter().any(|why| output.stderr.contains(why));
        ensure!(
            output.code == Some(0) || was_killed || was_lost,
            "logind refused the reboot: {}",
            output.stderr
        );
        self.wait_booted_after(seen, DOWN_WITHIN + BOOTED_WITHIN)
    }

    /// Kills every process of it at once. It stays down, its disks as they were.
    ///
    /// # Errors
    ///
    /// A process does not die.
    pub fn kill(&mut self) -> Result<()> {
        self.machine.power.no_more();
        self.machine.power.kill();
        self.machine.cgroup.kill()?;
        self.machine.power.wait_off(DOWN_WITHIN)
    }

    /// Powers it off in order. It stays down.
    ///
    /// # Errors
    ///
    /// It does not go down in time.
    pub fn stop(&mut self) -> Result<()> {
        self.machine.power.no_more();
        self.machine.power.power_off()?;
        self.machine.power.wait_off(DOWN_WITHIN)
    }

    /// Waits until it is down to stay down.
    ///
    /// # Errors
    ///
    /// It is not, in that time.
    pub fn wait_off(&self, within: Duration) -> Result<()> {
        self.machine.power.wait_off(within)
    }

    /// Whether it is up, on its way up or between two boots.
    pub fn is_on(&self) -> bool {
        self.machine.power.is_on()
    }

    /// Takes its network cable out, or puts it in again.
    ///
    /// # Errors
    ///
    /// The link is gone.
    pub fn connect(&self, connected: bool) -> Result<()> {
        self.machine.port.connect(connected)
    }

    /// Limits what it receives to this many kilobits a second, or no more: for what is to be caught
    /// in the middle of a download.
    ///
    /// # Errors
    ///
    /// It is not limited, and no limit is asked for.
    pub fn limit(&self, kbit_per_second: Option<u32>) -> Result<()> {
        self.machine.port.limit(kbit_per_second)
    }

    /// A command that runs a program inside, as root, in all of the host's namespaces. The program
    /// dies with the host; its death by a signal is the code 128 and the signal's number, as a
    /// shell has it.
    ///
    /// # Errors
    ///
    /// The host is down.
    pub fn command(&self, program: &str) -> Result<Command> {
        let leader = self.machine.power.leader();
        let leader = leader.with_context(|| format!("the host {} is down", self.name()))?;
        let entering = entering(leader);
        let mut enter = command(entering.first().context("nothing to run")?);
        enter.args(entering.iter().skip(1)).arg(program);
        enter
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin");
        enter.env("LC_ALL", "C.UTF-8").env("HOME", "/root");
        Ok(enter)
    }

    /// Runs a program inside to its end, whatever that is.
    ///
    /// # Errors
    ///
    /// The host is down.
    pub fn exec<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Result<Output> {
        let mut arguments = arguments.into_iter();
        let program = arguments.next().context("no program is named")?;
        let output = output(self.command(program)?.args(arguments))?;
        Ok(Output {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs a program inside; what it printed, without the last line's end.
    ///
    /// # Errors
    ///
    /// The host is down, or the program exits with another code than 0.
    pub fn run<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Result<String> {
        let arguments: Vec<_> = arguments.into_iter().collect();
        let output = self.exec(arguments.iter().copied())?;
        ensure!(
            output.code == Some(0),
            "{} on host {} failed ({:?}): {}",
            arguments.join(" "),
            self.name(),
            output.code,
            output.stderr.trim_end()
        );
        Ok(output.stdout.trim_end_matches('\n').to_owned())
    }

    /// Brings a commit into the host's repository, from this machine, without a registry.
    ///
    /// # Errors
    ///
    /// Its disk is full.
    pub fn pull(&self, commit: &Commit) -> Result<()> {
        pull_into(self.sysroot(), commit)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // What is left then is swept with the lab.
        drop(self.kill());
        if let Some(supervisor) = self.supervisor.take() {
            drop(supervisor.join());
        }
    }
}

impl Machine {
    /// Name on this machine.
    fn id(&self) -> String {
        format!("{}-{}", self.lab.id(), self.name)
    }

    /// Folder that is `/run/lab` inside.
    fn run_dir(&self) -> PathBuf {
        self.dir.join("run")
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // systemd-nspawn leaves this folder; it is gone already if the host was never up.
        drop(fs::remove_dir(
            Path::new("/run/systemd/nspawn/propagate").join(self.id()),
        ));
    }
}

/// The arguments by which a program is run among the processes whose first is `leader`.
///
/// nsenter does not fork, a shell does: where nsenter's child is stopped it stops itself, and
/// systemd stops all processes on its way down. It would wait for ever for one that is not reaped.
fn entering(leader: Pid) -> Vec<String> {
    let leader = leader.to_string();
    let nsenter = ["nsenter", "--all", "--no-fork", "--target", &leader, "--"];
    let fork = ["sh", "-c", r#""$@"; exit $?"#, "sh"];
    nsenter
        .into_iter()
        .chain(fork)
        .map(ToOwned::to_owned)
        .collect()
}

fn random_uuid() -> Result<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Ok(text.trim_end().to_owned())
}
