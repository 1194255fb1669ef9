//! A child process that ends with its owner, and at the latest with this process.
#![expect(
    clippy::disallowed_methods,
    reason = "the lab runs programs; it is no part of what it tests"
)]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::PATIENCE;
use crate::wait::until_blocking;

/// Time between two polls at whether a program has ended.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// Lines of a log that an error shows.
const LAST_LINES: usize = 20;

/// A running program, its output going to `<dir>/<name>.log`. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program` with `arguments` in the folder `dir`, into which it logs. Paths among the
    /// arguments are absolute.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub fn start<A: AsRef<OsStr>>(
        name: &str,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
        dir: &Path,
    ) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let output =
            File::create(&log).with_context(|| format!("cannot open {}", log.display()))?;
        // SIGKILL, because what runs here keeps nothing, and because a program may be slow to obey.
        let mut command = Command::new("setpriv");
        // Named from here, not from where it is to run.
        let program = if program.components().count() > 1 {
            std::path::absolute(program)?
        } else {
            program.to_owned()
        };
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(arguments);
        command
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        // Not in the terminal's group: a Ctrl-C is for the owner, which stops them in order.
        command.process_group(0);
        let child = spawn(command).with_context(|| format!("cannot start {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log,
        })
    }

    /// Its number, as `/proc` names it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Looks whether it still runs.
    ///
    /// # Errors
    ///
    /// The program has ended; with the end of its log.
    pub fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.len().saturating_sub(LAST_LINES);
            let end = lines.get(last..).unwrap_or_default().join("\n");
            bail!(
                "{} ended with {status}; {} ends with:\n{end}",
                self.name,
                self.log.display()
            );
        }
        Ok(())
    }

    /// Asks it to end by SIGTERM, as a kubelet does, and waits for that.
    ///
    /// # Errors
    ///
    /// It does not end.
    pub fn stop(mut self) -> Result<()> {
        // It may have ended since.
        kill(Pid::from_raw(self.id().cast_signed()), Signal::SIGTERM).ok();
        let what = format!("{} to end", self.name);
        until_blocking(&what, PATIENCE, POLL_EVERY, || {
            let has_ended = self.child.try_wait()?.is_some();
            Ok(has_ended.then_some(()).ok_or_else(|| "it runs".to_owned()))
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has been waited for already, and then there is nothing to do.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

type Request = (Command, Sender<io::Result<Child>>);

/// The thread that is parent to all children. The kernel sends a parent-death signal when the
/// *thread* that made the child ends, and a test's thread ends long before the process.
static KEEPER: LazyLock<Sender<Request>> = LazyLock::new(|| {
    let (requests, received) = channel::<Request>();
    std::thread::spawn(move || {
        for (mut command, result) in received {
            // The caller waits for the result; if it is gone, the result is not needed.
            drop(result.send(command.spawn()));
        }
    });
    requests
});

fn spawn(command: Command) -> io::Result<Child> {
    let (result, received) = channel();
    KEEPER.send((command, result)).map_err(io::Error::other)?;
    received.recv().map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_outlives_the_thread_that_asked_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let start = || Process::start("sleep", Path::new("sleep"), ["60"], dir.path()).unwrap();
        let mut process = std::thread::scope(|scope| scope.spawn(start).join().unwrap());
        // The signal would come at the thread's end; a child that got it is gone at once.
        for _ in 0..100 {
            process.check().unwrap();
            std::thread::yield_now();
        }
        let id = process.child.id();
        drop(process);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }

    #[test]
    fn one_that_ends_says_its_last_words() {
        let dir = tempfile::tempdir().unwrap();
        let mut process = Process::start(
            "sh",
            Path::new("sh"),
            ["-c", "echo no more; exit 3"],
            dir.path(),
        )
        .unwrap();
        let error = loop {
            if let Err(error) = process.check() {
                break error.to_string();
            }
        };
        assert!(
            error.contains("exit status: 3") && error.ends_with("no more"),
            "{error}"
        );
    }
}
