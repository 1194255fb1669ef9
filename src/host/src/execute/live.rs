//! Live updates: a plan executed on the running system, step by step, with undo.

use std::collections::BTreeSet;

use chassis::report::Chain;
use node_update::plan::{Action, Digest, Plan, Undo};
use tracing::{info, warn};

use super::{End, Error, Steps, describe};
use crate::files::Root;
use crate::journal::{AttemptOutcome, DeploymentId, Journal, JournalStage, JournalStore, Moment};
use crate::record;
use crate::systemd::{Job, links};

/// Executes a live plan, or reverts all of it.
///
/// `verify` checks the target's expectations after the last step.
///
/// # Errors
/// The error of the failed step. The host is in its previous state then, except for
/// [`Error::Undo`].
pub fn apply(
    store: &JournalStore<'_>,
    executor: &mut dyn Steps,
    plan: Plan,
    booted: DeploymentId,
    verify: &mut dyn FnMut(&mut dyn Steps) -> Result<(), Error>,
    moment: &Moment,
) -> Result<End, Error> {
    let journal = match store.journal_under_way()? {
        Some(journal) if journal.plan.attempt != plan.attempt => {
            return Ok(End::Rejected(vec![super::reboot::busy(&journal)]));
        }
        Some(journal) => journal,
        None => {
            let journal = observe(store, executor, plan, booted, moment)?;
            store.put_journal(&journal)?;
            journal
        }
    };
    if let JournalStage::RollingBack { cause } = &journal.stage {
        // An earlier run failed and was killed while it reverted.
        let cause = cause.clone();
        revert(store, executor, &journal, &cause, Services::Act, moment)?;
        return Err(Error::NotVerified {
            reasons: vec![cause],
        });
    }
    match perform_all(store, executor, &journal, verify) {
        Ok(()) => {
            store.clear_held()?;
            store.close(
                &journal,
                &journal.end(AttemptOutcome::Verified, None, moment),
            )?;
            info!(
                attempt = journal.plan.attempt.0,
                config = journal.plan.to.config,
                "live update is complete"
            );
            Ok(End::Done)
        }
        Err(error) => {
            let cause = Chain(&error).to_string();
            let journal = journal.at(
                JournalStage::RollingBack {
                    cause: cause.clone(),
                },
                moment,
            );
            super::put_intent(store, &journal);
            revert(store, executor, &journal, &cause, Services::Act, moment)?;
            Err(error)
        }
    }
}

/// Whether a revert restarts and reloads services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Services {
    /// It does: they run with the changed files.
    Act,
    /// It does not: the guard runs before they start. systemd reads the restored unit files.
    Leave,
}

/// Reverts a live plan: links, files in reverse order, then services.
///
/// # Errors
/// [`Error::Undo`]; the journal stays open then, so that a later run can try again.
pub fn revert(
    store: &JournalStore<'_>,
    executor: &mut dyn Steps,
    journal: &Journal,
    cause: &str,
    services: Services,
    moment: &Moment,
) -> Result<(), Error> {
    let steps = &journal.plan.steps;
    let touched = touched(&journal.plan);
    // Room is freed before anything is written: the update may be what fills the disk.
    super::free_target(store, journal);
    let restore_links = |root: &Root| {
        if touched.is_empty() {
            return Ok(());
        }
        links::restore(root, &journal.unit_links, &touched)
    };
    // A unit's file names the units that are enabled with it (`Also=`): first the file that the
    // plan wrote, then the restored one.
    restore_links(executor.root())?;
    for step in steps.iter().rev() {
        executor.restore(&step.action, &step.undo)?;
    }
    restore_links(executor.root())?;
    let attempt = &journal.plan.attempt;
    executor.root().restore(
        &journal.records,
        &mut |digest: &Digest| -> Result<_, Error> { Ok(store.blob(attempt, digest)?) },
    )?;
    let again: Vec<&Action> = steps
        .iter()
        .filter(|step| step.undo == Undo::Again)
        .map(|step| &step.action)
        .collect();
    if services == Services::Act {
        for action in again {
            act_again(executor, action);
        }
    } else if (!again.is_empty() || !touched.is_empty())
        && let Err(error) = read_units_anew(executor)
    {
        warn!(
            error = %Chain(&error),
            "systemd did not read the restored units"
        );
    }
    store.close(
        journal,
        &journal.end(AttemptOutcome::Undone, Some(cause.to_owned()), moment),
    )?;
    info!(attempt = attempt.0, reason = cause, "change is reverted");
    Ok(())
}

