//! What an upgrade that waits, or is under way, needs to know and to do next.
//!
//! [`next`] is pure: it names commands, and what is to be observed before it decides again. It
//! forgets nothing between two passes but what can be observed again, so a pass may end anywhere.
//!
//! - `turn`: what a decision is made of, and what it says
//! - [`steps`]: the decisions of each step

pub mod steps;
#[cfg(test)]
mod tests;
mod turn;

use std::time::Duration;

use api::ConditionStatus;
use api::upgrade::UpgradePhase;
use jiff::SignedDuration;
use release::Version;

pub use self::turn::{
    MachineDrains, Observations, Refreshed, Then, Turn, UpgradeCommand, UpgradeFacts,
    UpgradeObservation, UpgradeProgress, WorkerFacts,
};
use crate::history::{self, StepOutcome, StepTurn};
use crate::hook::{HookState, HookTime};
use crate::notice::NoticeState;
use crate::pass::Pass;
use crate::phase::PhaseEvent;
use crate::schedule::{self, StartDecision, parse_start};
use crate::series;
use crate::step::{StepName, UpgradeStep};
use crate::validation::ConfigVerdict;
use crate::window;

/// How often a gate that holds an upgrade is evaluated again, and how often something is checked
/// that no watch reports.
pub const POLL: Duration = Duration::from_secs(30);

/// How often the time of an upgrade is compared with the clock, which may be set.
const CLOCK: SignedDuration = SignedDuration::from_mins(10);

/// Decides what comes next; none in a phase that this module has no part in.
pub fn next(facts: UpgradeFacts<'_>) -> Option<Turn> {
    match facts.pass.entry.phase {
        UpgradePhase::Pending => Some(pending(facts)),
        UpgradePhase::Upgrading => Some(upgrading(facts)),
        UpgradePhase::New
        | UpgradePhase::Upgraded
        | UpgradePhase::Failed
        | UpgradePhase::Other(_) => None,
    }
}

/// Pending: validated, and started when the time has come.
fn pending(facts: UpgradeFacts<'_>) -> Turn {
    use UpgradeCommand::{AdoptVersion, Gauge, NoteInvalid, NoteValid};
    let pass = facts.pass;
    let config = &pass.config;
    let start = parse_start(&pass.upgrade.spec.upgrade_at);
    let decision =
        start.map(|start| schedule::decide(start, config.window, &config.windows, pass.now));
    let is_due = !matches!(decision, Ok(StartDecision::Wait(_)));
    let verdict = match &decision {
        Ok(StartDecision::Stale(why)) => Err(why.clone()),
        Ok(StartDecision::Wait(_) | StartDecision::Start) | Err(_) => {
            match validated(facts, is_due) {
                Ok(version) => Ok(version),
                Err(Unvalidated::Invalid(why)) => Err(why),
                Err(Unvalidated::Needs(wanted)) => return Turn::observe(wanted),
            }
        }
    };
    let is_invalid = f64::from(u8::from(verdict.is_err()));
    let gauge = Gauge(series::VALIDATION_FAILED, is_invalid, false);
    let desired = &pass.upgrade.spec.desired;
    match verdict {
        Ok(Some(version)) if version.to_string() != desired.version => {
            let commands = vec![gauge, AdoptVersion(version)];
            return Turn::act(commands, Then::Wait(Duration::from_secs(1)));
        }
        Err(why) => {
            // ClusterVersion and the UpgradeConfig are watched; a server is polled.
            let then = if is_due || !desired.image.is_empty() {
                Then::Wait(Duration::from_mins(1))
            } else {
                Then::Settle
            };
            return Turn::act(vec![gauge, NoteInvalid(why)], then);
        }
        Ok(_) => {}
    }
    let mut turn = when_valid(facts, decision.ok());
    turn.commands.extend([gauge, NoteValid]);
    turn
}

