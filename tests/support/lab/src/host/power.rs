//! A host's life: boots one after the other, each on what the boot entries name at that time.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::Machine;
use super::entries::{DeploymentId, deployment_id, entries, split};
use crate::program::command;

/// With which systemd-nspawn exits when the system inside has asked for a reboot.
/// Source: systemd 252, `src/nspawn/nspawn.c`, `EXIT_FORCE_RESTART`.
const EXIT_REBOOT: i32 = 133;

/// Enters the control groups named before `--` and becomes the program after it.
pub(super) const ENTER: &str =
    r#"while [ "$1" != -- ]; do echo $$ >"$1"; shift; done; shift; exec "$@""#;

/// One boot of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    /// `/proc/sys/kernel/random/boot_id` of that boot.
    pub id: String,
    /// What was booted.
    pub deployment: DeploymentId,
    /// What that is, as [`crate::tree::content`] gives it; none where the repository does not know.
    pub content: Option<String>,
    /// The kernel's command line.
    pub options: String,
    /// When the deployment was entered.
    pub started: Timestamp,
    /// When systemd had started everything.
    pub ready: Option<Timestamp>,
    /// When nothing of it was left, and why.
    pub ended: Option<(Timestamp, End)>,
}

/// Why a boot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The host asked for it, and boots again.
    Reboot,
    /// The host went down in order, and stays down.
    PowerOff,
    /// [`super::Host::kill`].
    Killed,
    /// The system inside died otherwise.
    Died,
}

/// What is known of a host's life; threads wait for its change.
#[derive(Debug, Default)]
pub(super) struct Power {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    boots: Vec<Boot>,
    /// Process id, on this machine, of the running system's first process.
    leader: Option<Pid>,
    /// Process id of the program that runs it.
    nspawn: Option<Pid>,
    /// No further boot is wanted.
    stopping: bool,
    /// A thread keeps the host.
    supervised: bool,
    /// Why the last boot could not be started.
    failure: Option<String>,
}

impl Power {
    pub(super) fn boots(&self) -> Vec<Boot> {
        self.lock().boots.clone()
    }

    /// First process of the running system, once it is there.
    pub(super) fn leader(&self) -> Option<Pid> {
        self.lock().leader
    }

    /// Whether the host is up, on its way up, or between two boots.
    pub(super) fn is_on(&self) -> bool {
        self.lock().supervised
    }

    /// The first boot after the first `seen` ones that has become ready.
    pub(super) fn wait_ready(&self, seen: usize, within: Duration) -> Result<Boot> {
        self.wait(within, |state| {
            let later = state.boots.iter().skip(seen);
            if let Some(boot) = later
                .rev()
                .find(|boot| boot.ready.is_some() && boot.ended.is_none())
            {
                return Some(Ok(boot.clone()));
            }
            let why = state.failure.as_deref().unwrap_or("it went down");
            (!state.supervised).then(|| Err(anyhow::anyhow!("the host does not boot: {why}")))
        })
        .context("the host did not become ready in time")?
    }

    /// Waits until the host is down.
    pub(super) fn wait_off(&self, within: Duration) -> Result<()> {
        self.wait(within, |state| (!state.supervised).then_some(()))
            .context("the host did not go down in time")
    }

