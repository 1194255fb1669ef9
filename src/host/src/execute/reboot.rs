//! Updates that need a reboot: written into a new deployment, which is bootable only when complete.

use std::time::Duration;

use chassis::report::Chain;
use node_update::plan::{Attempt, Plan};
use node_update::well_known::KUBELET;
use tracing::{info, warn};

use super::{
    End, Error, NewDeployment, Preflight, StepError, StepExecutor, Steps as _, Sysroot, Units,
};
use crate::journal::{
    AttemptOutcome, DeploymentId, Journal, JournalStage, JournalStore, Moment, Switch,
    UNVERIFIED_BOOTS_MAX,
};
use crate::record;
use crate::systemd::Job;

/// Delay after which a timer starts the kubelet again. Without a kubelet, no other program would
/// restart a daemon that died. An undisturbed update needs a small part of it until its reboot.
const KUBELET_RESTART_DELAY: Duration = Duration::from_mins(10);

/// Boots that the target has left once a roll-back began: a roll-back interrupted before the boot
/// loader names the origin boots the target at most once more.
const ROLLBACK_TRIES: u32 = 1;

/// The running host that an update is applied to.
pub struct RunningHost<'a> {
    /// The journal and the plans.
    pub store: &'a JournalStore<'a>,
    pub sysroot: &'a mut dyn Sysroot,
    /// Units of the running system.
    pub running: &'a mut dyn Units,
    /// Opens the unit files of a new deployment.
    pub units_of: &'a dyn Fn(&NewDeployment) -> Box<dyn Units>,
    /// The current boot and time.
    pub moment: &'a Moment,
}

impl std::fmt::Debug for RunningHost<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningHost")
            .field("moment", self.moment)
            .finish_non_exhaustive()
    }
}

/// Makes the target's deployment and the default, or leaves the host in its previous state.
///
/// # Errors
/// The error of the failed step. The host is in its previous state then, except for
/// [`Error::Undo`].
pub fn apply(host: &mut RunningHost<'_>, plan: Plan, stay: bool) -> Result<End, Error> {
    let journal = match host.store.journal_under_way()? {
        Some(journal) if journal.plan.attempt != plan.attempt => {
            return Ok(End::Rejected(vec![busy(&journal)]));
        }
        Some(journal) => match journal.stage.clone() {
            JournalStage::Applying => journal,
            JournalStage::Switching if is_target_default(host, &journal)? => {
                return switched(host, journal).map(|()| End::NeedsReboot);
            }
            JournalStage::Switching => {
                let mut journal = journal.at(JournalStage::Applying, host.moment);
                journal.target = None;
                journal
            }
            JournalStage::Switched => return Ok(End::NeedsReboot),
            JournalStage::RollingBack { cause } if host.sysroot.booted()? == journal.origin => {
                revert(host, journal, &cause)?;
                return Err(Error::NotVerified {
                    reasons: vec![cause],
                });
            }
            JournalStage::Booted
            | JournalStage::RollingBack { .. }
            | JournalStage::Failed { .. } => {
                return Ok(End::Rejected(vec![busy(&journal)]));
            }
        },
        None => {
            let deploy = plan.deploy.as_ref().ok_or(Error::NoDeploy)?;
            let rejections = host.sysroot.rejections(deploy)?;
            if !rejections.is_empty() {
                return Ok(End::Rejected(rejections));
            }
            Journal::open(plan, host.sysroot.booted()?, stay, host.moment)
        }
    };
    let stored = host.store.put_journal(&journal).map_err(Error::from);
    match stored.and_then(|()| make(host, journal)) {
        Ok(()) => Ok(End::NeedsReboot),
        Err(error) => {
            let cause = Chain(&error).to_string();
            if let Some(journal) = host.store.journal()? {
                revert(host, journal, &cause)?;
            }
            Err(error)
        }
    }
}

/// Reverts an update whose target has not booted: makes the origin the default, removes the
/// deployment, starts the kubelet.
///
/// It frees before it writes, because the deployment may be what fills the disk. The kubelet starts
/// whatever else fails: the host runs its origin.
///
/// # Errors
/// Any of [`Error`]; the journal stays open then.
pub fn revert(host: &mut RunningHost<'_>, journal: Journal, cause: &str) -> Result<(), Error> {
    let journal = journal.at(
        JournalStage::RollingBack {
            cause: cause.to_owned(),
        },
        host.moment,
    );
    let undone = remove_target(host.store, host.sysroot, &journal);
    let started = start_kubelet(host.running, &journal);
    undone?;
    started?;
    disarm(host.running, &journal);
    host.store.close(
        &journal,
        &journal.end(AttemptOutcome::Undone, Some(cause.to_owned()), host.moment),
    )?;
    info!(
        attempt = journal.plan.attempt.0,
        reason = cause,
        "change is reverted"
    );
    Ok(())
}

/// Makes the origin the default, and removes the deployment.
fn remove_target(
    store: &JournalStore<'_>,
    sysroot: &mut dyn Sysroot,
    journal: &Journal,
) -> Result<(), Error> {
    // No boot entry names the deployment before the switch, so nothing has to be known to remove
    // it.
    if sysroot.default_deployment()? == journal.origin {
        sysroot.cleanup()?;
    }
    super::put_intent(store, journal);
    boot_origin(sysroot, journal)?;
    sysroot.cleanup()
}

fn start_kubelet(running: &mut dyn Units, journal: &Journal) -> Result<(), Error> {
    if !journal.stopped_kubelet {
        return Ok(());
    }
    running
        .run(Job::Start, KUBELET)
        .map_err(|source| Error::Undo {
            object: format!("unit {KUBELET}"),
            source,
        })
}

