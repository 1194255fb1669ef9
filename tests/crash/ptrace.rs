//! The few requests of ptrace(2) that the tracer makes.
#![expect(
    unsafe_code,
    reason = "ptrace has no safe form in any crate of this workspace"
)]

use std::io;

use anyhow::{Context as _, Result, bail};
use libc::{c_int, c_void, pid_t};

/// Follows threads and children, tells calls from signals, and leaves nothing behind if we die.
const OPTIONS: c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_EXITKILL;

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
    Signal(c_int),
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
pub(crate) fn seize(pid: pid_t) -> Result<()> {
    request(libc::PTRACE_SEIZE, pid, 0, OPTIONS as usize).context("cannot trace the program")
}

/// Lets a thread go on to the next call that the filter picks, with a signal or 0.
pub(crate) fn go_on(pid: pid_t, signal: c_int) -> Result<()> {
    let signal = usize::try_from(signal).context("a signal below zero")?;
    tolerant(request(libc::PTRACE_CONT, pid, 0, signal))
}

/// Lets a thread go on to the end of the call that it stands before, or else to the next call, with a
/// signal or 0.
pub(crate) fn go_to_call(pid: pid_t, signal: c_int) -> Result<()> {
    let signal = usize::try_from(signal).context("a signal below zero")?;
    tolerant(request(libc::PTRACE_SYSCALL, pid, 0, signal))
}

/// Has a thread stop wherever it is.
pub(crate) fn interrupt(pid: pid_t) -> Result<()> {
    tolerant(request(libc::PTRACE_INTERRUPT, pid, 0, 0))
}

/// Leaves a thread stopped as a job until it is continued as one.
pub(crate) fn listen(pid: pid_t) -> Result<()> {
    tolerant(request(libc::PTRACE_LISTEN, pid, 0, 0))
}

/// Where a thread stands that was stopped at a call: before it, or after it with what it returned, of
/// which a negative one is an error. One that was killed meanwhile stands nowhere, and is reported gone.
pub(crate) fn call(pid: pid_t) -> Result<Option<std::result::Result<Entry, i64>>> {
    // SAFETY: all zeros is a value of this structure of integers.
    let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    let size = size_of_val(&info);
    let address = &raw mut info as usize;
    match request(libc::PTRACE_GET_SYSCALL_INFO, pid, size, address) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        asked => asked.context("cannot ask where the program stands")?,
    }
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
pub(crate) fn wait() -> Result<Option<(pid_t, Status)>> {
    let mut status = 0;
    loop {
        // SAFETY: the kernel writes one integer to where it is told. Children of other threads are
        // left to them.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        match pid {
            -1 => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EINTR) => {}
                error if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
                error => return Err(error).context("cannot wait for the program"),
            },
            pid => return Ok(Some((pid, understand(status)))),
        }
    }
}

fn understand(status: c_int) -> Status {
    if !libc::WIFSTOPPED(status) {
        return Status::Gone;
    }
    let signal = libc::WSTOPSIG(status);
    Status::Stopped(match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Stop::Call,
        0 => Stop::Signal(signal),
        libc::PTRACE_EVENT_SECCOMP => Stop::Before,
        libc::PTRACE_EVENT_EXEC => Stop::Exec,
        libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => Stop::Job,
        _ => Stop::Event,
    })
}

fn request(
    request: libc::c_uint,
    pid: pid_t,
    address: usize,
    data: usize,
) -> Result<(), io::Error> {
    // SAFETY: none of these requests writes to this program's memory, but for the one that is given
    // a structure of the size it is told.
    let done = unsafe { libc::ptrace(request, pid, address as *mut c_void, data as *mut c_void) };
    if done == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// A thread that was killed meanwhile is gone, which [`wait`] reports.
fn tolerant(done: Result<(), io::Error>) -> Result<()> {
    match done {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        done => done.context("cannot trace the program any further"),
    }
}

/// Sends SIGKILL to a process. One that is gone already is no error.
pub(crate) fn kill(pid: pid_t) {
    // SAFETY: a signal to another process.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}
