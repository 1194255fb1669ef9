//! File systems in files, so that a host's mounts, room and read-only state are its own.
//!
//! A bind mount would share the machine's superblock: one `mount -o remount,ro` inside a host would
//! be felt outside. It also lets a test give a host a `/boot` that is too small.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::program::{command, run};

/// A mounted file system. Unmounted when dropped; its image stays.
#[derive(Debug)]
pub(crate) struct Mounted {
    at: PathBuf,
}

/// Makes an empty ext4 in the new file `image`, which takes room as it fills.
pub(crate) fn make(image: &Path, bytes: u64, label: &str) -> Result<()> {
    run(command("truncate")
        .arg(format!("--size={bytes}"))
        .arg(image))?;
    // Nothing kept for root, so that the room that is reported is there.
    run(command("mkfs.ext4")
        .args(["-q", "-m", "0", "-L", label])
        .arg(image))?;
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
    /// Mounts an image on an existing directory.
    pub(crate) fn new(image: &Path, at: &Path) -> Result<Self> {
        run(command("mount")
            .args(["-o", "loop,noatime"])
            .args([image, at]))?;
        Ok(Self { at: at.to_owned() })
    }

    /// Unmounts it now, so that its image is whole.
    ///
    /// # Errors
    ///
    /// Something in it is in use.
    pub(crate) fn unmount(self) -> Result<()> {
        run(command("umount").arg(&self.at)).map(drop)
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
