//! The work of a boot: it finishes and verifies the target, or rolls the host back.

use chassis::report::Chain;
use node_update::plan::{Action, Attempt, Plan, Route, Target, Undo};
use tracing::{info, warn};

use super::reboot::boot_origin;
use super::{End, Error, Steps, Sysroot, live};
use crate::journal::{
    AtBoot, AttemptOutcome, DeploymentId, HeldTarget, Journal, JournalFault, JournalStage,
    JournalStore, LastAttempt, Moment, SCHEMA, at_boot,
};
use crate::systemd::links;

/// What operators search for in the guard's log: `docs/events.md`.
const UNREADABLE: &str = "JournalUnreadable";

/// The booted host, as the guard changes it.
pub struct Booted<'a> {
    /// The journal and the plans.
    pub store: &'a JournalStore<'a>,
    pub sysroot: &'a mut dyn Sysroot,
    /// Executes steps on the running system.
    pub executor: &'a mut dyn Steps,
    /// The current boot and time.
    pub moment: &'a Moment,
}

impl std::fmt::Debug for Booted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Booted")
            .field("moment", self.moment)
            .finish_non_exhaustive()
    }
}

/// Compares the booted deployment with the journal and acts on the result.
///
/// # Errors
/// Any of [`Error`]; the journal stays open, and the next boot tries again.
pub fn guard(host: &mut Booted<'_>) -> Result<End, Error> {
    match host.store.journal_fault()? {
        None => {}
        Some(JournalFault::Copied(journal, error)) => {
            warn!(
                message_id = UNREADABLE,
                error = %Chain(&error),
                "journal cannot be read: its copy takes its place"
            );
            host.store.put_journal(&journal)?;
        }
        Some(JournalFault::Lost(error)) => return adopt_without_journal(host, &error),
    }
    let Some(journal) = host.store.journal_under_way()? else {
        return Ok(End::Done);
    };
    let booted = host.sysroot.booted()?;
    match at_boot(&journal, &booted, host.moment) {
        AtBoot::Leave => Ok(End::Done),
        AtBoot::Finish => finish(host, journal).map(|()| End::Done),
        AtBoot::RollBack { cause } => roll_back(host, journal, &cause),
        AtBoot::Undo => undo(host, journal).map(|()| End::Done),
        AtBoot::Adopt => adopt(host, &journal, &booted).map(|()| End::Done),
    }
}

/// Does the guard's work after units have started, where the guard did not do it: they may have
/// started on some files of the target and some of the origin. Another boot is the way out.
///
/// # Errors
/// Those of [`guard`].
pub fn guard_late(host: &mut Booted<'_>) -> Result<End, Error> {
    let is_mixed = is_mixed(host)?;
    let end = guard(host)?;
    if is_mixed && end == End::Done {
        warn!("units started before the guard was done, host boots again");
        return Ok(End::NeedsReboot);
    }
    Ok(end)
}

