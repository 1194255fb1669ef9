//! What every verb acts with.

use std::time::Duration;

use anyhow::Context as _;
use host::files::Root;
use host::journal::{self, JournalStore, Lock, Moment};
use host::ostree::{self, Deployments, live_root};
use jiff::Timestamp;
use tokio::runtime::Runtime;

use crate::protocol::HelperReport;

/// How long another program that acts on this host is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The host this runs on.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) root: Root,
    pub(crate) runtime: Runtime,
    pub(crate) moment: Moment,
}

/// The deployments, locked against other writers.
pub(crate) fn lock_deployments() -> anyhow::Result<Deployments> {
    let mut deployments = Deployments::open()?;
    deployments.lock(PATIENCE)?;
    Ok(deployments)
}

/// The refusal of a verb that would disturb an update, while one is under way.
pub(crate) fn refused_while_under_way(
    store: &JournalStore<'_>,
) -> anyhow::Result<Option<HelperReport>> {
    let Some(journal) = store.journal_under_way()? else {
        return Ok(None);
    };
    let attempt = &journal.plan.attempt.0;
    let reason = format!("attempt {attempt} is under way on this host");
    Ok(Some(HelperReport::refused(vec![reason])))
}

/// Whether it only was that another program held one of the two locks for too long.
pub(crate) fn is_held_elsewhere(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(journal::Error::Locked { .. }))
            || matches!(cause.downcast_ref(), Some(ostree::Error::Locked))
    })
}

impl Context {
    pub(crate) fn open() -> anyhow::Result<Self> {
        let root = live_root().context("cannot open the host's root")?;
        let boot_id = journal::boot_id(&root)?;
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

    pub(crate) fn store(&self) -> JournalStore<'_> {
        JournalStore::new(&self.root)
    }

    /// The right to act, against the daemon's helper, pivot and guard.
    pub(crate) fn lock(&self) -> anyhow::Result<Lock> {
        Ok(self.store().lock(PATIENCE)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_another_holds_is_distinct_from_a_fault() {
        let path = "/var/lib/slipway/lock".to_owned();
        let locked = anyhow::Error::new(journal::Error::Locked { path }).context("cannot look");
        assert!(is_held_elsewhere(&locked));
        assert!(is_held_elsewhere(&ostree::Error::Locked.into()));
        assert!(!is_held_elsewhere(&std::io::Error::other("no room").into()));
    }
}
