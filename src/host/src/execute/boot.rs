//! What a boot leads to: the target is finished and proved, or the host goes back.

use node_update::plan::{Route, Undo};
use tracing::{info, warn};

use super::reboot::boot_origin;
use super::{End, Error, Perform, Sysroot, live};
use crate::journal::{
    AtBoot, DeploymentId, Held, Journal, Moment, Outcome, SCHEMA, Stage, Store, at_boot,
};

/// What the guard acts on.
pub struct Booted<'a> {
    /// What is stored on the host.
    pub store: &'a Store<'a>,
    /// Its deployments.
    pub sysroot: &'a mut dyn Sysroot,
    /// The running system.
    pub hands: &'a mut dyn Perform,
    /// Now.
    pub moment: &'a Moment,
}

impl std::fmt::Debug for Booted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Booted")
            .field("moment", self.moment)
            .finish_non_exhaustive()
    }
}

/// Compares the booted deployment with the journal and does what follows.
///
/// # Errors
/// What was met; the journal stays open, and the next boot tries again.
pub fn guard(host: &mut Booted<'_>) -> Result<End, Error> {
    let Some(journal) = host.store.settle()? else {
        return Ok(End::Done);
    };
    let booted = host.sysroot.booted()?;
    match at_boot(&journal, &booted, host.moment) {
        AtBoot::Leave => Ok(End::Done),
        AtBoot::Finish => finish(host, journal).map(|()| End::Done),
        AtBoot::GoBack { cause } => go_back(host, journal, &cause),
        AtBoot::Undo => undo(host, journal).map(|()| End::Done),
        AtBoot::Adopt => adopt(host, &journal, &booted).map(|()| End::Done),
    }
}

/// Ends an attempt whose checks hold.
///
/// # Errors
/// Those of storing.
pub fn proved(host: &mut Booted<'_>, journal: &Journal) -> Result<End, Error> {
    host.sysroot.keep_first()?;
    host.store.clear_held()?;
    host.store
        .close(&journal.end(Outcome::Proved, None, host.moment))?;
    info!(
        attempt = journal.plan.attempt.0,
        config = journal.plan.to.config,
        "target is proved"
    );
    // What is left to do only frees room; the next attempt does it if this does not.
    if let Err(error) = host.sysroot.sweep() {
        warn!(
            error = super::chain(&error),
            "old deployments were not thrown away"
        );
    }
    Ok(End::Done)
}

/// Ends an attempt whose checks do not hold: the host goes back, or stays where it was told to.
///
/// # Errors
/// What keeps it from going back.
pub fn failed(host: &mut Booted<'_>, journal: Journal, cause: &str) -> Result<End, Error> {
    if journal.stay {
        hold(host, &journal, cause)?;
        let journal = journal.at(
            Stage::Failed {
                cause: cause.to_owned(),
            },
            host.moment,
        );
        host.store.put_journal(&journal)?;
        return Ok(End::Done);
    }
    go_back(host, journal, cause)
}

/// Ends an attempt whose booted target does not hold, or cannot even be finished or looked at, as [`failed`]
/// does. None where no target is booted: in the origin there is nothing to go back from.
///
/// # Errors
/// What keeps it from going back.
pub fn give_up(host: &mut Booted<'_>, cause: &str) -> Result<Option<End>, Error> {
    let Some(journal) = host.store.settle()? else {
        return Ok(None);
    };
    let booted = host.sysroot.booted()?;
    if journal.plan.route == Route::Live || journal.target.as_ref() != Some(&booted) {
        return Ok(None);
    }
    match &journal.stage {
        Stage::Failed { .. } => Ok(Some(End::Done)),
        Stage::RollingBack { cause } => {
            let cause = cause.clone();
            go_back(host, journal, &cause).map(Some)
        }
        Stage::Applying | Stage::Switching | Stage::Switched | Stage::Booted => {
            failed(host, journal, cause).map(Some)
        }
    }
}