/// Makes the origin the default, and stops the boot loader's counting.
pub(super) fn boot_origin(sysroot: &mut dyn Sysroot, journal: &Journal) -> Result<(), Error> {
    if sysroot.default_deployment()? != journal.origin {
        sysroot.set_default(&journal.origin, Some(ROLLBACK_TRIES))?;
    }
    sysroot.stop_boot_counting()
}

/// Performs the plan's steps on a new deployment; a rehearsal does the same.
///
/// # Errors
/// [`Error::Step`], [`Error::Accounts`], and those of reading the plan.
pub fn write_into(
    made: &NewDeployment,
    units: &mut dyn Units,
    store: &JournalStore<'_>,
    plan: &Plan,
) -> Result<(), Error> {
    if !made.missing_accounts.is_empty() {
        let accounts = made.missing_accounts.names().join(" ");
        warn!(accounts, "merge lost accounts of the OS, appending them");
        made.missing_accounts
            .append(&made.root)
            .map_err(Error::Accounts)?;
    }
    let mut executor = StepExecutor::new(&made.root, units, store, plan.attempt.clone());
    let mut preflight = Preflight::default();
    for step in &plan.steps {
        if executor.is_of_deployment(&step.action)? {
            executor.perform(&step.action)?;
        } else {
            // The target's first boot performs it; here is checked that it can.
            executor.check(&step.action, &mut preflight)?;
        }
    }
    let config = store.blob(&plan.attempt, &plan.record)?;
    record::write(&made.root, &config, plan.to.image.as_deref())?;
    Ok(())
}

/// The reason that rejects another attempt while one is under way.
pub(super) fn busy(journal: &Journal) -> String {
    let Attempt(attempt) = &journal.plan.attempt;
    format!(
        "attempt {attempt} to {} is under way on this host",
        journal.plan.to.config
    )
}

/// Sets the timer that starts the kubelet again if this run does not reach its end.
fn arm(running: &mut dyn Units, journal: &Journal) {
    // A timer of an earlier run would start it too soon.
    disarm(running, journal);
    if let Err(error) = running.start_later(KUBELET, &timer_of(journal), KUBELET_RESTART_DELAY) {
        warn!(error = %Chain(&error), "no timer starts the kubelet again");
    }
}

/// Stops that timer: it would start the kubelet during the merge of the next update.
fn disarm(running: &mut dyn Units, journal: &Journal) {
    let timer = timer_of(journal);
    let stopped = match is_armed(running, &timer) {
        Ok(true) => running.run(Job::Stop, &format!("{timer}.timer")),
        Ok(false) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = stopped {
        warn!(timer, error = %Chain(&error), "a timer is left running");
    }
}

/// The timer's name, without the suffix.
fn timer_of(journal: &Journal) -> String {
    let Attempt(attempt) = &journal.plan.attempt;
    format!("slipway-kubelet-{attempt}")
}

fn is_armed(running: &mut dyn Units, timer: &str) -> Result<bool, StepError> {
    let state = running.active_state(&format!("{timer}.timer"))?;
    Ok(state.as_deref() == Some("active"))
}

fn make(host: &mut RunningHost<'_>, mut journal: Journal) -> Result<(), Error> {
    let step = |source| Error::Step {
        object: format!("unit {KUBELET}"),
        source,
    };
    // The kubelet's pods change files of `/etc` (static pods, CNI), so it is stopped for the merge.
    // Without a drain it keeps running.
    let state = if journal.plan.drain {
        host.running.active_state(KUBELET).map_err(step)?
    } else {
        None
    };
    let is_up = matches!(
        state.as_deref(),
        Some("active" | "activating" | "reloading" | "deactivating")
    );
    if is_up || journal.stopped_kubelet {
        // Also where an earlier run stopped the kubelet and died: its timer may have elapsed, or
        // would elapse soon.
        arm(host.running, &journal);
    }
    if is_up {
        if !journal.stopped_kubelet {
            journal.stopped_kubelet = true;
            host.store.put_journal(&journal)?;
        }
        host.running.run(Job::Stop, KUBELET).map_err(step)?;
    }
    let deploy = journal.plan.deploy.as_ref().ok_or(Error::NoDeploy)?;
    let made = host.sysroot.deploy(deploy)?;
    let mut units = (host.units_of)(&made);
    write_into(&made, &mut *units, host.store, &journal.plan)?;
    made.root.sync()?;
    journal.target = Some(made.id.clone());
    let switch = Switch::new(journal.origin.clone(), made.id.clone(), host.moment);
    host.store.put_switch(&switch)?;
    let journal = journal.at(JournalStage::Switching, host.moment);
    host.store.put_journal(&journal)?;
    // Also of a target that stays despite a failure: until the guard runs, a boot that dies leaves
    // nothing to examine.
    host.sysroot
        .set_default(&made.id, Some(UNVERIFIED_BOOTS_MAX))?;
    switched(host, journal)
}

fn switched(host: &mut RunningHost<'_>, journal: Journal) -> Result<(), Error> {
    let journal = journal.at(JournalStage::Switched, host.moment);
    host.store.put_journal(&journal)?;
    let target = journal
        .target
        .as_ref()
        .map(DeploymentId::to_string)
        .unwrap_or_default();
    info!(
        attempt = journal.plan.attempt.0,
        deployment = target,
        "boot loader names the target"
    );
    Ok(())
}

fn is_target_default(host: &mut RunningHost<'_>, journal: &Journal) -> Result<bool, Error> {
    Ok(Some(host.sysroot.default_deployment()?) == journal.target)
}
