//! A program on a host in the form of a DaemonSet's container.
//!
//! A real container runtime (`crun`) runs it in the host's namespaces: a root of its own, read-only
//! and without an operating system, the host's processes and network, and only the mounts that are
//! named. As a kubelet would, the lab starts it whenever the host is up, and again when it ends.
//!
//! - `spec`: what is to run
//! - `template`: reading that from a DaemonSet
//! - `bundle`: the same for the runtime

mod bundle;
mod spec;
mod template;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use self::bundle::GATE;
pub use self::spec::{PodSpec, Propagation};
use super::install::write;
use super::power::ENTER;
use super::{Host, Machine};
use crate::program::command;
use crate::wait::{self, until_blocking};

/// Time between an end and the next start. A kubelet begins with ten seconds, which would be most
/// of what a crash test takes.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// Time between two polls at whether it runs.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// Between an end and the next start of a pod that is held.
const AT_ONCE: Duration = Duration::from_millis(20);

/// Where the runtime keeps its state on the host; gone at a reboot, as on a node.
const STATE: &str = "/run/crun";

/// Runs container `$1` from bundle `$2`. The last run may have been killed before it could tidy up.
const RUN: &str = r#"crun --root "$0" delete --force "$1" 2>/dev/null
    exec crun --root "$0" --cgroup-manager=disabled run --bundle "$2" "$1""#;

/// A program that runs on a host as a DaemonSet's container. Killed when dropped.
#[derive(Debug)]
pub struct Pod {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    machine: Arc<Machine>,
    spec: PodSpec,
    /// It is not to be started again.
    ending: AtomicBool,
    /// How often it was started.
    starts: AtomicU32,
    /// Whether it waits before its first instruction.
    held: AtomicBool,
    /// The runtime's outermost process, while there is one.
    runtime: Mutex<Option<Pid>>,
}

impl Pod {
    /// Starts it on a host as soon as that is up.
    ///
    /// # Errors
    ///
    /// A file that it is made from cannot be read.
    pub fn start(host: &Host, spec: PodSpec) -> Result<Self> {
        let machine = Arc::clone(&host.machine);
        bundle::make_root(&spec, &dir(&machine, &spec.name))?;
        let shared = Arc::new(Shared {
            machine,
            spec,
            ending: AtomicBool::new(false),
            starts: AtomicU32::new(0),
            held: AtomicBool::new(false),
            runtime: Mutex::new(None),
        });
        let kept = Arc::clone(&shared);
        let keeper = std::thread::Builder::new()
            .name(format!("pod-{}", shared.spec.name))
            .spawn(move || kept.keep())?;
        Ok(Self {
            shared,
            keeper: Some(keeper),
        })
    }

    /// How often it was started so far.
    pub fn starts(&self) -> u32 {
        self.shared.starts.load(Ordering::SeqCst)
    }

    /// What it wrote, of all times it ran.
    pub fn log(&self) -> PathBuf {
        self.shared.log()
    }

    /// Process id of the program on this machine, while it runs.
    pub fn pid(&self) -> Option<Pid> {
        // The outermost process is the one that entered; its child the runtime, whose child is it.
        let pid = only_child(only_child(self.shared.runtime()?)?)?;
        // Before, there are what tidies up after the last run, and the runtime that will become it.
        let arguments: Vec<u8> = (self.shared.spec.arguments.iter())
            .flat_map(|argument| [argument.as_bytes(), b"\0"].concat())
            .collect();
        let found = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        (found == arguments).then_some(pid)
    }

    /// From its next start on, it waits each time before its first instruction until it is let go.
    pub fn hold(&self) {
        self.shared.held.store(true, Ordering::SeqCst);
    }

    /// The process that waits to become the program.
    pub fn held(&self) -> Option<Pid> {
        let children = children(only_child(self.shared.runtime()?)?);
        let waits = |pid: &Pid| {
            fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.windows(GATE.len()).any(|part| part == GATE.as_bytes()))
        };
        // The runtime has two: the container, and the process that holds it up.
        let is_held = children.iter().any(waits);
        children.into_iter().find(|pid| is_held && !waits(pid))
    }

    /// Lets the one that waits go.
    ///
    /// # Errors
    ///
    /// The host's folder cannot be written.
    pub fn let_go(&self) -> Result<()> {
        let dir = dir(&self.shared.machine, &self.shared.spec.name);
        write(&dir.join(GATE), self.starts().to_string().as_bytes(), 0o644)
    }

    /// Waits until the program runs.
    ///
    /// # Errors
    ///
    /// It does not, in that time.
    pub fn wait_running(&self, within: Duration) -> Result<Pid> {
        let what = format!("pod {} to run", self.shared.spec.name);
        until_blocking(&what, within, POLL_EVERY, || {
            Ok(self.pid().ok_or_else(|| "it is down".to_owned()))
        })
    }

    /// Sends the program a signal. After its end it is started again.
    ///
    /// # Errors
    ///
    /// It does not run.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self
            .pid()
            .with_context(|| format!("pod {} is down", self.shared.spec.name))?;
        Ok(kill(pid, signal)?)
    }

    /// Ends it as a kubelet does: SIGTERM, and SIGKILL when the grace period is over. It is not
    /// started again.
    ///
    /// # Errors
    ///
    /// It survives that.
    pub fn stop(&mut self, grace: Duration) -> Result<()> {
        self.shared.end();
        if let Some(pid) = self.pid() {
            kill(pid, Signal::SIGTERM).ok();
        }
        wait::pause(grace, || self.shared.runtime().is_none());
        if self.shared.runtime().is_some() {
            self.shared.kill();
        }
        self.join()
    }

    fn join(&mut self) -> Result<()> {
        let Some(keeper) = self.keeper.take() else {
            return Ok(());
        };
        let joined = keeper.join();
        ensure!(
            joined.is_ok(),
            "the thread that keeps pod {} panicked",
            self.shared.spec.name
        );
        Ok(())
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.shared.end();
        self.shared.kill();
        // A panic of the thread has been printed.
        drop(self.join());
    }
}

