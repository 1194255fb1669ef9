//! The cores that Go may use, of those that it shares with cargo.
#![expect(
    clippy::disallowed_methods,
    reason = "the lab builds programs; it is no part of what it tests"
)]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::thread;

use anyhow::{Context as _, Result};

/// Cores that were taken out of the pipe of the runner's job server, and go back at the end.
#[derive(Debug)]
pub(crate) struct Share {
    count: usize,
    pipe: Option<File>,
    taken: Vec<u8>,
}

impl Share {
    /// Half of the machine's cores, as soon as cargo leaves them; all where there is no pipe
    /// (`SLIPWAY_CORES`): then nothing else is built.
    ///
    /// # Errors
    ///
    /// The pipe cannot be read.
    pub(crate) fn take() -> Result<Self> {
        let here = thread::available_parallelism().map_or(1, usize::from);
        match std::env::var_os("SLIPWAY_CORES") {
            Some(path) => Self::of(Path::new(&path), here),
            None => Ok(Self {
                count: here,
                pipe: None,
                taken: Vec::new(),
            }),
        }
    }

    /// Half of so many, of which cargo keeps one for itself.
    fn of(path: &Path, here: usize) -> Result<Self> {
        let cannot = || format!("cannot take cores from {}", path.display());
        let pipe = File::options().read(true).write(true).open(path);
        let mut pipe = pipe.with_context(cannot)?;
        let mut taken = vec![0; here / 2];
        pipe.read_exact(&mut taken).with_context(cannot)?;
        Ok(Self {
            count: taken.len().max(1),
            pipe: Some(pipe),
            taken,
        })
    }

    /// How many.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(pipe) = &mut self.pipe {
            // Without them cargo goes on with the core that it always has.
            drop(pipe.write_all(&self.taken));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn half_of_the_cores_are_taken_and_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        let mut pipe = File::options().read(true).write(true).open(&path).unwrap();
        pipe.write_all(b"+++").unwrap();
        let share = Share::of(&path, 4).unwrap();
        assert_eq!(share.count(), 2);
        // One is left; the others come back.
        let mut left = [0; 1];
        pipe.read_exact(&mut left).unwrap();
        drop(share);
        let mut back = [0; 2];
        pipe.read_exact(&mut back).unwrap();
        assert_eq!(back, *b"++");
        // One core: cargo's own, and nothing to wait for.
        assert_eq!(Share::of(&path, 1).unwrap().count(), 1);
    }
}
