//! Runs other programs: a fixed program, a list of arguments, a clean environment, a deadline. No
//! other module spawns processes.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
#[cfg(feature = "ostree")]
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use node_update::one_line::one_line;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Bytes kept of a program's standard error: the last ones.
const KEPT_BYTES: usize = 4096;

/// Characters shown of what is kept: a reason is read by people.
const SHOWN_CHARS: usize = 1000;

/// Bytes read of a program's standard output; more is a fault of the program.
const OUTPUT_MAX_BYTES: u64 = 16 << 20;

/// The programs that may be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program<'a> {
    /// `systemctl`, for the unit files of a deployment that is not running.
    Systemctl,
    /// `systemd-run`, for transient timers.
    SystemdRun,
    /// `skopeo`: for its version, for the image library, and for an image's index.
    Skopeo,
    /// The helper `mcd-os`, at its path.
    Helper(&'a Path),
}

/// Environment variables of proxy settings, in lower case.
const PROXY: &[&str] = &["http_proxy", "https_proxy", "no_proxy", "all_proxy"];

/// Proxy settings in this program's environment, for programs that pull images.
pub fn proxy_environment() -> Vec<(String, String)> {
    proxy_settings(std::env::vars_os())
}

fn proxy_settings(
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(String, String)> {
    environment
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| PROXY.contains(&name.to_ascii_lowercase().as_str()))
        .collect()
}

impl Program<'_> {
    /// Variables passed on from this program's environment: the helper may pull an image.
    fn environment(self) -> Vec<(String, String)> {
        match self {
            Self::Systemctl | Self::SystemdRun | Self::Skopeo => Vec::new(),
            Self::Helper(_) => proxy_environment(),
        }
    }

    fn path(self) -> PathBuf {
        match self {
            Self::Systemctl => PathBuf::from("/usr/bin/systemctl"),
            Self::SystemdRun => PathBuf::from("/usr/bin/systemd-run"),
            Self::Skopeo => PathBuf::from("/usr/bin/skopeo"),
            Self::Helper(path) => path.to_owned(),
        }
    }
}

/// Why a run of a program failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be started or waited for.
    #[error("cannot run {}", program.display())]
    Start {
        program: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// It ended with another status than 0.
    #[error("{} {} failed ({status}): {stderr}", program.display(), arguments.join(" "))]
    Failed {
        program: PathBuf,
        arguments: Vec<String>,
        status: ExitStatus,
        /// The end of its standard error.
        stderr: String,
    },
    /// It did not end in time and was killed.
    #[error("{} {} did not end in {} s: {stderr}", program.display(), arguments.join(" "), deadline.as_secs())]
    Late {
        program: PathBuf,
        arguments: Vec<String>,
        deadline: Duration,
        /// The end of its standard error.
        stderr: String,
    },
}

impl Error {
    #[cfg(feature = "ostree")]
    pub(crate) fn skopeo(source: std::io::Error) -> Self {
        Self::Start {
            program: Program::Skopeo.path(),
            source,
        }
    }
}

/// Runs a program to its end and returns what it printed.
///
/// # Errors
/// [`Error::Failed`] for any exit status but 0, [`Error::Late`] past the deadline.
pub fn run(program: Program<'_>, arguments: &[&str], deadline: Duration) -> Result<Vec<u8>, Error> {
    run_in(program, arguments, &program.environment(), deadline)
}

/// What skopeo prints, with these arguments and this environment beside the usual one.
///
/// # Errors
/// Those of [`run`].
#[cfg(feature = "ostree")]
pub(crate) fn inspect(
    arguments: &[String],
    environment: &[(String, String)],
    deadline: Duration,
) -> Result<Vec<u8>, Error> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run_in(Program::Skopeo, &arguments, environment, deadline)
}

