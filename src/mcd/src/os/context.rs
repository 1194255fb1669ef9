//! What every verb acts with.

use std::time::Duration;

use anyhow::Context as _;
use host::files::Root;
use host::journal::{Lock, Moment, Store};
use host::ostree::{Deployments, live_root};
use jiff::Timestamp;
use tokio::runtime::Runtime;

/// How long another program that acts on this host is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// This boot's name.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The host this runs on.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) root: Root,
    pub(crate) runtime: Runtime,
    pub(crate) moment: Moment,
}

/// The deployments, locked against whoever else writes them.
pub(crate) fn lock_deployments() -> anyhow::Result<Deployments> {
    let mut deployments = Deployments::open()?;
    deployments.lock(PATIENCE)?;
    Ok(deployments)
}

impl Context {
    pub(crate) fn open() -> anyhow::Result<Self> {
        let root = live_root().context("cannot open the host's root")?;
        let boot_id = root.read(BOOT_ID)?.context("the kernel names no boot")?;
        let boot_id = String::from_utf8_lossy(&boot_id).trim().to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        Ok(Self {
            root,
            runtime,
            moment: Moment {
                boot_id,
                now: Timestamp::now(),
            },
        })
    }

    pub(crate) fn store(&self) -> Store<'_> {
        Store::new(&self.root)
    }

    /// The right to act, against the daemon's helper, pivot and guard.
    pub(crate) fn lock(&self) -> anyhow::Result<Lock> {
        Ok(self.store().lock(PATIENCE)?)
    }
}