/// Takes back whatever is under way, from wherever it is.
///
/// # Errors
/// What keeps it from being taken back.
pub fn roll_back(
    host: &mut Booted<'_>,
    take_back: &mut dyn FnMut(&mut Booted<'_>, Journal, &str) -> Result<(), Error>,
    cause: &str,
) -> Result<End, Error> {
    let Some(journal) = host.store.settle()? else {
        return Ok(End::Done);
    };
    let booted = host.sysroot.booted()?;
    if journal.plan.route == Route::Live {
        live::undo(
            host.store,
            host.hands,
            &journal,
            cause,
            live::Services::Act,
            host.moment,
        )?;
        return Ok(End::Done);
    }
    if booted == journal.origin {
        if journal.boot_id == host.moment.boot_id {
            take_back(host, journal, cause)?;
        } else {
            undo(host, journal)?;
        }
        return Ok(End::Done);
    }
    if journal.target.as_ref() == Some(&booted) {
        return go_back(host, journal, cause);
    }
    adopt(host, &journal, &booted)?;
    Ok(End::Done)
}

/// Counts the boot, and does what lies outside of the deployment.
fn finish(host: &mut Booted<'_>, mut journal: Journal) -> Result<(), Error> {
    if journal.stage != Stage::Booted || journal.boot_id != host.moment.boot_id {
        journal.boots += 1;
    }
    let mut outside = Vec::new();
    for (index, step) in journal.plan.steps.iter().enumerate() {
        if !host.hands.is_of_deployment(&step.action)? {
            outside.push(index);
        }
    }
    // Observed once, before the first of them is done: on a second boot their own effect would be
    // taken for what was there before.
    for index in &outside {
        if let Some(step) = journal.plan.steps.get_mut(*index)
            && step.undo == Undo::Nothing
        {
            step.undo = host.hands.observe(&step.action)?;
        }
    }
    let journal = journal.at(Stage::Booted, host.moment);
    host.store.put_journal(&journal)?;
    for index in outside {
        if let Some(step) = journal.plan.steps.get(index) {
            host.hands.perform(&step.action)?;
        }
    }
    info!(
        attempt = journal.plan.attempt.0,
        boots = journal.boots,
        "target is booted"
    );
    Ok(())
}

/// Has the boot loader boot the origin again; what lies outside is undone when it does.
fn go_back(host: &mut Booted<'_>, journal: Journal, cause: &str) -> Result<End, Error> {
    hold(host, &journal, cause)?;
    let journal = journal.at(
        Stage::RollingBack {
            cause: cause.to_owned(),
        },
        host.moment,
    );
    host.store.put_journal(&journal)?;
    boot_origin(host.sysroot, &journal)?;
    warn!(
        attempt = journal.plan.attempt.0,
        reason = cause,
        "target is given up, host goes back"
    );
    Ok(End::NeedsReboot)
}

/// The origin is booted: what the attempt did outside of deployments is undone.
fn undo(host: &mut Booted<'_>, mut journal: Journal) -> Result<(), Error> {
    if journal.stage == Stage::Switching && journal.target == Some(host.sysroot.first()?) {
        // The switch was made and not written down: the boot loader tried the target, and left it.
        journal.stage = Stage::Switched;
        host.store.put_journal(&journal)?;
    }
    let journal = &journal;
    let cause = match &journal.stage {
        Stage::RollingBack { cause } | Stage::Failed { cause } => cause.clone(),
        Stage::Switched | Stage::Booted => "the host booted its previous deployment".to_owned(),
        Stage::Applying | Stage::Switching => "the host was rebooted meanwhile".to_owned(),
    };
    if journal.plan.route == Route::Live {
        let services = live::Services::Leave;
        return live::undo(
            host.store,
            host.hands,
            journal,
            &cause,
            services,
            host.moment,
        );
    }
    for step in journal.plan.steps.iter().rev() {
        host.hands.restore(&step.action, &step.undo)?;
    }
    boot_origin(host.sysroot, journal)?;
    let outcome = if journal.could_boot_target() {
        hold(host, journal, &cause)?;
        Outcome::RolledBack
    } else {
        Outcome::Undone
    };
    host.store
        .close(&journal.end(outcome, Some(cause.clone()), host.moment))?;
    info!(
        attempt = journal.plan.attempt.0,
        reason = cause,
        "host is in its origin"
    );
    // What is left to do only frees room; the next attempt does it if this does not.
    if let Err(error) = host.sysroot.sweep() {
        warn!(
            error = super::chain(&error),
            "stray deployments were not thrown away"
        );
    }
    Ok(())
}

/// Something else is booted, by an administrator's hand: it is what the host is now.
fn adopt(host: &mut Booted<'_>, journal: &Journal, booted: &DeploymentId) -> Result<(), Error> {
    let cause = format!("the host booted {booted}, which is neither origin nor target");
    warn!(
        attempt = journal.plan.attempt.0,
        reason = cause,
        "host is taken as it is"
    );
    host.sysroot.keep_first()?;
    Ok(host
        .store
        .close(&journal.end(Outcome::Adopted, Some(cause), host.moment))?)
}

fn hold(host: &mut Booted<'_>, journal: &Journal, cause: &str) -> Result<(), Error> {
    let target = journal.plan.to.clone();
    let held = Held {
        schema: SCHEMA,
        target,
        cause: cause.to_owned(),
        since: host.moment.now,
    };
    Ok(host.store.put_held(&held)?)
}