fn run_in(
    program: Program<'_>,
    arguments: &[&str],
    environment: &[(String, String)],
    deadline: Duration,
) -> Result<Vec<u8>, Error> {
    let start = |source| Error::Start {
        program: program.path(),
        source,
    };
    let mut child = command(&program.path())
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    let stdout = thread::spawn(move || {
        let mut output = Vec::new();
        // A read error truncates the output; the caller's parser reports that.
        if let Some(pipe) = stdout
            && let Err(error) = pipe.take(OUTPUT_MAX_BYTES).read_to_end(&mut output)
        {
            tracing::debug!(%error, "standard output ended early");
        }
        output
    });
    let stderr = thread::spawn(move || stderr.map(keep_end).unwrap_or_default());
    let ended = wait(&mut child, deadline).map_err(start)?;
    let status = if ended {
        child.wait().map_err(start)?
    } else {
        child.kill().map_err(start)?;
        child.wait().map_err(start)?
    };
    let stderr = stderr.join().unwrap_or_default();
    let stdout = stdout.join().unwrap_or_default();
    let arguments = || {
        arguments
            .iter()
            .map(|argument| (*argument).to_owned())
            .collect()
    };
    if !ended {
        let arguments = arguments();
        return Err(Error::Late {
            program: program.path(),
            arguments,
            deadline,
            stderr,
        });
    }
    if !status.success() {
        let arguments = arguments();
        return Err(Error::Failed {
            program: program.path(),
            arguments,
            status,
            stderr,
        });
    }
    Ok(stdout)
}

/// How long skopeo may take to print its version.
const VERSION_WITHIN: Duration = Duration::from_secs(30);

/// Major and minor version of the host's skopeo; zeros where it does not say.
///
/// # Errors
/// Those of [`run`].
pub fn skopeo_version() -> Result<(u32, u32), Error> {
    let printed = run(Program::Skopeo, &["--version"], VERSION_WITHIN)?;
    Ok(version_in(&String::from_utf8_lossy(&printed)).unwrap_or_default())
}

fn version_in(text: &str) -> Option<(u32, u32)> {
    let version = text.split_whitespace().nth(2)?;
    let mut numbers = version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// How a program ended that [`show`] ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessExit {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
}

/// Runs a program to its end, with this program's standard output and standard error.
///
/// # Errors
/// [`Error::Start`], [`Error::Late`] past the deadline; no exit code is an error.
pub fn show(
    program: Program<'_>,
    arguments: &[&str],
    deadline: Duration,
) -> Result<ProcessExit, Error> {
    let start = |source| Error::Start {
        program: program.path(),
        source,
    };
    let mut child = command(&program.path())
        .envs(program.environment())
        .args(arguments)
        .stdin(Stdio::null())
        .spawn()
        .map_err(start)?;
    if wait(&mut child, deadline).map_err(start)? {
        let status = child.wait().map_err(start)?;
        return Ok(ProcessExit {
            code: status.code(),
        });
    }
    child.kill().map_err(start)?;
    child.wait().map_err(start)?;
    Err(Error::Late {
        program: program.path(),
        arguments: arguments
            .iter()
            .map(|argument| (*argument).to_owned())
            .collect(),
        deadline,
        stderr: String::new(),
    })
}

/// Has the dynamic linker resolve every symbol before a program starts.
const RESOLVE_ALL: (&str, &str) = ("LD_BIND_NOW", "1");

/// Goes on as another program with `root` as the root. It returns only if that fails.
///
/// The program is opened before the root is left, and so need not be in it; its interpreter and
/// libraries are those of `root`, which has this system's `/proc`.
///
/// # Errors
/// [`Error::Start`].
pub fn become_in(root: &Path, program: &Path, arguments: &[&str]) -> Error {
    let start = |source| Error::Start {
        program: program.to_owned(),
        source,
    };
    let opened = match File::open(program) {
        Ok(opened) => opened,
        Err(source) => return start(source),
    };
    if let Err(source) = std::os::unix::fs::chroot(root) {
        return start(source);
    }
    let path = format!("/proc/self/fd/{}", opened.as_raw_fd());
    if !Path::new(&path).exists() {
        return start(std::io::Error::other("its root lacks this system's /proc"));
    }
    let mut command = command(Path::new(&path));
    command
        // The loader begins its messages with it.
        .arg0(program.file_name().unwrap_or(program.as_os_str()))
        .env(RESOLVE_ALL.0, RESOLVE_ALL.1)
        .args(arguments);
    let error = command.exec();
    if error.kind() == std::io::ErrorKind::NotFound {
        return start(std::io::Error::other("its root lacks its dynamic loader"));
    }
    start(error)
}

/// The command of skopeo, for the image library, which talks to it through a socket.
#[cfg(feature = "ostree")]
pub(crate) fn skopeo() -> Command {
    command(&Program::Skopeo.path())
}

