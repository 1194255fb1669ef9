//! Memory of a process, as the kernel counts it.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use lab::host::Host;

/// Time between two polls at a process that may end at any time. The peak itself is the kernel's;
/// what is missed is what was taken after the last sample.
const POLL_EVERY: Duration = Duration::from_millis(5);

/// What a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Bytes that no file backs: its own.
    pub(crate) anonymous: u64,
    /// Bytes of it in memory, those shared with others and with the page cache included.
    pub(crate) resident: u64,
}

/// Memory of a process now.
///
/// Errors: it is gone, or the kernel does not say.
pub(crate) fn of(process: u32) -> Result<Memory> {
    let path = format!("/proc/{process}/smaps_rollup");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let value = |key| field(&text, key).with_context(|| format!("{path} has no {key}"));
    Ok(Memory {
        anonymous: value("Anonymous")?,
        resident: value("Rss")?,
    })
}

/// The most bytes of a process that were in memory since its start.
///
/// Errors: it is gone, or the kernel does not say.
pub(crate) fn peak_of(process: u32) -> Result<u64> {
    let path = format!("/proc/{process}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    field(&text, "VmHWM").with_context(|| format!("{path} has no VmHWM"))
}

/// Time of processors that a process took since its start.
///
/// Source: the kernel's `sched-stats`, `/proc/PID/task/TID/schedstat`, in nanoseconds: the ticks of
/// `/proc/PID/stat` are a fifteenth of what is measured here.
///
/// Errors: it is gone, or the kernel does not say.
pub(crate) fn processor_time(process: u32) -> Result<Duration> {
    let threads = format!("/proc/{process}/task");
    let threads = fs::read_dir(&threads).with_context(|| format!("cannot read {threads}"))?;
    let mut sum = Duration::ZERO;
    for thread in threads {
        let path = thread?.path().join("schedstat");
        let path = path.display();
        let text =
            fs::read_to_string(path.to_string()).with_context(|| format!("cannot read {path}"))?;
        let time = text
            .split_whitespace()
            .next()
            .and_then(|it| it.parse().ok());
        sum += Duration::from_nanos(time.with_context(|| format!("{path} has no time"))?);
    }
    Ok(sum)
}

/// Has the kernel forget how much this process held at most. Bytes of it in memory now.
///
/// Source: the kernel's `proc(5)`, `/proc/PID/clear_refs`.
///
/// Errors: the kernel does not take or say it.
#[expect(clippy::disallowed_methods, reason = "a file of the kernel")]
pub(crate) fn restart_peak() -> Result<u64> {
    fs::write("/proc/self/clear_refs", "5").context("cannot write /proc/self/clear_refs")?;
    own("VmRSS")
}

/// The most bytes of this process that were in memory since [`restart_peak`].
///
/// Errors: the kernel does not say.
pub(crate) fn peak() -> Result<u64> {
    own("VmHWM")
}

fn own(key: &str) -> Result<u64> {
    let path = "/proc/self/status";
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    field(&text, key).with_context(|| format!("{path} has no {key}"))
}

/// Bytes of a line such as `Anonymous:     4312 kB`.
fn field(text: &str, key: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let kibibytes = line.trim().strip_suffix("kB")?.trim_end();
    Some(kibibytes.parse::<u64>().ok()? * 1024)
}

/// Processes of this machine, those inside hosts included, whose program has this name.
///
/// Shape: the name as the kernel keeps it, at most 15 bytes. Errors: `/proc` cannot be listed.
pub(crate) fn named(name: &str) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("cannot list /proc")? {
        let file = entry?.file_name();
        let Some(process) = file.to_str().and_then(|file| file.parse().ok()) else {
            continue;
        };
        if name_of(process)?.is_some_and(|found| found == name) {
            found.push(process);
        }
    }
    Ok(found)
}

