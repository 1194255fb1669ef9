//! `HOLD=1`: the cluster lives in a process of its own, and this one returns when it is up.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use testbed::logs;

use super::claim::Claim;
use super::environment;

/// How long the cluster may take to be up. With full caches it takes 5 minutes on two cores.
const UP_WITHIN: Duration = Duration::from_mins(45);

/// Time between two polls at whether it is.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// What the process writes.
const LOG: &str = "playground.log";

/// Lines of the log that an error shows.
const LAST_LINES: usize = 20;

/// Starts the process that holds a cluster, and waits until it is up; whether it is.
///
/// # Errors
///
/// A playground runs already, or the process cannot be started.
pub(crate) async fn run(programs: &Path, out: &Path) -> Result<bool> {
    // Only for the question: the process makes the claim.
    drop(Claim::take(out)?);
    logs::empty(out)?;
    let out = out.canonicalize()?;
    let mut holder = Holder::start(programs, &out)?;
    let deadline = tokio::time::Instant::now() + UP_WITHIN;
    loop {
        holder.show_log()?;
        if out.join(environment::FILE).exists() {
            holder.child = None;
            write(&summary(&out))?;
            return Ok(true);
        }
        if let Some(status) = holder.has_ended()? {
            write(&holder.failure(status)?)?;
            return Ok(false);
        }
        if tokio::time::Instant::now() >= deadline {
            bail!("the cluster is not up within {} s", UP_WITHIN.as_secs());
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// The process until it is left to itself. Dropped before, it ends in order.
struct Holder {
    child: Option<Child>,
    log: PathBuf,
    shown: File,
}

impl Holder {
    /// A session of its own: no terminal's signals reach it.
    #[expect(clippy::disallowed_methods, reason = "this program itself")]
    fn start(programs: &Path, out: &Path) -> Result<Self> {
        let log = out.join(LOG);
        let output =
            File::create(&log).with_context(|| format!("cannot open {}", log.display()))?;
        let child = Command::new("setsid")
            .arg(std::env::current_exe()?)
            .args(["--playground", "--held"])
            .arg("--programs")
            .arg(programs)
            .arg("--out")
            .arg(out)
            .stdin(std::process::Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot start the process that holds the cluster")?;
        Ok(Self {
            child: Some(child),
            shown: File::open(&log)?,
            log,
        })
    }

    /// Prints what the process wrote since the last time.
    fn show_log(&mut self) -> Result<()> {
        let mut text = Vec::new();
        self.shown.read_to_end(&mut text)?;
        write(&String::from_utf8_lossy(&text))
    }

    fn has_ended(&mut self) -> Result<Option<ExitStatus>> {
        let ended = self.child.as_mut().map(Child::try_wait).transpose()?;
        Ok(ended.flatten())
    }

    /// What is printed where it ended too early.
    fn failure(&self, status: ExitStatus) -> Result<String> {
        let text = fs::read_to_string(&self.log)?;
        Ok(format!(
            "\nthe cluster did not start ({status}); {} ends with:\n{}\n",
            self.log.display(),
            last_lines(&text)
        ))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else {
            return;
        };
        // It may have ended, and then there is nothing to do.
        if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
            kill_process(pid, Signal::TERM).ok();
        }
        drop(child.wait());
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.len().saturating_sub(LAST_LINES);
    lines.get(first..).unwrap_or_default().join("\n")
}

fn summary(out: &Path) -> String {
    let file = out.join(environment::FILE);
    format!(
        "\nThe cluster is up, and lives on. In bash:\n\n    . {}\n    things\n\n\
         `make playground END=1` ends it; it ends by itself after {} hours.\n",
        file.display(),
        super::HELD_FOR.as_secs() / 3600
    )
}

fn write(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_shown() {
        assert_eq!(last_lines("one\ntwo\n"), "one\ntwo");
        let long: Vec<String> = (0..100).map(|number: u8| number.to_string()).collect();
        let last = last_lines(&long.join("\n"));
        assert!(last.starts_with("80\n") && last.ends_with("\n99"), "{last}");
    }

    #[test]
    fn the_summary_names_the_file_and_the_end() {
        let text = summary(Path::new("/a/playground"));
        assert!(text.contains("    . /a/playground/cluster.env\n"), "{text}");
        assert!(text.contains("after 12 hours"), "{text}");
    }
}
