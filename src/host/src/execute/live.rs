//! A change of the running system, file by file, with undo.

use std::collections::BTreeSet;

use node_update::plan::{Action, Digest, Plan, Undo};
use tracing::{info, warn};

use super::{End, Error, Perform, chain, describe, record};
use crate::files::Root;
use crate::journal::{DeploymentId, Journal, Moment, Outcome, Stage, Store};
use crate::systemd::{Job, links};

/// Carries a live plan through, or takes it back whole.
///
/// `prove` judges the target's expectations once all steps are done.
///
/// # Errors
/// What a step met; the host is as it was before, unless the error says that it cannot be undone.
pub fn apply(
    store: &Store<'_>,
    hands: &mut dyn Perform,
    plan: Plan,
    booted: DeploymentId,
    prove: &mut dyn FnMut(&mut dyn Perform) -> Result<(), Error>,
    moment: &Moment,
) -> Result<End, Error> {
    let journal = match store.settle()? {
        Some(journal) if journal.plan.attempt != plan.attempt => {
            return Ok(End::Refused(vec![super::reboot::busy(&journal)]));
        }
        Some(journal) => journal,
        None => {
            let journal = observe(store, hands, plan, booted, moment)?;
            store.put_journal(&journal)?;
            journal
        }
    };
    if let Stage::RollingBack { cause } = &journal.stage {
        // A run before this one failed and was killed on its way back.
        let cause = cause.clone();
        undo(store, hands, &journal, &cause, Services::Act, moment)?;
        return Err(Error::NotProved {
            reasons: vec![cause],
        });
    }
    match carry_through(store, hands, &journal, prove) {
        Ok(()) => {
            store.clear_held()?;
            store.close(&journal.end(Outcome::Proved, None, moment))?;
            info!(
                attempt = journal.plan.attempt.0,
                config = journal.plan.to.config,
                "change is in"
            );
            Ok(End::Done)
        }
        Err(error) => {
            let cause = chain(&error);
            let journal = journal.at(
                Stage::RollingBack {
                    cause: cause.clone(),
                },
                moment,
            );
            store.put_journal(&journal)?;
            undo(store, hands, &journal, &cause, Services::Act, moment)?;
            Err(error)
        }
    }
}

/// Whether services are restarted and reloaded when a change is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Services {
    /// They run with the change.
    Act,
    /// They are started after this.
    Leave,
}

/// Takes a live plan back: links, files in reverse, then the services that were told of it.
///
/// # Errors
/// [`Error::Undo`]; the journal stays open then, so that it can be tried again.
pub fn undo(
    store: &Store<'_>,
    hands: &mut dyn Perform,
    journal: &Journal,
    cause: &str,
    services: Services,
    moment: &Moment,
) -> Result<(), Error> {
    let steps = &journal.plan.steps;
    let touched = touched(&journal.plan);
    let restore_links = |root: &Root| {
        if touched.is_empty() {
            return Ok(());
        }
        links::restore(root, &journal.unit_links, &touched)
    };
    // What is enabled along with a unit is in its file: first by the one that the change brought, then by the one that was before.
    restore_links(hands.root())?;
    for step in steps.iter().rev() {
        hands.restore(&step.action, &step.undo)?;
    }
    restore_links(hands.root())?;
    let attempt = &journal.plan.attempt;
    hands.root().restore(
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
            act_again(hands, action);
        }
    } else if !again.is_empty() || !touched.is_empty() {
        act_again(hands, &Action::DaemonReload);
    }
    store.close(&journal.end(Outcome::Undone, Some(cause.to_owned()), moment))?;
    info!(attempt = attempt.0, reason = cause, "change is undone");
    Ok(())
}

fn observe(
    store: &Store<'_>,
    hands: &mut dyn Perform,
    mut plan: Plan,
    booted: DeploymentId,
    moment: &Moment,
) -> Result<Journal, Error> {
    for step in &mut plan.steps {
        step.undo = hands.observe(&step.action)?;
    }
    let touches_links = !touched(&plan).is_empty();
    let attempt = plan.attempt.clone();
    let mut journal = Journal::open(plan, booted, true, moment);
    if touches_links {
        journal.unit_links = links::snapshot(hands.root())?;
    }
    journal.records = record::observe(hands.root(), &mut |digest, bytes| {
        store.put_blob(&attempt, digest, bytes).map_err(Error::from)
    })?;
    Ok(journal)
}

fn carry_through(
    store: &Store<'_>,
    hands: &mut dyn Perform,
    journal: &Journal,
    prove: &mut dyn FnMut(&mut dyn Perform) -> Result<(), Error>,
) -> Result<(), Error> {
    let plan = &journal.plan;
    for (step, number) in plan.steps.iter().zip(1_u32..) {
        hands.perform(&step.action)?;
        info!(
            attempt = plan.attempt.0,
            step = number,
            object = describe(&step.action),
            "step done"
        );
    }
    let config = store.blob(&plan.attempt, &plan.record)?;
    record::write(hands.root(), &config, plan.to.image.as_deref())?;
    prove(hands)
}

/// Units whose links the plan changes.
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

/// Tells a service that its files are back. That it cannot be told is not what keeps them from
/// being back, so it is only said.
fn act_again(hands: &mut dyn Perform, action: &Action) {
    let told = if let Action::RestartUnit { unit } | Action::ReloadUnit { unit } = action
        && is_gone(hands, unit)
    {
        let object = describe(action);
        let stopped = hands.units().run(Job::Stop, unit);
        stopped.map_err(|source| Error::Undo { object, source })
    } else {
        hands.perform(action)
    };
    if let Err(error) = told {
        warn!(
            error = chain(&error),
            object = describe(action),
            "service was not told of the undo"
        );
    }
}

/// Whether a unit came with the change and has no file any more.
fn is_gone(hands: &mut dyn Perform, unit: &str) -> bool {
    links::exists(hands.root(), unit).is_ok_and(|exists| !exists)
}
