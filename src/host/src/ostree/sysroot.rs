//! The sysroot: opens and locks it, and finds its deployments by id.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ostree_ext::gio::{self, Cancellable};
use ostree_ext::ostree;
use ostree_ext::prelude::*;

use super::{Error, ErrorContext as _, Result, freeze, label};
use crate::files::{Labels, Root};
use crate::journal::DeploymentId;

/// Pause between attempts to take a held lock.
const LOCK_PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub struct Deployments {
    sysroot: ostree::Sysroot,
    is_locked: bool,
    /// The new deployment, which no boot entry names yet.
    pub(super) made: Option<ostree::Deployment>,
}

impl Deployments {
    /// The deployments of this host. Call [`super::enter_namespace`] before writing them.
    ///
    /// # Errors
    /// [`Error::Ostree`], [`Error::NotBooted`].
    pub fn open() -> Result<Self> {
        let sysroot = ostree::Sysroot::new_default();
        sysroot.set_mount_namespace_in_use();
        let deployments = Self::load(sysroot)?;
        if deployments.sysroot.booted_deployment().is_none() {
            return Err(Error::NotBooted);
        }
        Ok(deployments)
    }

    /// The deployments below another root; the first counts as booted.
    ///
    /// # Errors
    /// [`Error::Ostree`].
    pub fn open_at(path: &Path) -> Result<Self> {
        Self::load(ostree::Sysroot::new(Some(&gio::File::for_path(path))))
    }

    fn load(sysroot: ostree::Sysroot) -> Result<Self> {
        sysroot
            .load(Cancellable::NONE)
            .during(|| "load the deployments".to_owned())?;
        Ok(Self {
            sysroot,
            is_locked: false,
            made: None,
        })
    }

    /// Takes ostree's lock for writers of deployments, and makes `/sysroot` and `/boot` writable.
    ///
    /// # Errors
    /// [`Error::Locked`] if another program still holds it after `patience`.
    pub fn lock(&mut self, patience: Duration) -> Result<()> {
        let until = Instant::now() + patience;
        while !self.is_locked {
            let locked = self.sysroot.try_lock();
            let is_late = Instant::now() >= until;
            self.is_locked = match locked {
                Err(error) if error.matches(gio::IOErrorEnum::Busy) && !is_late => {
                    freeze::thaw(&self.base().join("boot"));
                    false
                }
                locked => locked.during(|| "lock the deployments".to_owned())?,
            };
            if !self.is_locked {
                if is_late {
                    return Err(Error::Locked);
                }
                thread::sleep(LOCK_PAUSE);
            }
        }
        self.reload()
    }

    /// Makes the repository sync each object on its own from now on. This is slower, but avoids one
    /// long sync at the end, in which a database on the same disk would miss its deadlines. The
    /// lock must be held.
    ///
    /// # Errors
    /// [`Error::Ostree`].
    pub fn sync_each_object(&self) -> Result<()> {
        const GROUP: &str = "core";
        const KEY: &str = "per-object-fsync";
        let repo = self.sysroot.repo();
        let config = repo.copy_config();
        if config.boolean(GROUP, KEY).is_ok_and(|is_set| is_set) {
            return Ok(());
        }
        config.set_boolean(GROUP, KEY, true);
        repo.write_config(&config)
            .during(|| format!("set {GROUP}.{KEY} of the repository"))
    }

    /// Releases the lock.
    pub fn unlock(&mut self) {
        if self.is_locked {
            self.sysroot.unlock();
            self.is_locked = false;
        }
    }

    /// Reads the deployments again if another program changed them.
    pub(super) fn reload(&self) -> Result<()> {
        let loaded = self.sysroot.load_if_changed(Cancellable::NONE);
        loaded
            .map(drop)
            .during(|| "load the deployments".to_owned())
    }

    pub(super) fn current(&self) -> Result<ostree::Deployment> {
        let first = || self.sysroot.deployments().into_iter().next();
        self.sysroot
            .booted_deployment()
            .or_else(first)
            .ok_or(Error::NotBooted)
    }

    /// A deployment by id, including the new one.
    pub(super) fn find(&self, id: &DeploymentId) -> Result<ostree::Deployment> {
        let deployments = self.sysroot.deployments();
        let mut all = self.made.iter().chain(&deployments);
        let found = all.find(|deployment| id_of(deployment) == *id);
        found.cloned().ok_or_else(|| Error::NoDeployment {
            deployment: id.to_string(),
        })
    }

    /// The directory of a deployment.
    pub(super) fn path_of(&self, deployment: &ostree::Deployment) -> PathBuf {
        let directory = self.sysroot.deployment_directory(deployment);
        directory.path().unwrap_or_default()
    }

    /// A deployment's root, with its state root's `/var` and the labels of its own policy.
    pub(super) fn root_of(&self, deployment: &ostree::Deployment) -> Result<Root> {
        let path = self.path_of(deployment);
        let booted = self.sysroot.booted_deployment();
        let var = if booted.is_some_and(|booted| booted.osname() == deployment.osname()) {
            // `/var` may be a file system of its own: the state root's directory is empty then.
            Some(PathBuf::from("/var"))
        } else {
            // …/<osname>/deploy/<checksum>.<serial>, and …/<osname>/var.
            let state_root = path.ancestors().nth(2);
            state_root.map(|state_root| state_root.join("var"))
        };
        let labels = label::Policy::of(&path)?;
        let labels = labels.map(|policy| Box::new(policy) as Box<dyn Labels>);
        Ok(Root::open(&path, var.as_deref())?.with_labels(labels))
    }

    pub(super) fn sysroot(&self) -> &ostree::Sysroot {
        &self.sysroot
    }

    pub(super) fn repo(&self) -> ostree::Repo {
        self.sysroot.repo()
    }

    /// The sysroot's path on the running host.
    pub(super) fn base(&self) -> PathBuf {
        self.sysroot
            .path()
            .path()
            .unwrap_or_else(|| PathBuf::from("/"))
    }
}

/// The running host's root, with the labels of its policy.
///
/// # Errors
/// [`Error::Files`], and those of reading the policy.
pub fn live_root() -> Result<Root> {
    let path = Path::new("/");
    let labels = label::Policy::of(path)?;
    let labels = labels.map(|policy| Box::new(policy) as Box<dyn Labels>);
    Ok(Root::open(path, None)?.with_labels(labels))
}

/// The id of a deployment.
pub(super) fn id_of(deployment: &ostree::Deployment) -> DeploymentId {
    DeploymentId {
        checksum: deployment.csum().into(),
        serial: deployment.deployserial(),
    }
}

impl Drop for Deployments {
    fn drop(&mut self) {
        self.unlock();
    }
}
