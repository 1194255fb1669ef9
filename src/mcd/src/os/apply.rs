//! `apply` and `rollback`: execute a plan, or undo the attempt under way.

use std::thread;
use std::time::{Duration, Instant};

use host::execute::boot::{self, Booted};
use host::execute::{
    End, Error, NewDeployment, RunningUnits, StepExecutor, Steps, Sysroot as _, Units, live, reboot,
};
use host::journal::{AttemptOutcome, Journal, JournalStore};
use host::observe;
use host::systemd::Offline;
use node_update::plan::{Plan, Route};
use node_update::verify::unexpected_state;

use super::context::{Context, lock_deployments};
use super::rehearse::take;
use crate::protocol::{ApplyDetails, HelperReport, ServiceAction};
use crate::updaters;

/// How long the checks of a live change may take to hold: a restarted service comes up meanwhile.
const LIVE_DEADLINE: Duration = Duration::from_secs(30);

/// How long is waited between two looks.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) fn run(context: &Context, directory: &str, stay: bool) -> anyhow::Result<HelperReport> {
    let _lock = context.lock()?;
    let store = context.store();
    let plan = match store.journal_under_way()? {
        Some(journal) if directory_of(&journal)? == directory.trim_end_matches('/') => journal.plan,
        Some(journal) => {
            let attempt = &journal.plan.attempt.0;
            let reason = format!("attempt {attempt} is under way on this host");
            return Ok(HelperReport::refused(vec![reason]));
        }
        None => {
            if let Some(report) = ended(&store, directory)? {
                return Ok(report);
            }
            let plan = take(&store, directory)?.plan;
            if let Some(report) = drifted(context, &plan)? {
                return Ok(report);
            }
            plan
        }
    };
    let end = match plan.route {
        Route::Live => apply_live(context, &store, plan),
        Route::Reboot => apply_reboot(context, &store, plan, stay),
    };
    match end {
        Ok(end) => Ok(end.into()),
        Err(error) => {
            let report = HelperReport::of_failure(&error);
            let Some(Error::Service { action, .. }) = error.downcast_ref() else {
                return Err(error);
            };
            Ok(report.with(&ApplyDetails {
                is_drifted: false,
                failed_service: ServiceAction::of_action(action),
            })?)
        }
    }
}

/// The report of a plan that is not begun, as the host was changed by hand since it was made.
fn drifted(context: &Context, plan: &Plan) -> anyhow::Result<Option<HelperReport>> {
    let mut units = RunningUnits::new(&context.runtime);
    let found = observe::mismatches(&context.root, &mut units, &plan.origin);
    if found.is_empty() {
        return Ok(None);
    }
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    let reason = unexpected_state(&plan.from, &found.join("; "));
    let report = HelperReport::refused(vec![reason]);
    Ok(Some(report.with(&ApplyDetails {
        is_drifted: true,
        failed_service: None,
    })?))
}

/// Undoes the attempt under way from any stage: reverts it, or rolls the host back.
pub(super) fn revert_or_roll_back(context: &Context) -> anyhow::Result<HelperReport> {
    let _lock = context.lock()?;
    let store = context.store();
    let Some(journal) = store.journal_under_way()? else {
        return Ok(HelperReport::done());
    };
    let mut deployments = lock_deployments()?;
    let mut units = RunningUnits::new(&context.runtime);
    let mut executor = StepExecutor::new(&context.root, &mut units, &store, journal.plan.attempt);
    let mut host = Booted {
        store: &store,
        sysroot: &mut deployments,
        executor: &mut executor,
        moment: &context.moment,
    };
    let mut kubelet = RunningUnits::new(&context.runtime);
    let mut revert = |host: &mut Booted<'_>, journal: Journal, cause: &str| {
        let mut host = reboot::RunningHost {
            store: host.store,
            sysroot: host.sysroot,
            running: &mut kubelet,
            units_of: &units_of,
            moment: host.moment,
        };
        reboot::revert(&mut host, journal, cause)
    };
    Ok(boot::revert_or_roll_back(&mut host, &mut revert, "a rollback was requested")?.into())
}

/// How an attempt ended whose plan is gone: a caller that asks again was killed before it received
/// the answer.
fn ended(store: &JournalStore<'_>, directory: &str) -> anyhow::Result<Option<HelperReport>> {
    let Some(last) = store.last()? else {
        return Ok(None);
    };
    let is_it = JournalStore::plan_directory(&last.attempt)? == directory.trim_end_matches('/');
    if !is_it || store.plans()?.contains(&last.attempt) {
        return Ok(None);
    }
    Ok(Some(match last.outcome {
        AttemptOutcome::Verified => HelperReport::done(),
        AttemptOutcome::RolledBack | AttemptOutcome::Undone | AttemptOutcome::Adopted => {
            HelperReport::failed(last.cause.into_iter().collect())
        }
    }))
}

fn apply_live(context: &Context, store: &JournalStore<'_>, plan: Plan) -> anyhow::Result<End> {
    let booted = host::ostree::Deployments::open()?.booted()?;
    let mut units = RunningUnits::new(&context.runtime);
    let mut executor = StepExecutor::new(&context.root, &mut units, store, plan.attempt.clone());
    let expectations = plan.expect.clone();
    let mut verify = |executor: &mut dyn Steps| {
        let until = Instant::now() + LIVE_DEADLINE;
        loop {
            let found = observe::mismatches(&context.root, executor.units(), &expectations);
            if found.is_empty() {
                return Ok(());
            }
            if Instant::now() >= until {
                let reasons = found.iter().map(ToString::to_string).collect();
                return Err(Error::NotVerified { reasons });
            }
            thread::sleep(PAUSE);
        }
    };
    Ok(live::apply(
        store,
        &mut executor,
        plan,
        booted,
        &mut verify,
        &context.moment,
    )?)
}

fn apply_reboot(
    context: &Context,
    store: &JournalStore<'_>,
    plan: Plan,
    stay: bool,
) -> anyhow::Result<End> {
    let mut running = RunningUnits::new(&context.runtime);
    if store.journal()?.is_none() {
        let reasons = updaters::found(&mut running)?;
        if !reasons.is_empty() {
            return Ok(End::Rejected(reasons));
        }
    }
    let mut deployments = lock_deployments()?;
    let mut host = reboot::RunningHost {
        store,
        sysroot: &mut deployments,
        running: &mut running,
        units_of: &units_of,
        moment: &context.moment,
    };
    Ok(reboot::apply(&mut host, plan, stay)?)
}

fn units_of(made: &NewDeployment) -> Box<dyn Units> {
    Box::new(Offline::new(made.root.path().to_owned()))
}

fn directory_of(journal: &Journal) -> anyhow::Result<String> {
    Ok(JournalStore::plan_directory(&journal.plan.attempt)?)
}
