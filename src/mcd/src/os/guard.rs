//! `guard`: what the host does at boot by itself.

use std::thread;
use std::time::{Duration, Instant};

use chassis::report::Chain;
use host::execute::boot::{self, Booted};
use host::execute::{End, RunningUnits, StepExecutor};
use host::files::Root;
use host::journal::{DeploymentId, JournalStage, time_since_boot};
use host::ostree::Deployments;
use host::{late, observe};
use node_update::late::LeftBehind;
use node_update::plan::{Attempt, Expectation};
use node_update::well_known::KUBELET;
use tracing::{debug, info, warn};

use super::context::{Context, is_held_elsewhere, lock_deployments};
use super::deadline::Deadline;
use crate::protocol::{HelperOutcome, HelperReport};

/// How many changed paths a message names, and how many conflicts have a message each.
const NAMED_MAX: usize = 20;

/// The pause between two checks of a booted target. In the first minute the node may return to
/// service at any moment: a pause is [`SHARE`] times as long as the check before it, within these
/// limits, so that checks of large configurations leave the processor to what starts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(250));
const SHARE: u32 = 9;
const SOON: Duration = Duration::from_mins(1);

/// The pause after that minute.
const LATER: Duration = Duration::from_secs(2);

/// How long a host may take to go down after a request to reboot before another is sent: longer
/// than its services may take to stop.
const GOING_DOWN: Duration = Duration::from_mins(3);

/// Compares the booted deployment with the journal, before any unit of a configuration starts.
pub(super) fn run(context: &Context) -> anyhow::Result<HelperReport> {
    // First: a roll-back removes the deployment that was left.
    if let Err(error) = carry_late_changes(context) {
        warn!(
            message_id = "LateConflict",
            error = %Chain(&*error),
            "cannot carry over what others changed in /etc"
        );
    }
    run_as(context, boot::guard)
}