/// Pending and valid: it waits for its time, and starts if it is still the requested one.
fn when_valid(facts: UpgradeFacts<'_>, decision: Option<StartDecision>) -> Turn {
    let UpgradeFacts { pass, seen, .. } = facts;
    let changed = UpgradeProgress::Enter(PhaseEvent::Changed);
    match (decision, seen.source, seen.is_current) {
        (Some(StartDecision::Wait(left)), ..) => {
            let wait = left.min(CLOCK).saturating_add(SignedDuration::from_secs(1));
            let wait = Duration::try_from(wait).unwrap_or(POLL);
            Turn::act(Vec::new(), Then::Wait(wait))
        }
        // Its window goes on counting: one that closes meanwhile is missed.
        (Some(StartDecision::Start), ..) if pass.stop().is_some() => {
            Turn::act(Vec::new(), Then::Wait(POLL))
        }
        // What the source withdrew since it was last read does not start, nor does anything while
        // the source cannot be read.
        (_, None, _) if pass.config.fleet.is_some() => Turn::observe(UpgradeObservation::Source),
        (_, Some(Refreshed::Doubted), _) => Turn::act(Vec::new(), Then::Wait(POLL)),
        (_, Some(Refreshed::Unread), _) => Turn::act(Vec::new(), Then::Retry),
        // The watch delivers what it is now.
        (_, Some(Refreshed::Changed), _) | (.., Some(false)) => {
            Turn::progress(changed, Then::Wait(Duration::from_secs(1)))
        }
        // What the watch has not delivered yet counts too: a withdrawal before the start does.
        (.., None) => Turn::observe(UpgradeObservation::Latest),
        (.., Some(true)) => Turn::progress(UpgradeProgress::Enter(PhaseEvent::Ready), Then::Decide),
    }
}

/// Why an upgrade is not followed.
enum Unvalidated {
    Invalid(String),
    /// This has to be observed before.
    Needs(UpgradeObservation),
}

/// The version of the image of an upgrade that can be followed, if it has one that was read.
fn validated(facts: UpgradeFacts<'_>, is_due: bool) -> Result<Option<Version>, Unvalidated> {
    let pass = facts.pass;
    if let Some(checked) = &facts.seen.checked {
        return checked.clone().map_err(Unvalidated::Invalid);
    }
    match pass.judge() {
        Err(invalid) => Err(Unvalidated::Invalid(invalid.to_string())),
        Ok(ConfigVerdict::Valid) => Ok(None),
        // Requests to servers are sent when the upgrade is seen, and at the start.
        Ok(ConfigVerdict::AskImage { .. }) if !is_due && pass.has_read_image() => Ok(None),
        Ok(ConfigVerdict::AskGraph { .. }) if !is_due && pass.is_valid() => Ok(None),
        Ok(ConfigVerdict::AskImage { current, image }) => {
            Err(Unvalidated::Needs(UpgradeObservation::Image {
                current,
                image,
            }))
        }
        Ok(ConfigVerdict::AskGraph { current, desired }) => {
            Err(Unvalidated::Needs(UpgradeObservation::Graph {
                current,
                desired,
            }))
        }
    }
}

