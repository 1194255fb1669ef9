//! What a step needs to know and to do. A step never sleeps, may run twice, and says why it is not
//! done.

use display::Chain;
use release::Version;

use super::UpgradeCommand::{
    AdoptVersion, CreateMachineSet, CreateSilence, DeleteMachineSet, EndSilences, Gauge,
    InitialiseFileIntegrity, NoteValid, SetChannel, SetRelease, ShowDrains, TryToAnnounce,
};
use super::{Then, Turn, UpgradeCommand, UpgradeFacts, UpgradeObservation, announcement};
use crate::capacity::{self, CapacityState};
use crate::commence::{self, CommenceStep};
use crate::config;
use crate::health::{self, HealthFinding};
use crate::history::{self, StepOutcome};
use crate::notice::NoticeState;
use crate::pass::Pass;
use crate::release_state::{NoCurrentVersion, current_version, is_completed, started};
use crate::schedule::{self, InvalidStart, parse_start};
use crate::series;
use crate::silence::{self, SilenceKind};
use crate::step::StepName;
use crate::validation::ConfigVerdict;
use crate::{upgradeable, window};

/// Why it is undecided whether ClusterVersion lets the upgrade pass.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The version that runs cannot be read.
    #[error(transparent)]
    NoCurrentVersion(#[from] NoCurrentVersion),
    #[error(transparent)]
    Version(#[from] release::version::Error),
    /// The start is no time.
    #[error("spec.upgradeAt")]
    Start(#[from] InvalidStart),
}

/// Decides what comes next of a step that has begun, but for its hooks.
pub fn next(facts: UpgradeFacts<'_>, step: StepName) -> Turn {
    use NoticeState as State;
    use StepName as Name;
    let pass = facts.pass;
    match step {
        Name::SendStartedNotification => announced(pass, State::Started),
        Name::UpgradeDelayedCheck => check_delay(pass),
        Name::IsUpgradeable => concluded(is_upgradeable(pass)),
        Name::PreUpgradeHealthCheck => check_health_before(facts),
        Name::ExternalDependencyAvailabilityCheck => match &facts.seen.dependencies {
            None => Turn::observe(UpgradeObservation::Dependencies),
            Some(faults) if faults.is_empty() => done(Vec::new()),
            Some(faults) => concluded(StepOutcome::Hold(faults.join("; "))),
        },
        Name::EnsureExtraUpgradeWorkers => add_machines(facts),
        Name::CreateControlPlaneMaintWindow => silence_control_plane(facts),
        Name::CommenceUpgrade => commence(facts),
        Name::ControlPlaneUpgraded => await_control_plane(pass),
        Name::RemoveControlPlaneMaintWindow => end_silences(facts, SilenceKind::ControlPlane),
        Name::CreateWorkerMaintWindow => silence_workers(facts),
        Name::AllWorkersUpgraded => await_workers(facts),
        Name::RemoveExtraScaledNodes => remove_machines(facts),
        Name::RemoveMaintWindow => end_silences(facts, SilenceKind::Workers),
        Name::PostUpgradeHealthCheck => check_health_after(facts),
        Name::PostUpgradeProcedures => {
            let commands = pass.config.is_fedramp.then_some(InitialiseFileIntegrity);
            done(commands.into_iter().collect())
        }
        Name::SendCompletedNotification => announced(pass, State::Completed),
    }
}

const fn done(commands: Vec<UpgradeCommand>) -> Turn {
    Turn::act(commands, Then::Conclude(StepOutcome::Done))
}

const fn concluded(outcome: StepOutcome) -> Turn {
    Turn::act(Vec::new(), Then::Conclude(outcome))
}

fn announced(pass: &Pass, state: NoticeState) -> Turn {
    done(announcement(pass, state, "").into_iter().collect())
}

fn check_delay(pass: &Pass) -> Turn {
    if !window::is_delayed(&pass.entry, pass.config.delay_trigger, pass.now) {
        return done(Vec::new());
    }
    let why = history::first_open(&pass.entry).unwrap_or("its gates are not passed yet");
    let notice = announcement(pass, NoticeState::Delayed, why);
    done(notice.into_iter().collect())
}

/// Whether ClusterVersion lets the upgrade pass.
pub fn is_upgradeable(pass: &Pass) -> StepOutcome {
    match refusal(pass) {
        Ok(None) => StepOutcome::Done,
        Ok(Some(why)) => StepOutcome::Hold(why),
        Err(error) => StepOutcome::Failed(Chain(&error).to_string()),
    }
}

fn refusal(pass: &Pass) -> Result<Option<String>, GateError> {
    let status = pass.version.status.clone().unwrap_or_default();
    let current: Version = current_version(&status)?.parse()?;
    let desired: Version = pass.entry.version.parse()?;
    let at = parse_start(&pass.upgrade.spec.upgrade_at)?;
    Ok(upgradeable::refusal(&status, &current, &desired, at))
}

fn check_health_before(facts: UpgradeFacts<'_>) -> Turn {
    let Some(findings) = &facts.seen.findings else {
        return Turn::observe(UpgradeObservation::Findings);
    };
    let mut commands = Vec::new();
    if !findings.is_empty() && facts.pass.config.has_all_health_checks {
        let why = health::announcement(findings);
        commands.extend(announcement(facts.pass, NoticeState::HealthCheck, &why));
    }
    Turn::act(commands, Then::Conclude(judged(findings)))
}

fn check_health_after(facts: UpgradeFacts<'_>) -> Turn {
    match &facts.seen.findings {
        // An alert about a drain that has ended would fail the check that ends it.
        None => Turn::act(
            vec![ShowDrains(Vec::new())],
            Then::Observe(UpgradeObservation::Findings),
        ),
        Some(findings) => concluded(judged(findings)),
    }
}

fn judged(findings: &[HealthFinding]) -> StepOutcome {
    let holding = findings.iter().filter(|finding| finding.holds());
    let holding: Vec<HealthFinding> = holding.cloned().collect();
    if holding.is_empty() {
        StepOutcome::Done
    } else {
        StepOutcome::Hold(health::texts(&holding))
    }
}

fn add_machines(facts: UpgradeFacts<'_>) -> Turn {
    let UpgradeFacts { pass, seen, .. } = facts;
    let config = &pass.config;
    if !pass.upgrade.spec.capacity_reservation {
        return done(Vec::new());
    }
    if !config.scale_faults.is_empty() {
        return concluded(StepOutcome::Failed(config::list(&config.scale_faults)));
    }
    let Some(sets) = &seen.sets else {
        return Turn::observe(UpgradeObservation::MachineSets);
    };
    let originals = match capacity::originals(sets, config) {
        Ok(originals) => originals,
        Err(none) => {
            let state = NoticeState::ScaleSkipped;
            let notice = TryToAnnounce(state, none.to_string());
            let notice = Some(notice).filter(|_| !pass.is_announced(state));
            return done(notice.into_iter().collect());
        }
    };
    let missing = capacity::missing_copies(&originals, sets, config.extra_machines);
    if !missing.is_empty() {
        let commands = missing.into_iter().map(CreateMachineSet).collect();
        return Turn::act(commands, Then::Conclude(StepOutcome::Waiting));
    }
    let Some(machines) = &seen.machines else {
        return Turn::observe(UpgradeObservation::Machines);
    };
    match capacity::state(sets, machines, &seen.ready, config.scale_timeout, pass.now) {
        CapacityState::Ready => done(vec![Gauge(series::SCALING_FAILED, 0.0, false)]),
        CapacityState::Waiting(why) => concluded(StepOutcome::Hold(why)),
        CapacityState::TimedOut(why) => {
            let mut commands = vec![Gauge(series::SCALING_FAILED, 1.0, false)];
            commands.extend(announcement(pass, NoticeState::Skipped, &why));
            done(commands)
        }
    }
}

fn silence_control_plane(facts: UpgradeFacts<'_>) -> Turn {
    let Some(silences) = &facts.seen.silences else {
        return Turn::observe(UpgradeObservation::Silences);
    };
    let config = &facts.pass.config;
    let version = &facts.pass.entry.version;
    let missing =
        silence::missing_of_control_plane(version, &config.control_plane_criticals, silences);
    let missing = missing.into_iter();
    done(
        missing
            .map(|silence| CreateSilence(silence, config.control_plane_time))
            .collect(),
    )
}

fn commence(facts: UpgradeFacts<'_>) -> Turn {
    let pass = facts.pass;
    let mut commands = vec![Gauge(series::WINDOW_BREACHED, 0.0, false)];
    if let Some(why) = schedule::closed(&pass.config.windows, pass.now)
        && pass.is_commenced() != Ok(true)
    {
        return Turn::act(commands, Then::Conclude(StepOutcome::Hold(why)));
    }
    let desired = &pass.upgrade.spec.desired;
    let then = match commence::decide(desired, &pass.version, &pass.config.accepted_risks) {
        CommenceStep::Done => Then::Conclude(StepOutcome::Done),
        CommenceStep::Hold(why) => Then::Conclude(StepOutcome::Hold(why)),
        CommenceStep::SetRelease(change) => {
            if let Some(mut held) = held_by_image(facts) {
                held.commands.splice(0..0, commands);
                return held;
            }
            if !desired.image.is_empty() && !pass.has_read_image() {
                commands.push(NoteValid);
            }
            commands.extend(announcement(pass, NoticeState::ControlPlaneStarted, ""));
            commands.push(SetRelease(change));
            Then::Decide
        }
        CommenceStep::SetChannel(change) => {
            commands.push(SetChannel(change));
            // What it offers is in the status of ClusterVersion, which is watched.
            Then::Conclude(StepOutcome::Waiting)
        }
    };
    Turn::act(commands, then)
}

/// What holds the commencement by an image: one may have taken the place of the one that was read.
fn held_by_image(facts: UpgradeFacts<'_>) -> Option<Turn> {
    let pass = facts.pass;
    let desired = &pass.upgrade.spec.desired;
    if desired.image.is_empty() || pass.has_read_image() {
        return None;
    }
    let hold = |why: String| Some(concluded(StepOutcome::Hold(why)));
    match pass.judge() {
        Err(invalid) => hold(invalid.to_string()),
        Ok(ConfigVerdict::Valid | ConfigVerdict::AskGraph { .. }) => None,
        Ok(ConfigVerdict::AskImage { current, image }) => match &facts.seen.checked {
            None => Some(Turn::observe(UpgradeObservation::Image { current, image })),
            Some(Err(why)) => hold(why.clone()),
            Some(Ok(Some(version))) if version.to_string() != desired.version => {
                let commands = vec![AdoptVersion(version.clone())];
                let then = Then::Conclude(StepOutcome::Waiting);
                Some(Turn::act(commands, then))
            }
            Some(Ok(_)) => None,
        },
    }
}

fn await_control_plane(pass: &Pass) -> Turn {
    let version = pass.entry.version.as_str();
    let status = pass.version.status.clone().unwrap_or_default();
    if is_completed(&status, version) {
        let notice = announcement(pass, NoticeState::ControlPlaneFinished, "");
        let gauge = Gauge(series::CONTROL_PLANE_TIMEOUT, 0.0, true);
        return done(notice.into_iter().chain([gauge]).collect());
    }
    let began = started(&status, version);
    let began = began.or_else(|| parse_start(&pass.upgrade.spec.upgrade_at).ok());
    let limit = pass.config.control_plane_time;
    let is_late = began.is_some_and(|began| pass.now.duration_since(began) > limit);
    let late = is_late.then_some(Gauge(series::CONTROL_PLANE_TIMEOUT, 1.0, true));
    let requested = pass.version.spec.desired_update.as_ref();
    let requested = requested.map_or("", |update| update.version.as_str());
    let outcome = if requested != version && pass.upgrade.spec.desired.image.is_empty() {
        let current = current_version(&status).unwrap_or("unknown");
        StepOutcome::Hold(format!(
            "ClusterVersion runs {current} and asks for {requested:?}: the request for {version} was \
             taken away"
        ))
    } else {
        StepOutcome::Waiting
    };
    Turn::act(late.into_iter().collect(), Then::Conclude(outcome))
}

fn silence_workers(facts: UpgradeFacts<'_>) -> Turn {
    let pending = facts.workers.pending;
    if pending == 0 {
        return done(Vec::new());
    }
    let Some(silences) = &facts.seen.silences else {
        return Turn::observe(UpgradeObservation::Silences);
    };
    let pass = facts.pass;
    let change = silence::change_of_workers(&pass.entry.version, pending, silences);
    let length = pass.config.worker_window(pending, pass.force_drain());
    // The new one first: no moment is without a silence.
    let created = change.created.into_iter();
    let created = created.map(|silence| CreateSilence(silence, length));
    done(created.chain(ending(change.replaced)).collect())
}

fn end_silences(facts: UpgradeFacts<'_>, kind: SilenceKind) -> Turn {
    match &facts.seen.silences {
        None => Turn::observe(UpgradeObservation::Silences),
        Some(silences) => {
            let ids = silence::to_remove(kind, silences);
            done(ending(ids).into_iter().collect())
        }
    }
}

fn ending(ids: Vec<String>) -> Option<UpgradeCommand> {
    (!ids.is_empty()).then_some(EndSilences(ids))
}

fn await_workers(facts: UpgradeFacts<'_>) -> Turn {
    let UpgradeFacts {
        pass,
        workers,
        seen,
    } = facts;
    if workers.open.is_empty() {
        let notice = announcement(pass, NoticeState::WorkersFinished, "");
        let gauge = Gauge(series::WORKER_TIMEOUT, 0.0, true);
        return done(notice.into_iter().chain([gauge]).collect());
    }
    let Some(silences) = &seen.silences else {
        return Turn::observe(UpgradeObservation::Silences);
    };
    let is_late = silence::has_run_out(&pass.entry.version, silences);
    let gauge = Gauge(series::WORKER_TIMEOUT, f64::from(u8::from(is_late)), true);
    let why = [&workers.open[..], &workers.held].concat().join("; ");
    Turn::act(vec![gauge], Then::Conclude(StepOutcome::Hold(why)))
}

fn remove_machines(facts: UpgradeFacts<'_>) -> Turn {
    let UpgradeFacts { pass, seen, .. } = facts;
    if !pass.upgrade.spec.capacity_reservation {
        // Copies of an upgrade that requested them before are collected after this one.
        return done(Vec::new());
    }
    let (Some(sets), machines, drains) = (&seen.sets, &seen.machines, &seen.drains) else {
        return Turn::observe(UpgradeObservation::MachineSets);
    };
    let Some(machines) = machines else {
        let deleted = capacity::sets_to_delete(sets).into_iter();
        let deleted = deleted.map(|name| DeleteMachineSet(name.to_owned()));
        return Turn::act(
            deleted.collect(),
            Then::Observe(UpgradeObservation::Machines),
        );
    };
    let Some(drains) = drains else {
        return Turn::observe(UpgradeObservation::Drains);
    };
    let show = vec![ShowDrains(drains.stuck.clone())];
    let open = capacity::added_machines(machines).map(|machine| {
        let name = capacity::name(machine);
        match capacity::node_of(machine) {
            Some(_) => name.to_owned(),
            None => format!("{name} (it has no node)"),
        }
    });
    let open: Vec<String> = open.collect();
    let mut faults = drains.faults.clone();
    if !drains.stuck.is_empty() {
        faults.push(format!(
            "the drain of {} takes longer than nodeDrain.timeOut",
            drains.stuck.join(", ")
        ));
    }
    let outcome = if open.is_empty() {
        StepOutcome::Done
    } else if faults.is_empty() {
        StepOutcome::Hold(format!("extra machines are there: {}", open.join(", ")))
    } else {
        faults.extend(facts.workers.held.iter().cloned());
        StepOutcome::Failed(faults.join("; "))
    };
    Turn::act(show, Then::Conclude(outcome))
}
