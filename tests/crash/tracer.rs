//! Runs a program on a host so that it stands still before each call that changes something.
//!
//! A filter of the kernel's stops the program, its threads and its children at the calls of
//! [`super::call`] only; all others cost nothing. What a stop is for is up to the caller: it looks
//! at the host, and has the call done or everything killed there. A program that another program
//! starts has no filter: it is stopped at every call, and goes on at once from those that change
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lab::host::Host;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::call::Call;
use super::filter;
use super::ptrace::{self, Entry, Status, Stop};

/// How long the waiting shell may take to be there.
const THERE_WITHIN: Duration = Duration::from_secs(10);

/// Waits for a line, then becomes the program.
const GATE: &str = r#"read -r _ && exec "$@" </dev/null"#;

/// Where a program stands.
#[derive(Debug)]
pub(crate) struct Point<'a> {
    /// What it is about to do.
    pub(crate) next: &'a Call,
    /// What it did before and since the last point: calls that changed something.
    pub(crate) done: &'a [Call],
}

impl std::fmt::Display for Point<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(call) = self.done.last() {
            write!(f, "after {call}, ")?;
        }
        write!(f, "before {}", self.next)
    }
}

/// What becomes of a program that stands before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The call is done.
    GoOn,
    /// SIGKILL for the program and its children; the call is not done.
    Kill,
}

/// Decides at each point.
pub(crate) type Decide<'a> = dyn FnMut(&Point<'_>) -> Result<Order> + Send + 'a;

/// What a run left.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Whether it was killed because it was decided so.
    pub(crate) is_killed: bool,
    /// What it wrote to standard error.
    pub(crate) stderr: String,
    /// What it did since the last point.
    pub(crate) done: Vec<Call>,
}

/// Runs a program on a host to its end, or until `decide` has it killed.
///
/// # Errors
///
/// It cannot be run or traced, or `decide` cannot decide; it is killed then.
pub(crate) fn run(host: &Host, words: &[&str], decide: &mut Decide<'_>) -> Result<Ended> {
    let mut outer = start(host, words)?;
    let stderr = outer.stderr.take().context("no standard error")?;
    // A process is traced by one thread, which has no children of its own.
    let (run, stderr) = std::thread::scope(|scope| {
        let tracer = scope.spawn(|| Run::begin(&mut outer)?.carry(decide));
        let reader = scope.spawn(|| std::io::read_to_string(stderr));
        let run = tracer
            .join()
            .map_err(|_| anyhow::anyhow!("the tracer panicked"))??;
        let stderr = reader
            .join()
            .map_err(|_| anyhow::anyhow!("the reader panicked"))??;
        anyhow::Ok((run, stderr))
    })?;
    outer.wait()?;
    let Run {
        done, is_killed, ..
    } = run;
    Ok(Ended {
        is_killed,
        stderr,
        done,
    })
}

/// Follows a process that is about to become the program, from where it does to its end, or until
/// `decide` has it killed. It waits for something that `let_go` brings about.
///
/// What it sends over the network counts, too: it asks others for what changes.
///
/// # Errors
///
/// As those of [`run`].
pub(crate) fn attach(
    leader: Pid,
    let_go: impl FnOnce() -> Result<()> + Send,
    decide: &mut Decide<'_>,
) -> Result<Ended> {
    let run = std::thread::scope(|scope| {
        let tracer = scope.spawn(|| {
            let run = Run::join(leader)?;
            let_go()?;
            run.carry(decide)
        });
        tracer
            .join()
            .map_err(|_| anyhow::anyhow!("the tracer panicked"))?
    })?;
    Ok(Ended {
        is_killed: run.is_killed,
        stderr: String::new(),
        done: run.done,
    })
}

/// Starts a shell that waits for a line, below another one.
fn start(host: &Host, words: &[&str]) -> Result<Child> {
    let mut command = host.command("sh")?;
    command.args(["-c", GATE, "sh"]).args(words);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    filter::install(&mut command);
    command.spawn().context("cannot start the program")
}

/// What started the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// We did, with the filter.
    Ours,
    /// Another process.
    Others,
}

struct Run {
    leader: Pid,
    origin: Origin,
    /// Whether the process is the program yet.
    has_begun: bool,
    /// All processes and threads.
    alive: BTreeSet<Pid>,
    /// Calls that are being done, by thread.
    under_way: BTreeMap<Pid, Call>,
    /// Calls that changed something since the last point.
    done: Vec<Call>,
    /// Whether it was killed, and what is alive is only left to end.
    is_killed: bool,
}

impl Run {
    fn begin(outer: &mut Child) -> Result<Self> {
        let leader = only_child(outer)?;
        ptrace::seize(leader)?;
        let mut stdin = outer.stdin.take().context("no pipe to say go")?;
        stdin.write_all(b"\n")?;
        Ok(Self::of(leader, BTreeSet::from([leader]), Origin::Ours))
    }

