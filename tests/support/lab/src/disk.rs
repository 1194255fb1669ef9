//! File systems in files, so that a host's mounts, room and read-only state are its own.
//!
//! A bind mount would share the machine's superblock: one `mount -o remount,ro` inside a host would
//! be felt outside. It also lets a test give a host a `/boot` that is too small.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::PATIENCE;
use crate::program::{command, run};

/// A mounted file system. Unmounted when dropped; its image stays.
#[derive(Debug)]
pub(crate) struct Mounted {
    image: PathBuf,
    at: PathBuf,
}

/// How long namespaces that were made while a file system was mounted may hold on to it. A host or
/// a pod that is being started has a copy of all mounts, until it has a root of its own.
const LET_GO_WITHIN: Duration = PATIENCE;

const PAUSE: Duration = Duration::from_millis(20);

/// Makes the new file `image` with an empty ext4 of `bytes` behind the first `offset` bytes. It
/// takes room as it fills.
pub(crate) fn make(image: &Path, offset: u64, bytes: u64, label: &str) -> Result<()> {
    run(command("truncate")
        .arg(format!("--size={}", offset + bytes))
        .arg(image))?;
    // Nothing kept for root, so that the room that is reported is there.
    run(command("mkfs.ext4")
        .args([
            "-q",
            "-m",
            "0",
            "-L",
            label,
            "-E",
            &format!("offset={offset}"),
        ])
        .arg(image)
        .arg(format!("{}k", bytes / 1024)))?;
    Ok(())
}

/// Copies an image, holes as holes.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    run(command("cp")
        .args(["--sparse=always", "--reflink=auto"])
        .args([from, to]))?;
    Ok(())
}

impl Mounted {
    /// Mounts the file system behind the first `offset` bytes of an image on an existing directory.
    pub(crate) fn new(image: &Path, offset: u64, at: &Path) -> Result<Self> {
        let options = format!("loop,noatime,offset={offset}");
        run(command("mount").args(["-o", &options]).args([image, at]))?;
        Ok(Self {
            image: image.to_owned(),
            at: at.to_owned(),
        })
    }

    /// Unmounts it now, so that its image is whole.
    ///
    /// # Errors
    ///
    /// Something in it is in use, or it is mounted elsewhere, too.
    pub(crate) fn unmount(self) -> Result<()> {
        run(command("umount").arg(&self.at))?;
        let until = Instant::now() + LET_GO_WITHIN;
        loop {
            // The loop device goes with the last mount, after everything was written.
            let devices = run(command("losetup").arg("--associated").arg(&self.image))?;
            if devices.is_empty() {
                return Ok(());
            }
            ensure!(
                Instant::now() < until,
                "{} stays mounted somewhere: {devices}",
                self.image.display()
            );
            std::thread::sleep(PAUSE);
        }
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.at
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a host that was killed a moment ago may still be giving up its mounts. If it is
        // not mounted any more there is nothing to do.
        drop(run(command("umount").arg("--lazy").arg(&self.at)));
    }
}
