//! `make playground`: a cluster of all parts stays up, with a shell beside it or in a process of
//! its own.
//!
//! - `things`: what there is to try
//! - `setup`: from nothing to the first release
//! - `objects`, `environment`: files for a person, and for programs
//! - `requests`: what the process does for them
//! - `claim`: one cluster at a time
//! - `hold`: the cluster without a shell
//! - `dashboard`: the dashboard's queries as a page of Prometheus

mod claim;
mod dashboard;
mod environment;
pub(crate) mod hold;
mod objects;
mod requests;
mod setup;
mod things;

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use testbed::{Programs, logs};

use self::claim::Claim;
use self::environment::Environment;
use self::requests::Requests;
use crate::live::Screen;

/// How long a cluster without a shell lives.
const HELD_FOR: Duration = Duration::from_hours(12);

/// Starts the cluster, and a shell that ends it. Of a held one there is no shell, and time or
/// SIGTERM ends it.
///
/// # Errors
///
/// A playground runs already, the cluster does not start, or there is no shell.
pub(crate) async fn run(programs: &Programs, out: &Path, is_held: bool) -> Result<bool> {
    let mut claim = Claim::take(out)?;
    claim.sign()?;
    if !is_held {
        logs::empty(out)?;
    }
    let out = out.canonicalize()?;
    let mut screen = Screen::new();
    let environment = Environment::new(&out);
    let programs = environment.keep_programs(programs)?;
    let mut playground = setup::start(&programs, &out, &mut screen).await?;
    dashboard::write(&out.join("monitoring/consoles"))?;
    objects::write(&playground.cluster, &out)?;
    let requests = Requests::listen(playground.cluster.host_lab()?.lab.dir())?;
    environment.write(&playground, &requests.path)?;
    let attended = requests.attend(&mut playground);
    screen.rest()?;
    let is_over = if is_held {
        tokio::select! {
            failed = attended => failed.map(|()| false),
            () = tokio::time::sleep(HELD_FOR) => Ok(true),
        }
    } else {
        tokio::select! {
            failed = attended => failed.map(|()| false),
            // Its last command's code says nothing of the playground.
            ended = shell(&out) => ended.map(|status| status.signal().is_none()),
        }
    };
    screen.say("ending the cluster")?;
    drop(environment);
    is_over
}

/// A shell in `out`, which has the terminal; what runs beside it goes on meanwhile.
async fn shell(out: &Path) -> Result<ExitStatus> {
    let mut child = command(out).spawn().context("cannot run bash")?;
    let mut running = Running(Pid::from_raw(child.id().cast_signed()));
    let ended = tokio::task::spawn_blocking(move || child.wait()).await?;
    running.0 = None;
    ended.context("cannot wait for bash")
}

/// A shell until it has ended. Dropped before, it hangs up: it is waited for at the process's end.
struct Running(Option<Pid>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // It may have ended since.
            kill_process(pid, Signal::HUP).ok();
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the playground is a shell; it ships nowhere"
)]
fn command(out: &Path) -> Command {
    let mut shell = Command::new("bash");
    shell
        .arg("--rcfile")
        .arg(out.join(environment::SHELL_SETTINGS))
        .arg("-i")
        .current_dir(out);
    shell
}
