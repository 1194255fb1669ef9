//! The cores that builds share: two compilers on one core take longer than one after the other.
//!
//! A job server of GNU make over a named pipe, which has a byte for each core that no one uses.
//! Cargo takes one for each process beyond its first, and keeps it while it has work. So what Go
//! needs is taken out before anything starts, and comes back when Go has ended.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, Result};

use crate::workspace::Workspace;

/// The pipe, while this is alive.
#[derive(Debug)]
pub(crate) struct Cores {
    path: PathBuf,
    count: usize,
    /// Open as long as the bytes are to stay in the pipe.
    pipe: File,
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
        Ok(Self { path, count, pipe })
    }

    /// Has a command, and what it starts, take its cores from here.
    pub(crate) fn give(&self, command: &mut Command) {
        let flags = format!(
            "-j{} --jobserver-auth=fifo:{}",
            self.count,
            self.path.display()
        );
        command.env("CARGO_MAKEFLAGS", flags);
    }

    /// Takes half of them out, before anything runs that would keep them.
    ///
    /// # Errors
    ///
    /// The pipe cannot be read.
    pub(crate) fn reserve(self: &Arc<Self>) -> Result<Reserved> {
        let mut taken = vec![0; (self.count / 2).min(self.count.saturating_sub(1))];
        (&self.pipe).read_exact(&mut taken)?;
        Ok(Reserved {
            cores: Arc::clone(self),
            taken,
        })
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        // What remains is a name in a folder of logs.
        drop(fs::remove_file(&self.path));
    }
}

/// Cores that come back to the others when this is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    cores: Arc<Cores>,
    taken: Vec<u8>,
}

impl Reserved {
    /// Has a Go program, and what it starts, use these only. On one core that is the one that
    /// cargo has, too.
    pub(crate) fn give(&self, command: &mut Command) {
        command.env("GOMAXPROCS", self.taken.len().max(1).to_string());
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // Without them cargo goes on with the core that it always has.
        drop((&self.cores.pipe).write_all(&self.taken));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_comes_back() {
        let root = tempfile::tempdir().unwrap();
        let workspace = Workspace {
            root: root.path().to_owned(),
            cache: root.path().to_owned(),
            cores: None,
        };
        for (count, kept) in [(1, 0), (2, 0), (3, 1), (8, 3)] {
            let cores = Arc::new(Cores::share(&workspace, count).unwrap());
            let reserved = cores.reserve().unwrap();
            let free = || {
                let bytes = rustix::io::ioctl_fionread(&cores.pipe).unwrap();
                usize::try_from(bytes).unwrap()
            };
            assert_eq!(free(), kept, "{count}");
            drop(reserved);
            assert_eq!(free(), count - 1, "{count}");
        }
    }
}
