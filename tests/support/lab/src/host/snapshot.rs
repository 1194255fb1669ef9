//! A host's disks as they are at one moment, and a host that goes on from there.
//!
//! What is on its file systems when every process of a host is killed is what the next boot finds.
//! Copying them while all stands still gives just that, without killing anything.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, ensure};
use nix::unistd::syncfs;

use super::{Host, Images};
use crate::disk::{self, Mounted};
use crate::place::Lab;
use crate::program::{command, run};

/// Room in a disk cache. Its file takes what is used of it.
const CACHE_BYTES: u64 = 64 << 30;

/// Numbers folders of disks, so that two of one disk cache have two names.
static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// A folder in which copies of disks share what is equal, so that one takes neither time nor room:
/// XFS in a file. Without one a copy takes a second.
#[derive(Clone, Debug)]
pub struct DiskCache(Arc<Mounted>);

/// Disks as they were. Removed when dropped.
#[derive(Debug)]
pub struct Snapshot {
    images: Images,
}

impl DiskCache {
    /// Makes one in a lab.
    ///
    /// # Errors
    ///
    /// The lab has one, or `mkfs.xfs` is missing.
    pub fn create(lab: &Lab) -> Result<Self> {
        let (image, at) = (
            lab.dir().join("disk-cache.img"),
            lab.dir().join("disk-cache"),
        );
        fs::create_dir(&at).with_context(|| format!("cannot make {}", at.display()))?;
        run(command("truncate")
            .arg(format!("--size={CACHE_BYTES}"))
            .arg(&image))?;
        run(command("mkfs.xfs")
            .args(["-q", "-m", "reflink=1"])
            .arg(&image))?;
        Ok(Self(Arc::new(Mounted::new(&image, 0, &at)?)))
    }

    /// Where it is.
    pub(crate) fn dir(&self) -> &Path {
        self.0.path()
    }
}

impl Host {
    /// Copies its disks as they are now, page cache included.
    ///
    /// # Errors
    ///
    /// No room.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let disks = &self.machine.disks;
        for at in [disks.sysroot(), disks.boot()] {
            syncfs(File::open(at)?).with_context(|| format!("cannot sync {}", at.display()))?;
        }
        Ok(Snapshot {
            images: self.machine.images.copy()?,
        })
    }

    /// Gives it copies of other disks, its own or another host's. It is off then.
    ///
    /// # Errors
    ///
    /// It is on, or a pod is on it.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        ensure!(!self.is_on(), "the host {} is on", self.name());
        if let Some(supervisor) = self.supervisor.take() {
            drop(supervisor.join());
        }
        let images = snapshot.images.copy()?;
        let name = self.name().to_owned();
        let machine = Arc::get_mut(&mut self.machine);
        let machine = machine.with_context(|| format!("something holds the host {name}"))?;
        // Elsewhere than the old ones, which are unmounted when they are dropped.
        let sysroot = images.dir()?.join("sysroot");
        fs::create_dir(&sysroot)?;
        machine.disks = images.mount(&sysroot)?;
        std::mem::replace(&mut machine.images, images).remove()
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // What is left goes with the lab.
        drop(self.images.remove());
    }
}

impl Images {
    /// Copies them into a new folder beside their own.
    fn copy(&self) -> Result<Self> {
        let all = self.dir()?.parent().context("disks in no folder")?;
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let dir = all.join(format!("disks-{number}"));
        fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let copy = Self {
            root: dir.join("root.img"),
            boot: dir.join("boot.img"),
            boot_offset: self.boot_offset,
        };
        disk::copy(&self.root, &copy.root)?;
        disk::copy(&self.boot, &copy.boot)?;
        Ok(copy)
    }

    /// Removes their folder.
    fn remove(&self) -> Result<()> {
        let dir = self.dir()?;
        fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))
    }

    /// The folder that is theirs alone.
    fn dir(&self) -> Result<&Path> {
        self.root.parent().context("disks in no folder")
    }
}