    /// Waits until the host is up, or `is_over` says that no caller waits any more: false then. The
    /// program that changes that calls [`Self::nudge`].
    pub(super) fn wait_up(&self, is_over: impl Fn() -> bool) -> bool {
        let mut state = self.lock();
        loop {
            if is_over() {
                return false;
            }
            if state
                .boots
                .last()
                .is_some_and(|boot| boot.ready.is_some() && boot.ended.is_none())
            {
                return true;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes all threads that wait.
    pub(super) fn nudge(&self) {
        self.change(|_| ());
    }

    /// Asks for no further boot. The running one goes on.
    pub(super) fn no_more(&self) {
        self.lock().stopping = true;
    }

    /// Kills the program that runs it, and what it runs with it: one that was just started has not
    /// entered its control group yet.
    pub(super) fn kill(&self) {
        if let Some(nspawn) = self.lock().nspawn {
            // It may have ended since.
            kill(nspawn, Signal::SIGKILL).ok();
        }
    }

    /// Asks the running system to power off.
    pub(super) fn power_off(&self) -> Result<()> {
        match self.lock().nspawn {
            // It passes the signal of `--kill-signal` on.
            Some(nspawn) => kill(nspawn, Signal::SIGTERM).context("cannot stop the host"),
            None => Ok(()),
        }
    }

    fn wait<T>(&self, within: Duration, look: impl Fn(&State) -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + within;
        let mut state = self.lock();
        loop {
            if let Some(found) = look(&state) {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("waited for {within:?}");
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked with the lock held had changed one field or none.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let result = act(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Takes the host for supervision. False if it is supervised already.
    pub(super) fn take(&self) -> bool {
        self.change(|state| {
            state.stopping = false;
            state.failure = None;
            !std::mem::replace(&mut state.supervised, true)
        })
    }
}

/// Boots the machine again and again, until it goes down to stay down.
pub(super) fn supervise(machine: &Machine) {
    loop {
        let end = boot(machine);
        if let Some(act) = machine.when_down.as_ref().filter(|_| end.is_ok()) {
            act();
        }
        let again = matches!(end, Ok(Some(End::Reboot)));
        let over = machine.power.change(|state| {
            state.failure = end.err().map(|error| format!("{error:#}"));
            let over = !again || state.stopping;
            state.supervised = !over;
            over
        });
        if over {
            return;
        }
    }
}

/// One boot, from reading the boot entries to the end of the last process. None if it was called
/// off before it began.
fn boot(machine: &Machine) -> Result<Option<End>> {
    let sysroot = machine.disks.sysroot();
    let entry = entries(sysroot)?
        .into_iter()
        .next()
        .context("no boot entry")?;
    let dir = entry.deployment(sysroot)?;
    let deployment = deployment_id(&dir)?;
    // A repository that a killed host left damaged is for others to judge.
    let content = crate::tree::content(&sysroot.join("ostree/repo"), &deployment.checksum).ok();
    let boot = Boot {
        id: super::random_uuid()?,
        deployment,
        content,
        options: entry.options,
        started: Timestamp::now(),
        ready: None,
        ended: None,
    };
    let run = machine.run_dir();
    write(&run.join("cmdline"), &format!("{}\n", boot.options))?;
    write(&run.join("boot_id"), &format!("{}\n", boot.id))?;
    // A thread that just starts a pod there may not know yet that the host was down.
    machine.cgroup.clear()?;
    machine.cgroup.make()?;
    let socket_path = machine.dir.join("notify");
    drop(fs::remove_file(&socket_path));
    let socket = UnixDatagram::bind(&socket_path)?;

    let mut console = OpenOptions::new()
        .create(true)
        .append(true)
        .open(machine.dir.join("console.log"))?;
    writeln!(
        console,
        "--- boot {} of {} at {}",
        boot.id, boot.deployment, boot.started
    )?;
    let options = split(&boot.options);
    let mut nspawn = nspawn(machine, &dir, &options)?;
    nspawn.env("NOTIFY_SOCKET", &socket_path);
    nspawn
        .stdin(Stdio::null())
        .stdout(console.try_clone()?)
        .stderr(console);

    // Under the lock, so that a kill finds either nothing that will come or something to kill.
    let child = machine.power.change(|state| {
        if state.stopping {
            return Ok(None);
        }
        let child = nspawn.spawn().context("cannot start systemd-nspawn")?;
        state.nspawn = Some(Pid::from_raw(child.id().cast_signed()));
        state.boots.push(boot);
        anyhow::Ok(Some(child))
    })?;
    let Some(mut child) = child else {
        return Ok(None);
    };
    record(machine, "started");

    let status = std::thread::scope(|scope| {
        scope.spawn(|| listen(machine, &socket));
        let status = child.wait();
        // An empty message ends the listening.
        drop(UnixDatagram::unbound().and_then(|socket| socket.send_to(b"", &socket_path)));
        status
    })?;
    machine.cgroup.kill()?;
    let end = machine.power.change(|state| {
        let end = end_of(status, state.stopping);
        state.leader = None;
        state.nspawn = None;
        if let Some(boot) = state.boots.last_mut() {
            boot.ended = Some((Timestamp::now(), end));
        }
        end
    });
    record(machine, "ended");
    Ok(Some(end))
}

/// Takes what the system inside says of itself, until the empty message.
fn listen(machine: &Machine, socket: &UnixDatagram) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = socket.recv(&mut buffer) {
        let message = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default());
        for line in message.lines() {
            if let Some(pid) = line.strip_prefix("X_NSPAWN_LEADER_PID=") {
                // For people, who enter by `nsenter --all --target`.
                drop(write(&machine.dir.join("leader"), pid));
                let pid = pid.parse().ok().map(Pid::from_raw);
                machine.power.change(|state| state.leader = pid);
            } else if line == "READY=1" {
                // systemd says so again whenever it has loaded its units anew.
                let is_first = machine.power.change(|state| {
                    let ready = state.boots.last_mut().map(|boot| &mut boot.ready);
                    let unknown = ready.filter(|ready| ready.is_none());
                    unknown
                        .map(|ready| *ready = Some(Timestamp::now()))
                        .is_some()
                });
                if is_first {
                    record(machine, "ready");
                }
            }
        }
    }
}

fn end_of(status: ExitStatus, stopping: bool) -> End {
    match (status.code(), status.signal()) {
        (Some(EXIT_REBOOT), _) => End::Reboot,
        (Some(0), _) => End::PowerOff,
        (_, Some(_)) if stopping => End::Killed,
        _ => End::Died,
    }
}

fn nspawn(machine: &Machine, dir: &Path, options: &[String]) -> Result<std::process::Command> {
    let sysroot = machine.disks.sysroot();
    let var = sysroot
        .join("ostree/deploy")
        .join(super::STATEROOT)
        .join("var");
    let mut nspawn = command("setpriv");
    nspawn.args(["--pdeathsig", "KILL", "--", "sh", "-c", ENTER, "sh"]);
    nspawn.args(machine.cgroup.entrances()).arg("--");
    // Its lock would be a file beside the deployment, which libostree does not know.
    nspawn.env("SYSTEMD_NSPAWN_LOCK", "0");
    nspawn.args(begin_at_zero()?);
    nspawn.args([
        "systemd-nspawn",
        "--quiet",
        "--settings=no",
        "--register=no",
        "--keep-unit",
        "--notify-ready=yes",
        // Power off. Source: systemd(1), "Signals".
        "--kill-signal=SIGRTMIN+4",
        "--console=read-only",
        "--setenv=TERM=dumb",
        "--link-journal=no",
        "--resolv-conf=off",
        "--timezone=off",
    ]);
    if machine.routes_pods {
        nspawn.arg("--capability=CAP_NET_ADMIN");
    }
    nspawn.arg(format!("--machine={}", machine.id()));
    nspawn.arg(format!("--hostname={}", machine.name));
    nspawn.arg(format!(
        "--network-namespace-path={}",
        machine.port.namespace().display()
    ));
    nspawn.arg(format!("--directory={}", dir.display()));
    let mut bind = |how: &str, from: &Path, to: &str| {
        nspawn.arg(format!("--{how}={}:{to}:norbind", from.display()));
    };
    bind("bind-ro", &dir.join("usr"), "/usr");
    bind("bind-ro", sysroot, "/sysroot");
    bind("bind-ro", machine.disks.boot(), "/boot");
    bind("bind", &var, "/var");
    bind("bind-ro", &machine.run_dir(), "/run/lab");
    for (from, name) in &machine.binds {
        bind("bind-ro", from, &format!("/run/lab/{name}"));
    }
    nspawn.arg("/run/lab/init").args(options);
    Ok(nspawn)
}

/// Has what a program starts begin its uptime: in a time namespace of its own, whose clocks are set
/// back by what they are now. The program itself may stay outside, which it does before Linux 6.3.
///
/// Suites know a reboot by `/proc/uptime`. Start times of processes and `btime` in `/proc/stat`
/// agree with it.
fn begin_at_zero() -> Result<[String; 7]> {
    // Whole seconds, of which a clock has at least so many: the kernel lets none become negative.
    let back = |clock| anyhow::Ok(format!("-{}", clock_gettime(clock)?.tv_sec()));
    Ok([
        "unshare".to_owned(),
        "--time".to_owned(),
        "--monotonic".to_owned(),
        back(ClockId::CLOCK_MONOTONIC)?,
        "--boottime".to_owned(),
        back(ClockId::CLOCK_BOOTTIME)?,
        "--".to_owned(),
    ])
}

/// Adds a line to `boots.jsonl`: what happened, and the boot as it is now.
fn record(machine: &Machine, event: &str) {
    let Some(boot) = machine.power.boots().pop() else {
        return;
    };
    let line = serde_json::json!({ "time": Timestamp::now(), "event": event, "boot": boot });
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(machine.dir.join("boots.jsonl"));
    // It is for people; a test asks `Host::boots`.
    drop(file.and_then(|mut file| writeln!(file, "{line}")));
}

fn write(path: &Path, text: &str) -> Result<()> {
    let mut file =
        File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(file.write_all(text.as_bytes())?)
}