    fn join(leader: Pid) -> Result<Self> {
        let mut alive = BTreeSet::new();
        loop {
            // A thread that is seized has those that it starts traced; one that is not may start
            // another.
            let mut is_all = true;
            // One that has ended meanwhile has none, and nothing more is to be followed.
            let tasks = fs::read_dir(format!("/proc/{leader}/task"));
            for task in tasks.into_iter().flatten().flatten() {
                let pid = Pid::from_raw(task.file_name().to_string_lossy().parse()?);
                if alive.insert(pid) && ptrace::seize(pid).is_ok() {
                    is_all = false;
                    ptrace::interrupt(pid)?;
                }
            }
            if is_all {
                return Ok(Self::of(leader, alive, Origin::Others));
            }
        }
    }

    fn of(leader: Pid, alive: BTreeSet<Pid>, origin: Origin) -> Self {
        Self {
            leader,
            origin,
            has_begun: origin == Origin::Ours,
            alive,
            under_way: BTreeMap::new(),
            done: Vec::new(),
            is_killed: false,
        }
    }

    fn carry(mut self, decide: &mut Decide<'_>) -> Result<Self> {
        while let Some((pid, status)) = ptrace::wait()? {
            self.reported(pid, status, decide)?;
        }
        Ok(self)
    }

    fn reported(&mut self, pid: Pid, status: Status, decide: &mut Decide<'_>) -> Result<()> {
        let stop = match status {
            Status::Gone => {
                self.alive.remove(&pid);
                return Ok(());
            }
            Status::Stopped(stop) => stop,
        };
        self.alive.insert(pid);
        match stop {
            Stop::Before | Stop::Call => match ptrace::call(pid) {
                Ok(Some(Ok(entry))) => self.before(pid, &entry, decide),
                Ok(Some(Err(returned))) => self.after(pid, returned),
                Ok(None) => Ok(()),
                Err(_) if self.is_killed => Ok(()),
                Err(error) => Err(error),
            },
            Stop::Signal(signal) => self.resume(pid, Some(signal)),
            Stop::Job => ptrace::listen(pid),
            Stop::Exec => {
                self.has_begun = true;
                self.resume(pid, None)
            }
            Stop::Event => self.resume(pid, None),
        }
    }

    /// Lets a thread go on to where it is stopped next, with a signal if there is one.
    fn resume(&self, pid: Pid, signal: Option<Signal>) -> Result<()> {
        match self.origin {
            Origin::Ours => ptrace::go_on(pid, signal),
            Origin::Others => ptrace::go_to_call(pid, signal),
        }
    }

    /// The call that a thread stands before, if it counts.
    fn counted(&self, pid: Pid, entry: &Entry) -> Option<Call> {
        let call = self.has_begun.then(|| Call::of(pid, entry)).flatten()?;
        // What `mcd-os` and its children write there are requests for an image, which change
        // nothing.
        let only_reads = self.origin == Origin::Ours && call.name.starts_with("write");
        (!only_reads || !call.is_to_socket()).then_some(call)
    }

    fn before(&mut self, pid: Pid, entry: &Entry, decide: &mut Decide<'_>) -> Result<()> {
        let Some(call) = self.counted(pid, entry) else {
            return self.resume(pid, None);
        };
        // A point is where something was changed since the last one.
        if !self.done.is_empty() && !self.is_killed {
            let order = decide(&Point {
                next: &call,
                done: &self.done,
            })?;
            if order == Order::Kill {
                self.kill();
                if self.is_doomed(pid) {
                    return Ok(());
                }
            } else {
                self.done.clear();
            }
        }
        self.under_way.insert(pid, call);
        ptrace::go_to_call(pid, None)
    }

    fn after(&mut self, pid: Pid, returned: i64) -> Result<()> {
        if let Some(call) = self.under_way.remove(&pid)
            && returned >= 0
        {
            self.done.push(call);
        }
        self.resume(pid, None)
    }

    fn kill(&mut self) {
        self.is_killed = true;
        for pid in &self.alive {
            if self.is_doomed(*pid) {
                ptrace::kill(*pid);
            }
        }
    }

    /// Whether a process dies with the program. systemd sends SIGTERM to what a killed service
    /// leaves; libostree has a child that ignores it, because it has to thaw a file system.
    fn is_doomed(&self, pid: Pid) -> bool {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field = |name| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };
        let ignored = field("SigIgn:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
        let of_leader =
            field("Tgid:").and_then(|tgid| tgid.parse().ok()) == Some(self.leader.as_raw());
        of_leader || ignored.unwrap_or_default() & (1 << (Signal::SIGTERM as u32 - 1)) == 0
    }
}

/// The process id, on this machine, of the one child that the shell outside has.
fn only_child(outer: &Child) -> Result<Pid> {
    let list = format!("/proc/{0}/task/{0}/children", outer.id());
    let until = Instant::now() + THERE_WITHIN;
    loop {
        // The shell outside is nsenter before, which has none.
        let children = fs::read_to_string(&list).unwrap_or_default();
        if let Some(child) = children.split_whitespace().next() {
            return Ok(Pid::from_raw(child.parse()?));
        }
        ensure!(Instant::now() < until, "the program was not started");
        std::thread::sleep(Duration::from_millis(1));
    }
}