/// Starts skopeo with a socket as its standard input, and with this program's environment, which
/// was made for it.
#[cfg(feature = "ostree")]
pub(crate) fn start_skopeo(arguments: &[String], socket: OwnedFd) -> Result<Child, Error> {
    let mut command = skopeo();
    command
        .envs(std::env::vars_os())
        .args(arguments)
        .stdin(socket)
        .stdout(Stdio::null());
    command.spawn().map_err(Error::skopeo)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the only function that spawns processes"
)]
pub(crate) fn command(path: &Path) -> Command {
    let mut command = Command::new(path);
    command
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C.UTF-8")
        .current_dir("/");
    command
}

/// Whether a child ended before the deadline.
fn wait(child: &mut Child, deadline: Duration) -> std::io::Result<bool> {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return Ok(true);
    };
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let mut waited = [PollFd::new(&handle, PollFlags::IN)];
    let timeout = Timespec::try_from(deadline).map_err(std::io::Error::other)?;
    let ready = rustix::io::retry_on_intr(|| poll(&mut waited, Some(&timeout)))?;
    Ok(ready > 0)
}

fn keep_end(mut pipe: impl std::io::Read) -> String {
    let mut kept = Vec::new();
    let mut dropped = 0;
    let mut buffer = [0; KEPT_BYTES];
    loop {
        match pipe.read(&mut buffer) {
            // A broken pipe ends the output; the exit status has the result.
            Ok(0) | Err(_) => break,
            Ok(length) => kept.extend_from_slice(buffer.get(..length).unwrap_or_default()),
        }
        if kept.len() > KEPT_BYTES {
            dropped += kept.len() - KEPT_BYTES;
            kept.drain(..kept.len() - KEPT_BYTES);
        }
    }
    said(&String::from_utf8_lossy(&kept), dropped)
}

/// The end of what a program said, as one line, with how much of it is left out.
fn said(end: &str, dropped: usize) -> String {
    let line = one_line(end);
    let left_out = line.chars().count().saturating_sub(SHOWN_CHARS);
    if left_out == 0 && dropped == 0 {
        return line;
    }
    let shown: String = line.chars().skip(left_out).collect();
    format!("[{} more characters] {shown}", dropped + left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read() {
        assert_eq!(version_in("skopeo version 1.9.3\n"), Some((1, 9)));
        assert_eq!(
            version_in("skopeo version 1.16.1-dev commit: x"),
            Some((1, 16))
        );
        assert_eq!(version_in("skopeo"), None);
    }

    #[test]
    fn only_proxy_settings_are_passed_on() {
        let environment = [
            ("HTTPS_PROXY", "http://p:3128"),
            ("no_proxy", ".local"),
            ("LD_PRELOAD", "x"),
            ("PROXY", "y"),
        ];
        let environment = environment.map(|(name, value)| (name.into(), value.into()));
        let passed = [("HTTPS_PROXY", "http://p:3128"), ("no_proxy", ".local")];
        let passed = passed.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(proxy_settings(environment.into_iter()), passed);
    }

    #[test]
    fn an_error_has_the_arguments_and_standard_error() {
        let error = run(
            Program::Systemctl,
            &["no-such-verb"],
            Duration::from_secs(10),
        );
        let text = error.unwrap_err().to_string();
        assert!(
            text.starts_with("/usr/bin/systemctl no-such-verb failed (exit status: 1): "),
            "{text}"
        );
    }

    #[test]
    fn only_the_end_of_standard_error_is_kept() {
        let long = [vec![b'a'; 3 * KEPT_BYTES], vec![b'b'; 10]].concat();
        let kept = keep_end(long.as_slice());
        let left_out = 3 * KEPT_BYTES + 10 - SHOWN_CHARS;
        assert!(
            kept.starts_with(&format!("[{left_out} more characters] aaa")),
            "{kept}"
        );
        assert!(kept.ends_with("abbbbbbbbbb"));
        assert_eq!(keep_end(&b"one\n two\n"[..]), "one; two");
        assert_eq!(keep_end(&b""[..]), "no reason was given");
    }

    #[test]
    fn a_child_past_its_deadline_is_distinguished_from_an_ended_one() {
        let mut child = command(Path::new("/usr/bin/sleep"))
            .arg("60")
            .spawn()
            .unwrap();
        assert!(!wait(&mut child, Duration::from_millis(20)).unwrap());
        child.kill().unwrap();
        assert!(wait(&mut child, Duration::from_secs(10)).unwrap());
        child.wait().unwrap();
    }
}
