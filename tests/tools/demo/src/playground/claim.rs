//! One cluster at a time has the playground's folder: a locked file beside it, which names the
//! process.
//!
//! The lock is of this file alone; `end-playground.sh` takes it, too.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;

/// The claim. Dropped, another one may be made.
#[derive(Debug)]
pub(super) struct Claim {
    file: File,
}

impl Claim {
    /// Claims the folder `out`.
    ///
    /// # Errors
    ///
    /// A cluster has it; with its process.
    pub(super) fn take(out: &Path) -> Result<Self> {
        let path = path(out);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let mut file = file.with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(refusal(&read(&mut file), out)),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        Ok(Self { file })
    }

    /// Names this process in it.
    pub(super) fn sign(&mut self) -> Result<()> {
        self.file.set_len(0)?;
        let now = Timestamp::now().strftime("%Y-%m-%d %H:%M UTC");
        writeln!(self.file, "{} {now}", std::process::id())?;
        Ok(())
    }
}

/// The file.
fn path(out: &Path) -> PathBuf {
    out.with_extension("lock")
}

fn read(file: &mut File) -> String {
    let mut text = String::new();
    // What cannot be read says nothing of its owner, and the lock is held all the same.
    drop(file.read_to_string(&mut text));
    text
}

/// Why there is no second cluster. `owner` is the process of the first, and since when.
fn refusal(owner: &str, out: &Path) -> String {
    let (process, since) = owner.trim().split_once(' ').unwrap_or(("?", "?"));
    format!(
        "a playground runs already: process {process}, since {since}, with {}; \
         Ctrl-D in its shell or `make playground END=1` ends it",
        out.join(super::environment::FILE).display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_claim_is_refused_with_the_first_ones_process_until_that_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("playground");
        let mut first = Claim::take(&out).unwrap();
        first.sign().unwrap();
        let error = Claim::take(&out).unwrap_err().to_string();
        let process = format!("process {}, since 2", std::process::id());
        assert!(error.contains(&process), "{error}");
        assert!(error.contains("playground/cluster.env"), "{error}");
        drop(first);
        Claim::take(&out).unwrap();
    }
}