/// Whether the guard has still to change files that the units of this boot read.
fn is_mixed(host: &mut Booted<'_>) -> Result<bool, Error> {
    let Some(journal) = host.store.journal_under_way()? else {
        return Ok(false);
    };
    let booted = host.sysroot.booted()?;
    let is_left = match at_boot(&journal, &booted, host.moment) {
        AtBoot::Finish => !journal.is_finished_in(host.moment),
        AtBoot::Undo => true,
        AtBoot::Leave | AtBoot::RollBack { .. } | AtBoot::Adopt => false,
    };
    if !is_left || journal.plan.route == Route::Live {
        return Ok(is_left);
    }
    for step in &journal.plan.steps {
        if !host.executor.is_of_deployment(&step.action)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Ends an attempt whose target is verified.
///
/// # Errors
/// Those of storing.
pub fn verified(host: &mut Booted<'_>, journal: &Journal) -> Result<End, Error> {
    host.sysroot.stop_boot_counting()?;
    // A target that an administrator led the host away from stays held.
    let held = host.store.held()?;
    if held.is_none_or(|held| held.target != journal.plan.from) {
        host.store.clear_held()?;
    }
    host.store.close(
        journal,
        &journal.end(AttemptOutcome::Verified, None, host.moment),
    )?;
    info!(
        attempt = journal.plan.attempt.0,
        config = journal.plan.to.config,
        "target is verified"
    );
    // The cleanup only frees room; the next attempt repeats it.
    if let Err(error) = host.sysroot.cleanup() {
        warn!(
            error = %Chain(&error),
            "old deployments were not removed"
        );
    }
    Ok(End::Done)
}

/// Ends an attempt whose verification failed: rolls the host back, or keeps the target where the
/// journal says `stay`.
///
/// # Errors
/// Those of storing and of the roll-back.
pub fn failed(host: &mut Booted<'_>, journal: Journal, cause: &str) -> Result<End, Error> {
    if journal.stay {
        hold(host, &journal, cause)?;
        let journal = journal.at(
            JournalStage::Failed {
                cause: cause.to_owned(),
            },
            host.moment,
        );
        host.store.put_journal(&journal)?;
        return Ok(End::Done);
    }
    roll_back(host, journal, cause)
}

/// Ends an attempt as [`failed`] does if its target is booted, also one that cannot be finished or
/// checked. `None` if no target is booted: in the origin there is nothing to roll back.
///
/// # Errors
/// Those of storing and of the roll-back.
pub fn fail_if_booted(host: &mut Booted<'_>, cause: &str) -> Result<Option<End>, Error> {
    let Some(journal) = host.store.journal_under_way()? else {
        return Ok(None);
    };
    let booted = host.sysroot.booted()?;
    if journal.plan.route == Route::Live || journal.target.as_ref() != Some(&booted) {
        return Ok(None);
    }
    match &journal.stage {
        JournalStage::Failed { .. } => Ok(Some(End::Done)),
        JournalStage::RollingBack { cause } => {
            let cause = cause.clone();
            roll_back(host, journal, &cause).map(Some)
        }
        JournalStage::Applying
        | JournalStage::Switching
        | JournalStage::Switched
        | JournalStage::Booted => failed(host, journal, cause).map(Some),
    }
}

/// Ends the attempt under way from any stage: `revert` undoes it before its target has booted, a
/// roll-back after that.
///
/// # Errors
/// Those of the revert or of the roll-back.
pub fn revert_or_roll_back(
    host: &mut Booted<'_>,
    revert: &mut dyn FnMut(&mut Booted<'_>, Journal, &str) -> Result<(), Error>,
    cause: &str,
) -> Result<End, Error> {
    let Some(journal) = host.store.journal_under_way()? else {
        return Ok(End::Done);
    };
    let booted = host.sysroot.booted()?;
    if journal.plan.route == Route::Live {
        live::revert(
            host.store,
            host.executor,
            &journal,
            cause,
            live::Services::Act,
            host.moment,
        )?;
        return Ok(End::Done);
    }
    if booted == journal.origin {
        if journal.boot_id == host.moment.boot_id {
            revert(host, journal, cause)?;
        } else {
            undo(host, journal)?;
        }
        return Ok(End::Done);
    }
    if journal.target.as_ref() == Some(&booted) {
        return roll_back(host, journal, cause);
    }
    adopt(host, &journal, &booted)?;
    Ok(End::Done)
}

/// Counts the boot, and performs the steps outside of the deployment, once in each boot: units that
/// have started read these files.
fn finish(host: &mut Booted<'_>, mut journal: Journal) -> Result<(), Error> {
    if journal.stay {
        // From here on it stays booted. First, so that a step that ends this program does not lead
        // away from it.
        host.sysroot.stop_boot_counting()?;
    }
    if journal.is_finished_in(host.moment) {
        return Ok(());
    }
    if journal.stage != JournalStage::Booted || journal.boot_id != host.moment.boot_id {
        journal.boots += 1;
    }
    let mut outside = Vec::new();
    for (index, step) in journal.plan.steps.iter().enumerate() {
        if !host.executor.is_of_deployment(&step.action)? {
            outside.push(index);
        }
    }
    // Observed once, before the first of these steps: on a second boot their own effect would be
    // recorded as the prior state.
    for index in &outside {
        if let Some(step) = journal.plan.steps.get_mut(*index)
            && step.undo == Undo::Nothing
        {
            step.undo = host.executor.observe(&step.action)?;
        }
    }
    let mut journal = journal.at(JournalStage::Booted, host.moment);
    host.store.put_journal(&journal)?;
    for index in outside {
        if let Some(step) = journal.plan.steps.get(index) {
            host.executor.perform(&step.action)?;
        }
    }
    read_shared_units_anew(host, &journal.plan)?;
    journal.finished_in = Some(host.moment.boot_id.clone());
    host.store.put_journal(&journal)?;
    info!(
        attempt = journal.plan.attempt.0,
        boots = journal.boots,
        "target is booted"
    );
    Ok(())
}

/// Has systemd read its units anew if the guard changes unit files that deployments share: those
/// below `/usr/local`. The units of `/etc` are the booted deployment's own since it was made.
fn read_shared_units_anew(host: &mut Booted<'_>, plan: &Plan) -> Result<(), Error> {
    for step in &plan.steps {
        if let Action::WriteFile { path, .. } | Action::ReleaseFile { path } = &step.action
            && links::is_unit_file(path)
            && !host.executor.is_of_deployment(&step.action)?
        {
            return live::read_units_anew(host.executor);
        }
    }
    Ok(())
}

/// Makes the origin the default again. Its boot undoes the changes outside of deployments, and
/// holds the target if that cannot be stored now.
fn roll_back(host: &mut Booted<'_>, journal: Journal, cause: &str) -> Result<End, Error> {
    if let Err(error) = hold(host, &journal, cause) {
        warn!(error = %Chain(&error), "cannot hold the target before the roll-back");
    }
    let journal = journal.at(
        JournalStage::RollingBack {
            cause: cause.to_owned(),
        },
        host.moment,
    );
    super::put_intent(host.store, &journal);
    boot_origin(host.sysroot, &journal)?;
    warn!(
        attempt = journal.plan.attempt.0,
        reason = cause,
        "target failed, host rolls back"
    );
    Ok(End::NeedsReboot)
}

/// Undoes in the booted origin what the attempt changed outside of deployments.
fn undo(host: &mut Booted<'_>, mut journal: Journal) -> Result<(), Error> {
    if journal.stage == JournalStage::Switching
        && journal.target == Some(host.sysroot.default_deployment()?)
    {
        // The switch happened and the journal does not say so: the boot loader tried the target,
        // and fell back.
        journal.stage = JournalStage::Switched;
        super::put_intent(host.store, &journal);
    }
    let journal = &journal;
    let cause = match &journal.stage {
        JournalStage::RollingBack { cause } | JournalStage::Failed { cause } => cause.clone(),
        JournalStage::Switched | JournalStage::Booted => {
            "the host booted its previous deployment".to_owned()
        }
        JournalStage::Applying | JournalStage::Switching => {
            "the host was rebooted meanwhile".to_owned()
        }
    };
    if journal.plan.route == Route::Live {
        let services = live::Services::Leave;
        return live::revert(
            host.store,
            host.executor,
            journal,
            &cause,
            services,
            host.moment,
        );
    }
    // Room is freed before anything is written: the deployment may be what fills the disk.
    boot_origin(host.sysroot, journal)?;
    // The cleanup only frees room; the next attempt repeats it.
    if let Err(error) = host.sysroot.cleanup() {
        warn!(
            error = %Chain(&error),
            "stray deployments were not removed"
        );
    }
    super::free_target(host.store, journal);
    for step in journal.plan.steps.iter().rev() {
        host.executor.restore(&step.action, &step.undo)?;
    }
    read_shared_units_anew(host, &journal.plan)?;
    let outcome = if journal.could_boot_target() {
        hold(host, journal, &cause)?;
        AttemptOutcome::RolledBack
    } else {
        AttemptOutcome::Undone
    };
    host.store.close(
        journal,
        &journal.end(outcome, Some(cause.clone()), host.moment),
    )?;
    info!(
        attempt = journal.plan.attempt.0,
        reason = cause,
        "host is in its origin"
    );
    Ok(())
}

/// Adopts a deployment that is neither origin nor target: an administrator booted it.
fn adopt(host: &mut Booted<'_>, journal: &Journal, booted: &DeploymentId) -> Result<(), Error> {
    let cause = format!("the host booted {booted}, which is neither origin nor target");
    warn!(
        attempt = journal.plan.attempt.0,
        reason = cause,
        "host is adopted in its present state"
    );
    host.sysroot.stop_boot_counting()?;
    Ok(host.store.close(
        journal,
        &journal.end(AttemptOutcome::Adopted, Some(cause), host.moment),
    )?)
}

/// Adopts what is booted on a host whose journal is lost: which attempt was under way is not known,
/// and without this the guard and the verification would fail at every boot.
fn adopt_without_journal(
    host: &mut Booted<'_>,
    error: &crate::journal::Error,
) -> Result<End, Error> {
    let booted = host.sysroot.booted()?;
    let cause = format!(
        "{}, and it has no copy: deployment {booted} is adopted",
        Chain(error)
    );
    warn!(message_id = UNREADABLE, reason = cause, "journal is lost");
    host.sysroot.stop_boot_counting()?;
    let unknown = || Target {
        config: String::new(),
        image: None,
    };
    host.store.set_journal_aside(&LastAttempt {
        schema: SCHEMA,
        attempt: Attempt("unknown".to_owned()),
        outcome: AttemptOutcome::Adopted,
        from: unknown(),
        to: unknown(),
        boot_id: host.moment.boot_id.clone(),
        at: host.moment.now,
        cause: Some(cause),
    })?;
    Ok(End::Done)
}

fn hold(host: &mut Booted<'_>, journal: &Journal, cause: &str) -> Result<(), Error> {
    let target = journal.plan.to.clone();
    let held = HeldTarget {
        schema: SCHEMA,
        target,
        cause: cause.to_owned(),
        since: host.moment.now,
    };
    Ok(host.store.put_held(&held)?)
}
