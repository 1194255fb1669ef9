//! Control groups of hosts: what is in one can be killed at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::PATIENCE;

/// Above the groups of all labs.
const ALL_LABS: &str = "slipway-lab";

/// How long killed processes may take to be gone.
const GONE_WITHIN: Duration = PATIENCE;

/// A group in the unified hierarchy, and of the same name in systemd's own where that is another.
#[derive(Clone, Debug)]
pub(crate) struct Cgroup {
    /// The unified one first.
    dirs: Vec<PathBuf>,
}

impl Cgroup {
    /// Names the group `name`, which need not exist.
    ///
    /// # Errors
    ///
    /// This machine has no unified hierarchy mounted.
    pub(crate) fn named(name: impl AsRef<Path>) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("cannot read the mounts")?;
        let hierarchies = hierarchies(&mounts);
        ensure!(!hierarchies.is_empty(), "no cgroup2 file system is mounted");
        let dirs = hierarchies
            .iter()
            .map(|at| at.join(ALL_LABS).join(name.as_ref()))
            .collect();
        Ok(Self { dirs })
    }

    /// A group inside this one.
    pub(crate) fn child(&self, name: &str) -> Self {
        Self {
            dirs: self.dirs.iter().map(|dir| dir.join(name)).collect(),
        }
    }

    /// Makes the group where it does not exist.
    pub(crate) fn make(&self) -> Result<()> {
        for dir in &self.dirs {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        Ok(())
    }

    /// Files into which a process writes its id to be in the group.
    pub(crate) fn entrances(&self) -> Vec<PathBuf> {
        self.dirs
            .iter()
            .map(|dir| dir.join("cgroup.procs"))
            .collect()
    }

    /// Sends SIGKILL to every process in it and below, all at once, and waits until they are gone.
    #[expect(
        clippy::disallowed_methods,
        reason = "cgroupfs is no file system to sync"
    )]
    pub(crate) fn kill(&self) -> Result<()> {
        let Some(unified) = self.dirs.first().filter(|dir| dir.exists()) else {
            return Ok(());
        };
        fs::write(unified.join("cgroup.kill"), "1")
            .with_context(|| format!("cannot kill what is in {}", unified.display()))?;
        let deadline = Instant::now() + GONE_WITHIN;
        while fs::read_to_string(unified.join("cgroup.events"))?.contains("populated 1") {
            if Instant::now() >= deadline {
                bail!("what was killed in {} is still there", unified.display());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Kills what is in it and removes it. What is just being put there is killed, too.
    pub(crate) fn clear(&self) -> Result<()> {
        let deadline = Instant::now() + GONE_WITHIN;
        loop {
            self.kill()?;
            let removed = self.dirs.iter().try_for_each(|dir| remove(dir));
            if removed.is_ok() || Instant::now() >= deadline {
                return removed;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn remove(dir: &Path) -> Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(dir).with_context(|| format!("cannot remove {}", dir.display()))
}

/// Where the unified hierarchy and systemd's are mounted, in that order.
fn hierarchies(mounts: &str) -> Vec<PathBuf> {
    let of = |wanted: &dyn Fn(&str, &str) -> bool| {
        mounts.lines().find_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (at, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
            wanted(kind, options).then(|| PathBuf::from(at))
        })
    };
    let Some(unified) = of(&|kind, _| kind == "cgroup2") else {
        return Vec::new();
    };
    let systemd = of(&|kind, options| {
        kind == "cgroup" && options.split(',').any(|option| option == "name=systemd")
    });
    std::iter::once(unified).chain(systemd).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_machine_has_two_hierarchies() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n\
                      cgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        let expected = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"].map(PathBuf::from);
        assert_eq!(hierarchies(mounts), expected);
    }

    #[test]
    fn a_unified_machine_has_one_hierarchy() {
        let mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        assert_eq!(hierarchies(mounts), [PathBuf::from("/sys/fs/cgroup")]);
    }
}
