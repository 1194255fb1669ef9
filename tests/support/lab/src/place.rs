//! One lab's place on this machine: a folder, a network, a control group; all gone with it.
//!
//! Labs are numbered by the first free number, and everything of one is named by it, so that what a
//! killed one leaves is found and removed by the next.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context as _, Result, bail, ensure};

use crate::cgroup::Cgroup;
use crate::inotify;
use crate::network::{self, Network, Port, Tap};
use crate::program::{command, run};

/// Folder of all labs.
const ALL_LABS: &str = "/var/tmp/slipway-lab";

/// Held by a lab as long as it lives.
const ALIVE: &str = "alive";

/// Where hosts and their registry live. Clones are handles on the same one; it is removed when the
/// last goes, and each host holds one.
#[derive(Clone, Debug)]
pub struct Lab(Arc<Place>);

#[derive(Debug)]
struct Place {
    id: String,
    dir: PathBuf,
    network: Network,
    cgroup: Cgroup,
    ports: AtomicU8,
    /// Locked.
    _alive: File,
}

impl Lab {
    /// Takes the first free place, removing what killed labs left.
    ///
    /// # Errors
    ///
    /// Not root, or a bridge, folder or group cannot be made.
    pub fn create() -> Result<Self> {
        ensure!(nix::unistd::geteuid().is_root(), "a lab needs root");
        inotify::raise()?;
        let all = Path::new(ALL_LABS);
        fs::create_dir_all(all).with_context(|| format!("cannot make {ALL_LABS}"))?;
        let _turn = turn()?;

        for number in 0..=u8::MAX {
            let id = id(number);
            let dir = all.join(&id);
            if dir.exists() && !is_alive(&dir)? {
                sweep(&id, &dir).with_context(|| format!("cannot remove the dead lab {id}"))?;
            }
        }
        for number in 0..=u8::MAX {
            let id = id(number);
            let dir = all.join(&id);
            if dir.exists() || !Network::is_free(number)? {
                continue;
            }
            fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
            let alive = File::create(dir.join(ALIVE))?;
            alive.try_lock()?;
            network::sweep(&id)?;
            let network = Network::create(&id, number)?;
            let cgroup = Cgroup::named(&id)?;
            cgroup.make()?;
            let ports = AtomicU8::new(0);
            return Ok(Self(Arc::new(Place {
                id,
                dir,
                network,
                cgroup,
                ports,
                _alive: alive,
            })));
        }
        bail!("no number is free for a lab")
    }

    /// Its folder, for files that go with it.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// The address of this machine that hosts reach.
    pub fn address(&self) -> Ipv4Addr {
        self.0.network.address()
    }

    /// What names of processes, links and machines of this lab begin with.
    pub(crate) fn id(&self) -> &str {
        &self.0.id
    }

    pub(crate) fn cgroup(&self) -> &Cgroup {
        &self.0.cgroup
    }

    /// A new machine's end of the network.
    pub(crate) fn plug_machine(&self) -> Result<Tap> {
        let index = self.0.ports.fetch_add(1, Ordering::Relaxed);
        self.0.network.plug_machine(index)
    }

    /// A new host's end of the network.
    pub(crate) fn plug(&self, name: &str) -> Result<Port> {
        let index = self.0.ports.fetch_add(1, Ordering::Relaxed);
        self.0.network.plug(name, index)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // If something cannot be removed, the next lab's sweep tries again. Emptying takes long,
        // and needs no turn: as long as `alive` is there and locked, nothing sweeps.
        let emptied = empty(&self.dir, &self.cgroup);
        drop(emptied.and_then(|()| {
            let _turn = turn()?;
            remove(&self.dir)
        }));
    }
}

/// Waits until no other lab is being made, swept or removed, and keeps others waiting until
/// dropped.
fn turn() -> Result<File> {
    let path = Path::new(ALL_LABS).join("turn");
    let turn = File::create(&path).with_context(|| format!("cannot open {}", path.display()))?;
    turn.lock().context("cannot wait for other labs")?;
    Ok(turn)
}

/// What everything of the lab of this number is named by.
fn id(number: u8) -> String {
    format!("slab{number}")
}

fn is_alive(dir: &Path) -> Result<bool> {
    match File::open(dir.join(ALIVE)) {
        Ok(file) => Ok(file.try_lock().is_err()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot look into {}", dir.display())),
    }
}

fn sweep(id: &str, dir: &Path) -> Result<()> {
    let cgroup = Cgroup::named(id)?;
    cgroup.kill()?;
    network::sweep(id)?;
    empty(dir, &cgroup)?;
    remove(dir)
}

/// Ends what runs in a lab and removes its files, all but the one that says whether it lives.
fn empty(dir: &Path, cgroup: &Cgroup) -> Result<()> {
    cgroup.clear()?;
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    // The last is the innermost.
    for line in mounts.lines().rev() {
        let at = Path::new(line.split(' ').nth(1).unwrap_or_default());
        if at.starts_with(dir) {
            run(command("umount").arg("--lazy").arg(at))?;
        }
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(&path)
        } else if entry.file_name() != ALIVE {
            fs::remove_file(&path)
        } else {
            continue;
        }
        .with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

/// Removes an emptied lab. Only the one whose turn it is may: in between, it looks like a dead one.
fn remove(dir: &Path) -> Result<()> {
    match fs::remove_file(dir.join(ALIVE)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => fs::remove_dir(dir),
    }
    .with_context(|| format!("cannot remove {}", dir.display()))
}