impl Shared {
    /// Runs it again and again, until it is to end.
    fn keep(&self) {
        let power = &self.machine.power;
        let is_ending = || self.ending.load(Ordering::SeqCst);
        while power.wait_up(is_ending) {
            let boot = power.leader();
            if !self.is_going_down()
                && let Err(error) = self.run()
            {
                self.note(&format!("cannot run it: {error:#}"));
            }
            let is_held = self.held.load(Ordering::SeqCst);
            let pause = if is_held { AT_ONCE } else { RESTART_AFTER };
            // A kubelet that has booted owes no pause to what ended with the boot before.
            wait::pause(pause, || is_ending() || power.leader() != boot);
        }
    }

    /// Whether the host is on its way down: nothing starts a container there any more.
    fn is_going_down(&self) -> bool {
        let Some(leader) = self.machine.power.leader() else {
            return true;
        };
        // systemd gives its place to this program, of whose name the kernel keeps 15 bytes.
        let comm = format!("/proc/{leader}/comm");
        fs::read_to_string(comm).map_or(true, |name| name.trim_end() == "systemd-shutdow")
    }

    /// Runs it once, to its end.
    fn run(&self) -> Result<()> {
        let name = &self.spec.name;
        let leader = self.machine.power.leader().context("the host went down")?;
        let held = self.held.load(Ordering::SeqCst);
        let start = held.then(|| self.starts.load(Ordering::SeqCst) + 1);
        bundle::write_config(&self.spec, &dir(&self.machine, name), leader, start)?;
        let cgroup = self
            .machine
            .cgroup
            .child("payload")
            .child("kubepods.slice")
            .child(name);
        cgroup.make()?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log())?;
        let mut crun = command("setpriv");
        crun.args(["--pdeathsig", "KILL", "--", "sh", "-c", ENTER, "sh"]);
        crun.args(cgroup.entrances()).arg("--");
        crun.args(super::entering(leader));
        crun.args([
            "sh",
            "-c",
            RUN,
            STATE,
            name,
            &format!("/run/lab/pods/{name}"),
        ]);
        crun.stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        // Not in the terminal's group: a Ctrl-C is for the owner.
        crun.process_group(0);

        let mut child = self.spawn(&mut crun)?;
        let status = child.wait();
        *self.lock() = None;
        let status = status?;
        // It was no child of the host's systemd, which while it goes down checks what is left only
        // when a child has ended, or after ten seconds. The host may be gone by now.
        kill(leader, Signal::SIGCHLD).ok();
        self.note(&format!("ended: {status}"));
        Ok(())
    }

    fn spawn(&self, crun: &mut std::process::Command) -> Result<Child> {
        let mut runtime = self.lock();
        ensure!(!self.ending.load(Ordering::SeqCst), "it is to end");
        let child = crun.spawn().context("cannot start the container runtime")?;
        self.starts.fetch_add(1, Ordering::SeqCst);
        *runtime = Some(Pid::from_raw(child.id().cast_signed()));
        Ok(child)
    }

    fn end(&self) {
        let _runtime = self.lock();
        self.ending.store(true, Ordering::SeqCst);
        self.machine.power.nudge();
    }

    /// Kills the program, and the runtime with it.
    fn kill(&self) {
        let Some(outermost) = self.runtime() else {
            return;
        };
        let crun = only_child(outermost);
        let program = crun.and_then(only_child);
        for pid in [program, crun, Some(outermost)].into_iter().flatten() {
            // It may have ended since.
            kill(pid, Signal::SIGKILL).ok();
        }
    }

    fn runtime(&self) -> Option<Pid> {
        *self.lock()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Pid>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> PathBuf {
        self.machine.dir.join(format!("{}.log", self.spec.name))
    }

    /// Adds a line of the lab's own to the log.
    fn note(&self, text: &str) {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log());
        // It is for people.
        drop(file.and_then(|mut file| writeln!(file, "--- {} {text}", Timestamp::now())));
    }
}

/// The bundle's folder, on this machine.
fn dir(machine: &Machine, name: &str) -> PathBuf {
    machine.run_dir().join("pods").join(name)
}

/// The one process that a process is the parent of.
fn only_child(parent: Pid) -> Option<Pid> {
    children(parent).into_iter().next()
}

/// Processes that a process is the parent of, oldest first.
fn children(parent: Pid) -> Vec<Pid> {
    let children =
        fs::read_to_string(Path::new("/proc").join(format!("{parent}/task/{parent}/children")));
    let pid = |word: &str| word.parse().ok().map(Pid::from_raw);
    children
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(pid)
        .collect()
}