fn observe(
    store: &JournalStore<'_>,
    executor: &mut dyn Steps,
    mut plan: Plan,
    booted: DeploymentId,
    moment: &Moment,
) -> Result<Journal, Error> {
    for step in &mut plan.steps {
        step.undo = executor.observe(&step.action)?;
    }
    let touches_links = !touched(&plan).is_empty();
    let attempt = plan.attempt.clone();
    let mut journal = Journal::open(plan, booted, true, moment);
    if touches_links {
        journal.unit_links = links::snapshot(executor.root())?;
    }
    journal.records = record::observe(executor.root(), &mut |digest, bytes| {
        store.put_blob(&attempt, digest, bytes).map_err(Error::from)
    })?;
    Ok(journal)
}

fn perform_all(
    store: &JournalStore<'_>,
    executor: &mut dyn Steps,
    journal: &Journal,
    verify: &mut dyn FnMut(&mut dyn Steps) -> Result<(), Error>,
) -> Result<(), Error> {
    let plan = &journal.plan;
    for (step, number) in plan.steps.iter().zip(1_u32..) {
        executor.perform(&step.action)?;
        info!(
            attempt = plan.attempt.0,
            step = number,
            object = describe(&step.action),
            "step done"
        );
    }
    let config = store.blob(&plan.attempt, &plan.record)?;
    record::write(executor.root(), &config, plan.to.image.as_deref())?;
    verify(executor)
}

/// The units whose links the plan changes.
fn touched(plan: &Plan) -> BTreeSet<String> {
    let unit = |action: &Action| match action {
        Action::EnableUnit { unit }
        | Action::KeepUnitEnabled { unit }
        | Action::DisableUnit { unit }
        | Action::PresetUnit { unit } => Some(unit.clone()),
        Action::WriteFile { .. }
        | Action::ReleaseFile { .. }
        | Action::MaskUnit { .. }
        | Action::UnmaskUnit { .. }
        | Action::WriteAuthorizedKeys { .. }
        | Action::SetPassword { .. }
        | Action::DaemonReload
        | Action::RestartUnit { .. }
        | Action::ReloadUnit { .. } => None,
    };
    plan.steps
        .iter()
        .filter_map(|step| unit(&step.action))
        .collect()
}

/// Has systemd, which loaded its units before the guard ran, read them anew and start in this boot
/// what they enable.
pub(super) fn read_units_anew(executor: &mut dyn Steps) -> Result<(), Error> {
    let units = executor.units();
    let read = units.reload_manager().and_then(|()| units.extend_boot());
    read.map_err(|source| Error::Step {
        object: describe(&Action::DaemonReload),
        source,
    })
}

/// Restarts or reloads a service whose files are restored. A failure is logged only: the files are
/// restored in any case.
fn act_again(executor: &mut dyn Steps, action: &Action) {
    let done = if let Action::RestartUnit { unit } | Action::ReloadUnit { unit } = action
        && is_gone(executor, unit)
    {
        let object = describe(action);
        let stopped = executor.units().run(Job::Stop, unit);
        stopped.map_err(|source| Error::Undo { object, source })
    } else {
        executor.perform(action)
    };
    if let Err(error) = done {
        warn!(
            error = %Chain(&error),
            object = describe(action),
            "service was not restarted or reloaded after the revert"
        );
    }
}

/// Whether a unit has no file any more, because the plan had written it.
fn is_gone(executor: &mut dyn Steps, unit: &str) -> bool {
    links::exists(executor.root(), unit).is_ok_and(|exists| !exists)
}
