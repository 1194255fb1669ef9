//! `mcd-os` beside this program: what `mcd pivot`, `mcd rollback` and `mcd status` have it do on
//! the host they run on.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use host::process::{self, ProcessExit, Program};
use host::systemd::SystemdClient;

use crate::deployments::View;
use crate::program;
use crate::protocol::Verb;

/// What a question may take.
const ASK_DEADLINE: Duration = Duration::from_mins(1);

/// What a deed may take; a large image over a slow line is what takes longest.
const ACT_DEADLINE: Duration = Duration::from_hours(2);

/// The helper on this host.
#[derive(Debug)]
pub(crate) struct Helper {
    path: PathBuf,
}

impl Helper {
    /// Finds the helper beside this program, else where the daemon installs it.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("cannot find this program")?;
        let beside = own.with_file_name(program::NAME);
        let installed = Path::new(program::LINK).to_owned();
        let path = [beside, installed].into_iter().find(|path| path.is_file());
        let path = path.with_context(|| {
            format!(
                "mcd-os is neither beside {} nor at {}",
                own.display(),
                program::LINK
            )
        })?;
        Ok(Self { path })
    }

    pub(crate) fn ask(&self, verb: &Verb) -> anyhow::Result<Vec<u8>> {
        let words = verb.to_arguments();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let program = Program::Helper(&self.path);
        Ok(process::run(program, &words, ASK_DEADLINE)?)
    }

    /// The deployments and what is under way.
    pub(crate) fn view(&self) -> anyhow::Result<View> {
        let output = self.ask(&Verb::Deployments { json: true })?;
        let text = String::from_utf8(output).context("mcd-os said something else than text")?;
        serde_json::from_str(&text).context("cannot understand mcd-os")
    }

    /// Has it act as [`Self::act`] does, and leave its report at a path.
    pub(crate) fn act_and_report(&self, verb: &Verb, path: &str) -> anyhow::Result<ProcessExit> {
        let words = verb.to_arguments();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.show(&[&["--report", path], words.as_slice()].concat())
    }

    /// Has it act, with its messages shown as they come.
    pub(crate) fn act(&self, verb: &Verb) -> anyhow::Result<ProcessExit> {
        let words = verb.to_arguments();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.show(&words)
    }

    fn show(&self, words: &[&str]) -> anyhow::Result<ProcessExit> {
        let program = Program::Helper(&self.path);
        Ok(process::show(program, words, ACT_DEADLINE)?)
    }
}

/// Reboots the host. `unless` says what is so far where it does not.
pub(crate) fn reboot(unless: &'static str) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let reboot = async { SystemdClient::connect(None).await?.reboot().await };
    match runtime.block_on(reboot) {
        // The host may go down before the response is through.
        Err(error) if !error.is_answer_lost() => Err(error).context(unless),
        Ok(()) | Err(_) => Ok(ExitCode::SUCCESS),
    }
}

/// The helper's exit code as this program's.
pub(crate) fn exit_code(code: i32) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::from(
        u8::try_from(code).context("mcd-os ended strangely")?,
    ))
}