/// Upgrading: the window, then the steps in order until one is not done.
fn upgrading(facts: UpgradeFacts<'_>) -> Turn {
    use UpgradeCommand::{ReleaseNodes, ShowDrains};
    let UpgradeFacts { pass, seen, .. } = facts;
    let r#type = &pass.upgrade.spec.r#type;
    if !seen.has_nodes {
        return Turn::observe(UpgradeObservation::Nodes);
    }
    let (commenced, window) = (pass.is_commenced(), pass.config.window);
    if seen.passed.is_empty()
        && seen.begun.is_none()
        && window::has_expired(r#type, &pass.entry, commenced, window, pass.now)
    {
        return give_up(facts);
    }
    let steps = pass.config.steps(r#type);
    let open = steps
        .into_iter()
        .filter(|step| !seen.passed.contains(&step.name));
    for step in open {
        if seen.begun == Some(step.name) {
            return running(facts, step);
        }
        return match history::turn(&pass.entry, &step, commenced == Ok(true)) {
            StepTurn::Skip => continue,
            StepTurn::Passed => finished(step, StepOutcome::Done),
            // The window goes on counting: an upgrade that has changed nothing is given up at its
            // end. Steps that have begun, and gates that were evaluated, go on.
            StepTurn::Run if pass.stop().is_some() && !has_begun(facts, step) => {
                Turn::act(Vec::new(), Then::Wait(POLL))
            }
            StepTurn::Run => Turn::progress(UpgradeProgress::Begin(step), Then::Decide),
        };
    }
    Turn {
        commands: vec![ShowDrains(Vec::new()), ReleaseNodes],
        progress: Some(UpgradeProgress::Enter(PhaseEvent::Done)),
        // How it ended is published with the next pass, which the write wakes.
        then: Then::Settle,
    }
}

/// Whether a step has begun in this pass or an earlier one. The step that changes the cluster has
/// not before it did: what comes before that can be waited with.
fn has_begun(facts: UpgradeFacts<'_>, step: UpgradeStep) -> bool {
    let pass = facts.pass;
    let is_noted = pass.entry.condition(step.condition).is_some();
    is_noted && (step.name != StepName::CommenceUpgrade || pass.is_commenced() == Ok(true))
}

/// A step that has begun: its first hooks, the step itself, and its last hooks.
fn running(facts: UpgradeFacts<'_>, step: UpgradeStep) -> Turn {
    let seen = facts.seen;
    if let Some(why) = &seen.failed {
        return finished(step, StepOutcome::Failed(why.clone()));
    }
    for when in [HookTime::Before, HookTime::After] {
        if when == HookTime::After {
            match &seen.outcome {
                None => return steps::next(facts, step.name),
                Some(StepOutcome::Done) => {}
                Some(other) => return finished(step, other.clone()),
            }
        }
        if let Some(turn) = hooks(facts, step, when) {
            return turn;
        }
    }
    finished(step, StepOutcome::Done)
}

/// What comes next of the hooks of a step; none where all have succeeded.
fn hooks(facts: UpgradeFacts<'_>, step: UpgradeStep, when: HookTime) -> Option<Turn> {
    let UpgradeFacts { pass, seen, .. } = facts;
    let (upgrade, version) = (&pass.upgrade, pass.entry.version.as_str());
    let mut hooks = pass.config.hooks.iter().filter(|hook| {
        let condition = pass.entry.condition(&hook.condition());
        let has_succeeded =
            condition.is_some_and(|condition| condition.status == ConditionStatus::True);
        hook.step == step.name && hook.when == when && !has_succeeded
    });
    let hook = hooks.next()?;
    let job = hook.job_name(version);
    let hold = |why: String| {
        finished(
            step,
            StepOutcome::Hold(format!("hook {}: {why}", hook.name)),
        )
    };
    let runs = || hold(format!("Job {job} runs"));
    Some(match seen.jobs.get(&job) {
        None => Turn::observe(UpgradeObservation::Job(job)),
        Some(None) => Turn {
            commands: vec![UpgradeCommand::CreateJob(
                hook.name.clone(),
                hook.to_job(upgrade, version),
            )],
            ..runs()
        },
        Some(Some(found)) => match hook.state(found, upgrade) {
            // The Job may remove itself: what follows does not run it a second time.
            HookState::Done => {
                let message = format!("Job {job} has succeeded");
                let note = UpgradeCommand::NoteHook(hook.condition(), message);
                Turn::act(vec![note], Then::Decide)
            }
            HookState::Running => runs(),
            HookState::Failed(why) => hold(why),
        },
    })
}

fn finished(step: UpgradeStep, outcome: StepOutcome) -> Turn {
    let then = match outcome {
        StepOutcome::Done => Then::Decide,
        StepOutcome::Waiting | StepOutcome::Hold(_) => Then::Wait(POLL),
        StepOutcome::Failed(_) => Then::Retry,
    };
    Turn::progress(UpgradeProgress::Finish(step, outcome), then)
}

/// The window has closed before the cluster was changed. What was added goes first, then the end is
/// announced: upstream's service drops a failed upgrade at once.
fn give_up(facts: UpgradeFacts<'_>) -> Turn {
    use UpgradeCommand::{NoteFailed, NoteUnfailed, RemoveAdded};
    if let Some(why) = &facts.seen.failed {
        return Turn::act(vec![NoteUnfailed(why.clone())], Then::Retry);
    }
    let cause = history::first_open(&facts.pass.entry);
    let cause = cause.unwrap_or("it did not start in its window");
    let mut commands = vec![RemoveAdded];
    commands.extend(announcement(facts.pass, NoticeState::Failed, cause));
    commands.push(NoteFailed);
    Turn {
        commands,
        progress: Some(UpgradeProgress::Enter(PhaseEvent::Expired)),
        then: Then::Settle,
    }
}

/// A state that is not announced yet.
fn announcement(pass: &Pass, state: NoticeState, why: &str) -> Option<UpgradeCommand> {
    (!pass.is_announced(state)).then(|| UpgradeCommand::Announce(state, why.to_owned()))
}
