//! `mcd-os` beside this program: what `mcd pivot` and `mcd status` have it do on the host they run
//! on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use host::process::{self, ProcessExit, Program};

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

    /// What it prints.
    pub(crate) fn ask(&self, verb: &Verb) -> anyhow::Result<Vec<u8>> {
        let words = verb.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let program = Program::Helper(&self.path);
        Ok(process::run(program, &words, ASK_DEADLINE)?)
    }

    /// Has it act, with its messages shown as they come.
    pub(crate) fn act(&self, verb: &Verb) -> anyhow::Result<ProcessExit> {
        let words = verb.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let program = Program::Helper(&self.path);
        Ok(process::show(program, &words, ACT_DEADLINE)?)
    }
}
