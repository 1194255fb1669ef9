//! A change that needs a reboot: written into a deployment of its own, bootable only when complete.

use std::time::Duration;

use node_update::plan::{Attempt, Plan};
use tracing::{info, warn};

use super::{
    End, Error, Foreseen, Hands, Made, Perform as _, StepError, Sysroot, Units, chain, record,
};
use crate::journal::{DeploymentId, Journal, Moment, Outcome, Stage, Store, UNPROVEN_BOOTS_MAX};
use crate::systemd::Job;

/// The unit whose pods change files of `/etc` (static pods, CNI) while the deployment is made.
pub const KUBELET: &str = "kubelet.service";

/// When the kubelet is started again where nobody went on: a daemon that died after the kubelet had been stopped is started by nobody
/// else. Many times what an undisturbed change takes from there to its reboot.
const KUBELET_BACK: Duration = Duration::from_mins(10);

/// Tries that the target has left from when the host begins to go back: where it is cut off before the
/// boot loader names the origin, the target is booted once more, and not for ever.
const TRIES_BACK: u32 = 1;

/// What a change acts on.
pub struct Host<'a> {
    /// What is stored on the host.
    pub store: &'a Store<'a>,
    /// Its deployments.
    pub sysroot: &'a mut dyn Sysroot,
    /// Units of the running system.
    pub running: &'a mut dyn Units,
    /// Makes the hands on a new deployment's unit files.
    pub units_of: &'a dyn Fn(&Made) -> Box<dyn Units>,
    /// Now.
    pub moment: &'a Moment,
}

impl std::fmt::Debug for Host<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("moment", self.moment)
            .finish_non_exhaustive()
    }
}

/// Makes the target and has the boot loader boot it, or leaves the host as it was.
///
/// # Errors
/// What was met on the way; the host is as it was, unless the error says that it cannot be undone.
pub fn apply(host: &mut Host<'_>, plan: Plan, stay: bool) -> Result<End, Error> {
    let journal = match host.store.settle()? {
        Some(journal) if journal.plan.attempt != plan.attempt => {
            return Ok(End::Refused(vec![busy(&journal)]));
        }
        Some(journal) => match journal.stage.clone() {
            Stage::Applying => journal,
            Stage::Switching if is_first(host, &journal)? => {
                return switched(host, journal).map(|()| End::NeedsReboot);
            }
            Stage::Switching => {
                let mut journal = journal.at(Stage::Applying, host.moment);
                journal.target = None;
                journal
            }
            Stage::Switched => return Ok(End::NeedsReboot),
            Stage::RollingBack { cause } if host.sysroot.booted()? == journal.origin => {
                take_back(host, journal, &cause)?;
                return Err(Error::NotProved {
                    reasons: vec![cause],
                });
            }
            Stage::Booted | Stage::RollingBack { .. } | Stage::Failed { .. } => {
                return Ok(End::Refused(vec![busy(&journal)]));
            }
        },
        None => {
            let deploy = plan.deploy.as_ref().ok_or(Error::NoDeploy)?;
            let refusals = host.sysroot.refusals(deploy)?;
            if !refusals.is_empty() {
                return Ok(End::Refused(refusals));
            }
            Journal::open(plan, host.sysroot.booted()?, stay, host.moment)
        }
    };
    host.store.put_journal(&journal)?;
    match make(host, journal) {
        Ok(()) => Ok(End::NeedsReboot),
        Err(error) => {
            let cause = chain(&error);
            if let Some(journal) = host.store.journal()? {
                take_back(host, journal, &cause)?;
            }
            Err(error)
        }
    }
}

/// Takes a change back that is not booted: the boot loader names the origin, the deployment is
/// thrown away, the kubelet runs.
///
/// # Errors
/// What keeps it from being taken back; the journal stays open then.
pub fn take_back(host: &mut Host<'_>, journal: Journal, cause: &str) -> Result<(), Error> {
    let journal = journal.at(
        Stage::RollingBack {
            cause: cause.to_owned(),
        },
        host.moment,
    );
    host.store.put_journal(&journal)?;
    boot_origin(host.sysroot, &journal)?;
    host.sysroot.sweep()?;
    if journal.stopped_kubelet {
        host.running
            .run(Job::Start, KUBELET)
            .map_err(|source| Error::Undo {
                object: format!("unit {KUBELET}"),
                source,
            })?;
    }
    disarm(host.running, &journal);
    host.store
        .close(&journal.end(Outcome::Undone, Some(cause.to_owned()), host.moment))?;
    info!(
        attempt = journal.plan.attempt.0,
        reason = cause,
        "change is undone"
    );
    Ok(())
}