/// [`run`], by `act`.
fn run_as(
    context: &Context,
    act: fn(&mut Booted<'_>) -> Result<End, host::execute::Error>,
) -> anyhow::Result<HelperReport> {
    let _lock = context.lock()?;
    let attempt = match attempt(context)? {
        Some(attempt) => attempt,
        // A journal that is lost has no attempt, and the guard adopts what is booted.
        None if context.store().journal_fault()?.is_some() => Attempt(String::new()),
        None => return Ok(HelperReport::done()),
    };
    let end = as_booted(context, attempt, act)?;
    reboot_if_asked(context, &end)?;
    Ok(end.into())
}

/// Carries over what others wrote in `/etc` of the deployment that was left after this one was made
/// from it: once, before any unit starts that reads it or writes there.
fn carry_late_changes(context: &Context) -> anyhow::Result<()> {
    let _lock = context.lock()?;
    let store = context.store();
    let Some(switch) = store.switch()? else {
        return Ok(());
    };
    let deployments = Deployments::open()?.list()?;
    let is_first_boot = deployments
        .iter()
        .any(|deployment| deployment.is_booted && deployment.id == switch.to);
    let left = deployments.iter().find(|it| it.id == switch.left);
    let (true, Some(left)) = (is_first_boot, left) else {
        return Ok(());
    };
    let carried = Root::open(&left.path, None)
        .map_err(late::Error::from)
        .and_then(|left| late::carry(&left, &context.root, &switch));
    // Also where it failed: once units run, their changes of `/etc` are the newer ones.
    let left_behind = carried.as_ref().map_or_else(
        |_| LeftBehind::everything(),
        |carried| carried.left_behind.clone(),
    );
    store.put_switch(&switch.reversed(&context.moment, left_behind))?;
    let carried = carried?;
    let first = |paths: &[String]| {
        let named: Vec<_> = paths.iter().map(String::as_str).take(NAMED_MAX).collect();
        named.join(" ")
    };
    if !carried.written.is_empty() || !carried.removed.is_empty() {
        info!(
            message_id = "LateChanges",
            count = carried.written.len() + carried.removed.len(),
            paths = first(&carried.written),
            removed = first(&carried.removed),
            "what others changed in /etc of the deployment that was left is carried over"
        );
    }
    for (path, why) in carried.conflicts.iter().take(NAMED_MAX) {
        warn!(
            message_id = "LateConflict",
            path,
            reason = why,
            kept_in = late::KEPT,
            "a change of /etc in the deployment that was left is not carried over"
        );
    }
    let unnamed = carried.conflicts.len().saturating_sub(NAMED_MAX);
    if unnamed > 0 {
        warn!(
            message_id = "LateConflict",
            count = unnamed,
            kept_in = late::KEPT,
            "further changes of /etc are not carried over"
        );
    }
    Ok(())
}

/// How long a unit that waits for others says nothing of its target. On most hosts it is the
/// network that the kubelet waits for, in the end: a name, an address, an image of those others.
/// Much longer, and it is more likely the target that keeps them.
const UNITS_WAIT: Duration = Duration::from_hours(1);

/// Proves a booted target by its checks, while kubelet and container engine start; without the
/// cluster's help, and without asking it: an API server, registry or name server out of reach is no
/// failure of the host.
///
/// A target that cannot be finished or checked is treated like one whose checks fail: it is tried
/// again until the deadline, and then the host rolls back.
pub(super) fn verify(context: &Context, length: Duration) -> HelperReport {
    let attempt = match attempt(context) {
        Ok(Some(attempt)) => attempt,
        Ok(None) => return HelperReport::done(),
        Err(error) => {
            // Tried again until the deadline, as all of it is.
            warn!(error = %Chain(&*error), "cannot read which attempt is verified");
            Attempt(String::new())
        }
    };
    let of = (attempt, context.moment.boot_id.clone());
    let mut deadline = Deadline::resume(&context.root, of, length, time_since_boot());
    let report = verify_until(context, &mut deadline);
    deadline.forget();
    report
}

fn verify_until(context: &Context, deadline: &mut Deadline<'_>) -> HelperReport {
    let began = Instant::now();
    let mut proof = Judge::default();
    let mut logged = String::new();
    let mut looked = began;
    loop {
        let mut is_busy = false;
        let checked = Instant::now();
        let reasons = match proof.look(context) {
            Ok(JudgeStep::Over(report)) if report.outcome == HelperOutcome::NeedsReboot => {
                thread::sleep(GOING_DOWN);
                continue;
            }
            Ok(JudgeStep::Over(report)) => return report,
            Ok(JudgeStep::NotYet(reasons)) => reasons,
            Err(error) => {
                is_busy = is_held_elsewhere(&error);
                vec![Chain(&*error).to_string()]
            }
        };
        let cause = reasons.join("; ");
        if cause != logged {
            info!(reason = cause, "target is not verified yet");
            logged.clone_from(&cause);
        }
        let now = Instant::now();
        if deadline.waited() < UNITS_WAIT && units_wait(context) {
            deadline.extend(now - looked);
        }
        looked = now;
        // Who holds a lock says nothing of the target.
        if deadline.is_over(time_since_boot()) && !is_busy {
            match fail_if_booted(context, &cause) {
                // No other program repeats the request if it is lost.
                Ok(Some(End::NeedsReboot)) => thread::sleep(GOING_DOWN),
                Ok(Some(End::Done | End::Rejected(_))) => return HelperReport::failed(reasons),
                // The origin is booted: what is left to undo is tried again.
                Ok(None) => {}
                Err(error) => warn!(error = %Chain(&*error), "cannot roll back yet"),
            }
            proof = Judge::default();
        }
        thread::sleep(pause(began.elapsed(), now - checked));
    }
}

/// How long is waited after a check that took `took`, `elapsed` after the first one began.
fn pause(elapsed: Duration, took: Duration) -> Duration {
    if elapsed < SOON {
        took.saturating_mul(SHARE).clamp(PAUSES.0, PAUSES.1)
    } else {
        LATER
    }
}

/// Whether a unit that the checks ask for is to be started and something else is not through yet.
/// Where systemd does not say, it does not.
fn units_wait(context: &Context) -> bool {
    let journal = context.store().journal_under_way().ok().flatten();
    let expected = journal.iter().flat_map(|journal| &journal.plan.expect);
    let touched = expected.filter_map(|expectation| {
        if let Expectation::Started { unit } = expectation {
            Some(unit.as_str())
        } else {
            None
        }
    });
    let mut running = RunningUnits::new(&context.runtime);
    [KUBELET].into_iter().chain(touched).any(|unit| {
        running.waits_to_start(unit).unwrap_or_else(|error| {
            debug!(unit, error = %Chain(&error), "cannot ask what a unit waits for");
            false
        })
    })
}

/// How far the proof of a booted target came.
#[derive(Default)]
struct Judge {
    /// Whether the guard's part is done: it may have been killed before, or met a fault.
    is_guarded: bool,
}

/// The result of one check of a booted target.
enum JudgeStep {
    /// It is judged, or there is nothing to judge.
    Over(HelperReport),
    /// It does not hold yet, and why.
    NotYet(Vec<String>),
}

impl Judge {
    fn look(&mut self, context: &Context) -> anyhow::Result<JudgeStep> {
        if !self.is_guarded {
            let guarded = run_as(context, boot::guard_late)?;
            if guarded.outcome != HelperOutcome::Done {
                return Ok(JudgeStep::Over(guarded));
            }
            self.is_guarded = true;
        }
        // Released between two checks, so that a manual rollback need not wait.
        let _lock = context.lock()?;
        let store = context.store();
        let journal = match store.journal_under_way()? {
            // One that failed and stays may have been mended.
            Some(journal)
                if matches!(
                    journal.stage,
                    JournalStage::Booted | JournalStage::Failed { .. }
                ) =>
            {
                journal
            }
            Some(_) | None => return Ok(JudgeStep::Over(HelperReport::done())),
        };
        let mut units = RunningUnits::new(&context.runtime);
        let found = observe::mismatches(&context.root, &mut units, &journal.plan.expect);
        if !found.is_empty() {
            return Ok(JudgeStep::NotYet(
                found.iter().map(ToString::to_string).collect(),
            ));
        }
        let attempt = journal.plan.attempt.clone();
        let end = as_booted(context, attempt, |host| boot::verified(host, &journal))?;
        prune(&journal.origin);
        Ok(JudgeStep::Over(end.into()))
    }
}

/// Ends the attempt as failed if its target is booted: rolls the host back, or keeps the target
/// where the journal says `stay`. `None` if no target is booted.
fn fail_if_booted(context: &Context, cause: &str) -> anyhow::Result<Option<End>> {
    let _lock = context.lock()?;
    let Some(attempt) = attempt(context)? else {
        return Ok(None);
    };
    let end = as_booted(context, attempt, |host| boot::fail_if_booted(host, cause))?;
    if let Some(end) = &end {
        reboot_if_asked(context, end)?;
    }
    Ok(end)
}

fn attempt(context: &Context) -> anyhow::Result<Option<Attempt>> {
    Ok(context
        .store()
        .journal_under_way()?
        .map(|journal| journal.plan.attempt))
}

fn as_booted<T>(
    context: &Context,
    attempt: Attempt,
    act: impl FnOnce(&mut Booted<'_>) -> Result<T, host::execute::Error>,
) -> anyhow::Result<T> {
    let store = context.store();
    let mut deployments = lock_deployments()?;
    let mut units = RunningUnits::in_early_boot(&context.runtime);
    let mut executor = StepExecutor::new(&context.root, &mut units, &store, attempt);
    let mut host = Booted {
        store: &store,
        sysroot: &mut deployments,
        executor: &mut executor,
        moment: &context.moment,
    };
    Ok(act(&mut host)?)
}

fn reboot_if_asked(context: &Context, end: &End) -> anyhow::Result<()> {
    if *end == End::NeedsReboot {
        warn!("host reboots");
        RunningUnits::new(&context.runtime).reboot()?;
    }
    Ok(())
}

/// Frees what the update before this one left. That it cannot be freed now is no reason to doubt
/// the target.
fn prune(origin: &DeploymentId) {
    let pruned = lock_deployments().and_then(|mut deployments| {
        deployments.drop_older_than(origin)?;
        Ok(deployments.prune()?)
    });
    if let Err(error) = pruned {
        warn!(error = %Chain(&*error), "old deployments were not removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_repeated_soon_and_a_long_one_later() {
        let ms = Duration::from_millis;
        let table = [
            (ms(0), ms(1), ms(50)),
            (ms(0), ms(10), ms(90)),
            (ms(0), ms(400), ms(250)),
            (SOON, ms(1), LATER),
        ];
        for (elapsed, took, expected) in table {
            assert_eq!(pause(elapsed, took), expected, "{elapsed:?} {took:?}");
        }
    }
}
