//! The few requests of ptrace(2) that the tracer makes.
#![expect(
    unsafe_code,
    reason = "nix has neither PTRACE_LISTEN nor the members of `struct ptrace_syscall_info`"
)]

use std::ptr;

use anyhow::{Context as _, Result, bail};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{self, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Follows threads and children, distinguishes calls from signals, and leaves nothing behind if we
/// die.
const OPTIONS: Options = Options::PTRACE_O_TRACESYSGOOD
    .union(Options::PTRACE_O_TRACECLONE)
    .union(Options::PTRACE_O_TRACEFORK)
    .union(Options::PTRACE_O_TRACEVFORK)
    .union(Options::PTRACE_O_TRACEEXEC)
    .union(Options::PTRACE_O_TRACESECCOMP)
    .union(Options::PTRACE_O_EXITKILL);

/// What was reported of a process or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It ended.
    Gone,
    /// It stands still.
    Stopped(Stop),
}

/// Why it stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Before a call that the filter picked.
    Before,
    /// Before or after a call, as it was asked to.
    Call,
    /// A signal is to be delivered.
    Signal(Signal),
    /// It was stopped as a job is.
    Job,
    /// It became another program.
    Exec,
    /// Something else that ptrace reports, such as a new thread.
    Event,
}

/// A call, as a thread makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its number.
    pub(crate) number: i64,
    /// Its arguments.
    pub(crate) arguments: [u64; 6],
}

/// Begins to trace a process, which goes on meanwhile.
pub(crate) fn seize(pid: Pid) -> Result<()> {
    ptrace::seize(pid, OPTIONS).context("cannot trace the program")
}

/// Lets a thread go on to the next call that the filter picks, with a signal if there is one.
pub(crate) fn go_on(pid: Pid, signal: Option<Signal>) -> Result<()> {
    tolerant(ptrace::cont(pid, signal))
}

/// Lets a thread go on to the end of the call that it stands before, or else to the next call, with
/// a signal if there is one.
pub(crate) fn go_to_call(pid: Pid, signal: Option<Signal>) -> Result<()> {
    tolerant(ptrace::syscall(pid, signal))
}

/// Has a thread stop wherever it is.
pub(crate) fn interrupt(pid: Pid) -> Result<()> {
    tolerant(ptrace::interrupt(pid))
}

/// Leaves a thread stopped as a job until it is continued as one.
pub(crate) fn listen(pid: Pid) -> Result<()> {
    let nothing = ptr::null_mut::<libc::c_void>();
    // SAFETY: the request reads and writes no memory of this program.
    let done = unsafe { libc::ptrace(libc::PTRACE_LISTEN, pid.as_raw(), nothing, nothing) };
    tolerant(Errno::result(done).map(drop))
}

/// Where a thread stands that was stopped at a call: before it, or after it with what it returned,
/// of which a negative one is an error. One that was killed meanwhile stands nowhere, and is
/// reported gone.
pub(crate) fn call(pid: Pid) -> Result<Option<std::result::Result<Entry, i64>>> {
    let info = match ptrace::syscall_info(pid) {
        Err(Errno::ESRCH) => return Ok(None),
        asked => asked.context("cannot ask where the program stands")?,
    };
    let entry = |number: u64, arguments| Entry {
        number: number.cast_signed(),
        arguments,
    };
    match info.op {
        libc::PTRACE_SYSCALL_INFO_SECCOMP => {
            // SAFETY: at this stop the kernel has filled in this member.
            let seccomp = unsafe { info.u.seccomp };
            Ok(Some(Ok(entry(seccomp.nr, seccomp.args))))
        }
        libc::PTRACE_SYSCALL_INFO_ENTRY => {
            // SAFETY: as above.
            let before = unsafe { info.u.entry };
            Ok(Some(Ok(entry(before.nr, before.args))))
        }
        // SAFETY: as above.
        libc::PTRACE_SYSCALL_INFO_EXIT => Ok(Some(Err(unsafe { info.u.exit }.sval))),
        other => bail!("the program stands at no call: {other}"),
    }
}

/// Waits for the next report of anything this thread traces; none if it traces nothing any more.
pub(crate) fn wait() -> Result<Option<(Pid, Status)>> {
    // Children of other threads are left to them.
    let which = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
    loop {
        let status = match waitpid(None, Some(which)) {
            Err(Errno::EINTR) => continue,
            Err(Errno::ECHILD) => return Ok(None),
            waited => waited.context("cannot wait for the program")?,
        };
        if let Some(pid) = status.pid() {
            return Ok(Some((pid, understand(status))));
        }
    }
}

fn understand(status: WaitStatus) -> Status {
    Status::Stopped(match status {
        WaitStatus::PtraceSyscall(_) => Stop::Call,
        WaitStatus::Stopped(_, signal) => Stop::Signal(signal),
        WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_SECCOMP) => Stop::Before,
        WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_EXEC) => Stop::Exec,
        WaitStatus::PtraceEvent(_, signal, libc::PTRACE_EVENT_STOP)
            if signal != Signal::SIGTRAP =>
        {
            Stop::Job
        }
        WaitStatus::PtraceEvent(..) => Stop::Event,
        WaitStatus::Exited(..)
        | WaitStatus::Signaled(..)
        | WaitStatus::Continued(_)
        | WaitStatus::StillAlive => return Status::Gone,
    })
}

/// A thread that was killed meanwhile is gone, which [`wait`] reports.
fn tolerant(done: nix::Result<()>) -> Result<()> {
    match done {
        Err(Errno::ESRCH) => Ok(()),
        done => done.context("cannot trace the program any further"),
    }
}

/// Sends SIGKILL to a process. One that is gone already is no error.
pub(crate) fn kill(pid: Pid) {
    signal::kill(pid, Signal::SIGKILL).ok();
}
