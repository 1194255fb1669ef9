//! Where everything is: the checkout, the cache, what is built; and the cores that build it.
#![expect(
    clippy::disallowed_methods,
    reason = "the runner of the suites runs programs and reads its settings; it ships nowhere"
)]

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};

use crate::cores::Cores;

/// The checkout and the cache.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) cache: PathBuf,
    /// None where nothing is built.
    pub(crate) cores: Option<Arc<Cores>>,
}

impl Workspace {
    /// The checkout that this program was built from, and `$SLIPWAY_CACHE`.
    ///
    /// # Errors
    ///
    /// The checkout is gone.
    pub(crate) fn find() -> Result<Self> {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
        let root = PathBuf::from(root)
            .canonicalize()
            .with_context(|| format!("cannot find {root}"))?;
        let cache = setting("SLIPWAY_CACHE").unwrap_or_else(|| "/var/cache/slipway".to_owned());
        Ok(Self {
            root,
            cache: cache.into(),
            cores: None,
        })
    }

    /// The same, with cores of this machine for its compilers.
    ///
    /// # Errors
    ///
    /// The pipe that shares them cannot be made.
    pub(crate) fn with(mut self, count: fn() -> usize) -> Result<Self> {
        self.cores = Some(Arc::new(Cores::share(&self, count())?));
        Ok(self)
    }

    /// A command that compiles: it shares the cores with others.
    pub(crate) fn compiler(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.command(program);
        if let Some(cores) = &self.cores {
            cores.give(&mut command);
        }
        command
    }

    /// Folder of the stripped programs.
    pub(crate) fn programs(&self) -> PathBuf {
        self.root.join("target/slipway")
    }

    /// Cargo's target directory.
    pub(crate) fn built(&self) -> PathBuf {
        setting("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), PathBuf::from)
    }

    /// A command in the checkout, without input.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).stdin(Stdio::null());
        command
    }

    /// What a command prints, without the last line's end.
    ///
    /// # Errors
    ///
    /// It cannot be run, or fails; with what it said.
    pub(crate) fn output(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let output = self
            .command(program)
            .args(arguments)
            .output()
            .with_context(|| format!("cannot run {program}"))?;
        ensure!(
            output.status.success(),
            "{program} {} failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
        Ok(String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned())
    }

    /// Files that git knows or would know, relative to the checkout.
    ///
    /// # Errors
    ///
    /// Git cannot be run.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        let list = [
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ];
        let names = self.output("git", &list)?;
        Ok(names
            .split('\0')
            .filter(|name| !name.is_empty())
            .map(PathBuf::from)
            .collect())
    }

    /// Abbreviated commit that is checked out.
    ///
    /// # Errors
    ///
    /// Git cannot be run.
    pub(crate) fn commit(&self) -> Result<String> {
        self.output("git", &["rev-parse", "--short=12", "HEAD"])
    }

    /// The folder of upstream's data: see `docs/development/upstream-data.md`.
    pub(crate) fn upstream_data(&self) -> PathBuf {
        setting("SLIPWAY_DATA").map_or_else(|| self.root.join("../shared/data"), PathBuf::from)
    }

    /// Whether everything is committed.
    ///
    /// # Errors
    ///
    /// Git cannot be run.
    pub(crate) fn is_clean(&self) -> Result<bool> {
        Ok(self.output("git", &["status", "--porcelain"])?.is_empty())
    }
}

/// A setting of the environment; none where it is empty.
pub(crate) fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Seconds since 1970.
pub(crate) fn now_secs() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
