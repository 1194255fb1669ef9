//! The cores that builds share: two compilers on one core take longer than one after the other.
//!
//! A job server of GNU make over a named pipe, which has a byte for each core that no one uses.
//! Cargo takes one for each process beyond its first; the maker of the control plane takes its
//! share for as long as Go runs.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result};

use crate::workspace::Workspace;

/// The pipe, while this is alive.
#[derive(Debug)]
pub(crate) struct Cores {
    path: PathBuf,
    count: usize,
    /// Keeps the bytes in the pipe.
    _pipe: File,
}

impl Cores {
    /// Shares so many.
    ///
    /// # Errors
    ///
    /// The pipe cannot be made.
    pub(crate) fn share(workspace: &Workspace, count: usize) -> Result<Self> {
        let folder = workspace.root.join("target/logs");
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("cores-{}", std::process::id()));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        let shown = path.to_str().context("the checkout's path is not UTF-8")?;
        workspace.output("mkfifo", &["--mode=600", shown])?;
        // Open for both, so that opening waits for no one.
        let mut pipe = File::options().read(true).write(true).open(&path)?;
        pipe.write_all(&vec![b'+'; count.saturating_sub(1)])?;
        Ok(Self {
            path,
            count,
            _pipe: pipe,
        })
    }

    /// Has a command, and what it starts, take its cores from here.
    pub(crate) fn give(&self, command: &mut Command) {
        let flags = format!(
            "-j{} --jobserver-auth=fifo:{}",
            self.count,
            self.path.display()
        );
        command.env("CARGO_MAKEFLAGS", flags);
        command.env("SLIPWAY_CORES", &self.path);
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        // What remains is a name in a folder of logs.
        drop(fs::remove_file(&self.path));
    }
}

/// All cores of this machine.
pub(crate) fn all() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Half of them, where something else runs beside the build.
pub(crate) fn half() -> usize {
    (all() / 2).max(1)
}