/// Name of a process's program; none if the process is gone.
fn name_of(process: u32) -> Result<Option<String>> {
    let path = PathBuf::from(format!("/proc/{process}/comm"));
    match fs::read_to_string(&path) {
        Ok(name) => Ok(Some(name.trim_end().to_owned())),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Processes of a program on one host.
#[derive(Clone, Debug)]
pub(crate) struct OnHost {
    name: &'static str,
    /// What `/proc/PID/ns/net` of the host's processes is: its containers share its network.
    network: PathBuf,
}

impl OnHost {
    /// Those of this name.
    ///
    /// Errors: the host is down.
    pub(crate) fn new(host: &Host, name: &'static str) -> Result<Self> {
        let network = host.run(["readlink", "/proc/self/ns/net"])?.into();
        Ok(Self { name, network })
    }

    /// The only one.
    ///
    /// Errors: there is none, or more than one.
    pub(crate) fn only(&self) -> Result<u32> {
        match self.all()?.as_slice() {
            [process] => Ok(*process),
            all => bail!(
                "{} processes {} are on the host, not one",
                all.len(),
                self.name
            ),
        }
    }

    fn all(&self) -> Result<Vec<u32>> {
        let mut all = named(self.name)?;
        all.retain(|process| {
            let network = fs::read_link(format!("/proc/{process}/ns/net"));
            network.is_ok_and(|network| network == self.network)
        });
        Ok(all)
    }

    /// The most that any of them held resident while `act` ran.
    ///
    /// Errors: those of `act`, or none was seen.
    pub(crate) fn peak_resident<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<(T, u64)> {
        let over = AtomicBool::new(false);
        let (done, peak) = thread::scope(|scope| {
            let watching = scope.spawn(|| self.watch(&over));
            let done = act();
            over.store(true, Ordering::Relaxed);
            let peak = watching.join();
            (
                done,
                peak.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            )
        });
        let done = done?;
        match peak? {
            0 => bail!("no process {} was seen", self.name),
            peak => Ok((done, peak)),
        }
    }

    fn watch(&self, over: &AtomicBool) -> Result<u64> {
        let mut peak = 0;
        while !over.load(Ordering::Relaxed) {
            for process in self.all()? {
                match fs::read_to_string(format!("/proc/{process}/status")) {
                    Ok(status) => peak = peak.max(field(&status, "VmHWM").unwrap_or_default()),
                    Err(error) if is_gone(&error) => {}
                    Err(error) => return Err(error).context("cannot read a process's status"),
                }
            }
            thread::sleep(POLL_EVERY);
        }
        Ok(peak)
    }
}

/// Whether an error says that the process has ended: before its file was opened, or after.
fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::NotFound
        || error.raw_os_error() == Some(nix::errno::Errno::ESRCH as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first lines of a real one.
    const ROLLUP: &str = "55d5a1a4c000-7ffd4a9d2000 ---p 00000000 00:00 0    [rollup]
Rss:                9876 kB
Pss:                5120 kB
Anonymous:          4312 kB
AnonHugePages:         0 kB
";

    #[test]
    fn fields_are_read_by_their_whole_name() {
        assert_eq!(field(ROLLUP, "Anonymous"), Some(4312 * 1024));
        assert_eq!(field(ROLLUP, "Rss"), Some(9876 * 1024));
        assert_eq!(field(ROLLUP, "Anon"), None);
    }

    #[test]
    fn a_peak_is_forgotten_and_kept_again() {
        let held = restart_peak().unwrap();
        let taken = vec![1_u8; 64 << 20];
        assert_eq!(std::hint::black_box(&taken).len(), 64 << 20);
        drop(taken);
        assert!(peak().unwrap() >= held + (60 << 20));
        let held = restart_peak().unwrap();
        assert!(peak().unwrap() < held + (30 << 20));
    }

    #[test]
    fn a_process_finds_itself() {
        let own = std::process::id();
        let name = name_of(own).unwrap().unwrap();
        assert!(named(&name).unwrap().contains(&own));
        let memory = of(own).unwrap();
        assert!(
            0 < memory.anonymous && memory.anonymous <= memory.resident,
            "{memory:?}"
        );
        assert!(named("no such program").unwrap().is_empty());
    }

    #[test]
    fn a_peak_is_not_below_what_is_held() {
        let name = name_of(std::process::id()).unwrap().unwrap();
        let network = fs::read_link("/proc/self/ns/net").unwrap();
        let here = OnHost {
            name: name.leak(),
            network,
        };
        let held = of(std::process::id()).unwrap();
        let pause = || {
            thread::sleep(POLL_EVERY * 20);
            Ok(())
        };
        let ((), peak) = here.peak_resident(pause).unwrap();
        assert!(peak >= held.anonymous, "{peak} {held:?}");
        let elsewhere = OnHost {
            network: "net:[1]".into(),
            ..here
        };
        assert!(elsewhere.peak_resident(|| Ok(())).is_err());
        assert!(elsewhere.only().is_err());
    }
}