/// Has the boot loader boot the origin, and count no longer.
pub(super) fn boot_origin(sysroot: &mut dyn Sysroot, journal: &Journal) -> Result<(), Error> {
    if sysroot.first()? != journal.origin {
        sysroot.make_first(&journal.origin, Some(TRIES_BACK))?;
    }
    sysroot.keep_first()
}

/// Does to a made deployment what its plan says; also what a rehearsal does.
///
/// # Errors
/// What a step met.
pub fn write_into(
    made: &Made,
    units: &mut dyn Units,
    store: &Store<'_>,
    plan: &Plan,
) -> Result<(), Error> {
    if !made.lost.is_empty() {
        let accounts = made.lost.names().join(" ");
        warn!(accounts, "merge lost accounts of the OS, appending them");
        made.lost.append(&made.root).map_err(Error::Accounts)?;
    }
    let mut hands = Hands::new(&made.root, units, store, plan.attempt.clone());
    let mut foreseen = Foreseen::default();
    for step in &plan.steps {
        if hands.is_of_deployment(&step.action)? {
            hands.perform(&step.action)?;
        } else {
            // Done at the first boot of the target; whether it could be is known now.
            hands.check(&step.action, &mut foreseen)?;
        }
    }
    let config = store.blob(&plan.attempt, &plan.record)?;
    record::write(&made.root, &config, plan.to.image.as_deref())?;
    Ok(())
}

/// Why nothing else can be begun while an attempt is under way.
pub(super) fn busy(journal: &Journal) -> String {
    let Attempt(attempt) = &journal.plan.attempt;
    format!(
        "attempt {attempt} to {} is under way on this host",
        journal.plan.to.config
    )
}

/// Has the kubelet started again where nobody goes on.
fn arm(running: &mut dyn Units, journal: &Journal) {
    // One of an earlier run would start it too soon.
    disarm(running, journal);
    if let Err(error) = running.start_later(KUBELET, &timer_of(journal), KUBELET_BACK) {
        warn!(
            error = chain(&error),
            "nothing starts the kubelet again but this change"
        );
    }
}

/// Stops that timer: it would start the kubelet in the middle of the merge of what comes next.
fn disarm(running: &mut dyn Units, journal: &Journal) {
    let timer = timer_of(journal);
    let stopped = match is_armed(running, &timer) {
        Ok(true) => running.run(Job::Stop, &format!("{timer}.timer")),
        Ok(false) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = stopped {
        warn!(timer, error = chain(&error), "a timer is left running");
    }
}

/// Its name, without the suffix.
fn timer_of(journal: &Journal) -> String {
    let Attempt(attempt) = &journal.plan.attempt;
    format!("slipway-kubelet-{attempt}")
}

fn is_armed(running: &mut dyn Units, timer: &str) -> Result<bool, StepError> {
    let state = running.active_state(&format!("{timer}.timer"))?;
    Ok(state.as_deref() == Some("active"))
}

fn make(host: &mut Host<'_>, mut journal: Journal) -> Result<(), Error> {
    let step = |source| Error::Step {
        object: format!("unit {KUBELET}"),
        source,
    };
    // Without a drain it keeps running, whatever it does.
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
        // Also where an earlier run stopped it, and died: its timer may be through, or would start the kubelet soon.
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
    let made = host.sysroot.make(deploy)?;
    let mut units = (host.units_of)(&made);
    write_into(&made, &mut *units, host.store, &journal.plan)?;
    made.root.sync()?;
    journal.target = Some(made.id.clone());
    let journal = journal.at(Stage::Switching, host.moment);
    host.store.put_journal(&journal)?;
    // A target that is to stay whatever happens is not counted either.
    let tries = (!journal.stay).then_some(UNPROVEN_BOOTS_MAX);
    host.sysroot.make_first(&made.id, tries)?;
    switched(host, journal)
}

fn switched(host: &mut Host<'_>, journal: Journal) -> Result<(), Error> {
    let journal = journal.at(Stage::Switched, host.moment);
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

fn is_first(host: &mut Host<'_>, journal: &Journal) -> Result<bool, Error> {
    Ok(Some(host.sysroot.first()?) == journal.target)
}
