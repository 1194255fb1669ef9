//! Walks through an upgrade that waits, or is under way: observes what the decisions of
//! [`walk`] want to know, and carries out their commands.

use std::time::Duration;

use api::upgrade::{UpgradeConfig, UpgradePhase};
use chassis::report::Chain;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use operator::Next;
use serde_json::Value;

use super::errors::{CommandError, Error};
use super::{FAILED, Pass, UpgradeOperator, image};
use crate::fleet_client::retry_policy;
use crate::monitoring::check_dependencies;
use upgrade_plan::capacity;
use upgrade_plan::history::{self, StepOutcome};
use upgrade_plan::node_view;
use upgrade_plan::pass::VALID;
use upgrade_plan::phase::{self, PhaseEvent};
use upgrade_plan::series;
use upgrade_plan::step::StepName;
use upgrade_plan::validation;
use upgrade_plan::walk::{
    self, MachineDrains, Observations, Refreshed, Then, UpgradeCommand, UpgradeFacts,
    UpgradeObservation, UpgradeProgress, WorkerFacts,
};

impl UpgradeOperator {
    /// Goes on until a phase begins, or something has to be waited for. None: the next phase has
    /// begun.
    pub(super) async fn walk(&self, pass: &mut Pass) -> Result<Option<Next>, Error> {
        let phase = pass.entry.phase.clone();
        let mut seen = Observations::default();
        loop {
            let workers = self.workers();
            let turn = walk::next(UpgradeFacts {
                pass,
                workers: &workers,
                seen: &seen,
            });
            let Some(turn) = turn else {
                return Ok(None);
            };
            let mut done = self.carry_out(pass, turn.commands).await;
            if done.is_ok() {
                if let Some(progress) = turn.progress {
                    self.advance(pass, &mut seen, progress).await?;
                }
                match turn.then {
                    Then::Decide if pass.entry.phase != phase => return Ok(None),
                    Then::Decide => {}
                    Then::Observe(wanted) => done = self.observe(pass, &mut seen, wanted).await,
                    Then::Conclude(outcome) => seen.outcome = Some(outcome),
                    Then::Settle => return Ok(Some(Next::Settled)),
                    Then::Wait(time) => return Ok(Some(Next::After(time))),
                    Then::Retry => return Ok(Some(Next::Retry)),
                }
            }
            match done {
                Err(error) if phase == UpgradePhase::Upgrading => {
                    seen.failed = Some(Chain(&error).to_string());
                }
                done => done?,
            }
        }
    }

    /// What watches report of workers.
    fn workers(&self) -> WorkerFacts {
        let pools = self.caches.pools.table();
        WorkerFacts {
            pending: self.pending_workers(),
            open: node_view::open_pools(pools.values().map(AsRef::as_ref)),
            held: self.held_drains(),
        }
    }

    pub(super) async fn observe(
        &self,
        pass: &mut Pass,
        seen: &mut Observations,
        wanted: UpgradeObservation,
    ) -> Result<(), CommandError> {
        match wanted {
            UpgradeObservation::Image { current, image } => {
                let version = image::read_version(&image, &current).await;
                let version = version.map_err(|error| Chain(&error).to_string());
                seen.checked = Some(version.map(Some));
            }
            UpgradeObservation::Graph { current, desired } => {
                let offered = super::starting::check_offered(pass, &current, &desired).await;
                let offered = offered.map_err(|error| Chain(&error).to_string());
                seen.checked = Some(offered.map(|()| None));
            }
            UpgradeObservation::Source => seen.source = Some(self.refresh_at_start(pass).await),
            UpgradeObservation::Latest => seen.is_current = Some(self.is_current(pass).await?),
            UpgradeObservation::Nodes => {
                self.observe_nodes(pass).await;
                seen.has_nodes = true;
            }
            UpgradeObservation::Job(name) => {
                let job = self.requests.job(&name).await?;
                seen.jobs.insert(name, job);
            }
            UpgradeObservation::Findings => seen.findings = Some(self.findings(pass).await),
            UpgradeObservation::Dependencies => {
                seen.dependencies = Some(failing_dependencies(pass).await);
            }
            UpgradeObservation::MachineSets => {
                seen.sets = Some(self.requests.machine_sets().await?);
            }
            UpgradeObservation::Machines => {
                seen.machines = Some(self.requests.machines().await?);
                let nodes = self.caches.nodes.table();
                let nodes = nodes.values();
                seen.ready = nodes
                    .map(|node| (node.name.clone(), node.is_ready))
                    .collect();
            }
            UpgradeObservation::Drains => {
                let machines = seen.machines.as_deref().unwrap_or_default();
                seen.drains = Some(self.help_machines(pass, machines).await);
            }
            UpgradeObservation::Silences => {
                let silences = self.monitoring.silences(&self.requests, pass.now).await?;
                seen.silences = Some(silences);
            }
        }
        Ok(())
    }

    async fn refresh_at_start(&self, pass: &mut Pass) -> Refreshed {
        let Some(fleet) = pass.config.fleet.clone() else {
            return Refreshed::Same;
        };
        let refreshed = self.refresh(&fleet, retry_policy(fleet.routes)).await;
        match refreshed {
            Refreshed::Same | Refreshed::Unread => self.note_source(pass),
            Refreshed::Doubted | Refreshed::Changed => self.read_source_again(),
        }
        refreshed
    }

    /// Whether the UpgradeConfig is still the one of this pass.
    async fn is_current(&self, pass: &Pass) -> Result<bool, CommandError> {
        let latest = self.requests.upgrade().await?;
        let is_same = |latest: &UpgradeConfig| {
            latest.spec == pass.upgrade.spec
                && latest.metadata.uid == pass.upgrade.metadata.uid
                && latest.metadata.deletion_timestamp.is_none()
        };
        let is_current = latest.as_ref().is_some_and(is_same);
        if !is_current {
            tracing::info!("the UpgradeConfig was changed or withdrawn at its start");
        }
        Ok(is_current)
    }

    /// Helps the drains of machines that are taken away.
    async fn help_machines(&self, pass: &mut Pass, machines: &[Value]) -> MachineDrains {
        let nodes = self.caches.nodes.table();
        let mut drains = MachineDrains::default();
        for machine in capacity::added_machines(machines) {
            let node = capacity::node_of(machine);
            let Some((node, cached)) = node.and_then(|node| Some((node, nodes.get(node)?))) else {
                continue;
            };
            match self.help_machine(pass, machine, cached).await {
                Ok(false) => {}
                Ok(true) => drains.stuck.push(node.to_owned()),
                Err(error) => {
                    let fault = format!("node {node}: {}", Chain(&error));
                    drains.faults.push(fault);
                }
            }
        }
        drains
    }

    async fn advance(
        &self,
        pass: &mut Pass,
        seen: &mut Observations,
        progress: UpgradeProgress,
    ) -> Result<(), Error> {
        match progress {
            UpgradeProgress::Enter(event) => enter(pass, event)?,
            UpgradeProgress::Begin(step) => {
                history::begin(&mut pass.entry, &step, pass.now);
                self.save(pass).await?;
                seen.begun = Some(step.name);
            }
            UpgradeProgress::Finish(step, outcome) => {
                let is_news = history::finish(&mut pass.entry, &step, &outcome, pass.now);
                self.save(pass).await?;
                log(step.name, &outcome, is_news);
                *seen = std::mem::take(seen).after(step.name);
            }
        }
        Ok(())
    }

    async fn carry_out(
        &self,
        pass: &mut Pass,
        commands: Vec<UpgradeCommand>,
    ) -> Result<(), CommandError> {
        for command in commands {
            self.act(pass, command).await?;
        }
        Ok(())
    }

    pub(super) async fn act(
        &self,
        pass: &mut Pass,
        command: UpgradeCommand,
    ) -> Result<(), CommandError> {
        use UpgradeCommand as Do;
        let (requests, now) = (&self.requests, pass.now);
        match command {
            Do::NoteValid => {
                let message = validation::valid_message(&pass.upgrade.spec.desired);
                pass.note(VALID, true, "Valid", &message);
            }
            Do::NoteInvalid(why) => {
                let condition = pass.entry.condition(VALID);
                if condition.is_none_or(|condition| condition.message != why) {
                    tracing::warn!(reason = why, "the UpgradeConfig is not followed");
                }
                pass.note(VALID, false, "Invalid", &why);
            }
            Do::AdoptVersion(version) => self.adopt_version(pass, &version).await?,
            Do::Announce(state, why) => self.announce(pass, state, &why).await?,
            Do::TryToAnnounce(state, why) => {
                if let Err(error) = self.announce(pass, state, &why).await {
                    let error = Chain(&error).to_string();
                    tracing::warn!(error, "cannot announce that no machines are added");
                }
            }
            Do::Gauge(name, value, has_version) => {
                let version = [("version", pass.entry.version.as_str())];
                let labels = if has_version { &version[..] } else { &[] };
                self.metrics.set(name, labels, value);
            }
            Do::CreateJob(hook, job) => {
                requests.create_job(&job).await?;
                let job = capacity::name(&job);
                tracing::info!(hook, job, "created the Job of a hook");
            }
            Do::NoteHook(condition, message) => {
                pass.note(&condition, true, "Succeeded", &message);
                self.save(pass).await?;
            }
            Do::ShowDrains(nodes) => self.metrics.set_drains(&nodes),
            Do::CreateMachineSet(set) => {
                requests.create_machine_set(&set).await?;
                tracing::info!(set = capacity::name(&set), "created an extra MachineSet");
            }
            Do::DeleteMachineSet(name) => self.delete_machine_set(&name).await?,
            Do::CreateSilence(silence, length) => {
                let created = self
                    .monitoring
                    .create_silence(requests, &silence, length, now);
                created.await?;
                tracing::info!(comment = silence.comment, "created a silence");
            }
            Do::EndSilences(ids) => self.end_silences(&ids, now).await?,
            Do::SetChannel(change) => {
                requests.change_version(&change).await?;
                let channel = &pass.upgrade.spec.desired.channel;
                tracing::info!(channel, "set the channel of ClusterVersion");
            }
            Do::SetRelease(change) => {
                let changed = requests.change_version(&change).await?;
                self.caches.versions.refresh(changed.clone());
                pass.version = changed;
                let version = &pass.upgrade.spec.desired.version;
                tracing::info!(version, "set the release of ClusterVersion");
            }
            Do::InitialiseFileIntegrity => requests.initialise_file_integrity().await?,
            Do::RemoveAdded => self.remove_added(&pass.entry, now).await?,
            Do::NoteFailed => {
                self.metrics.forget(&series::FAILURES);
                self.metrics.set(series::WINDOW_BREACHED, &[], 1.0);
                let message = "FailedUpgrade notification sent";
                pass.note(FAILED, true, "Upgrade failed", message);
            }
            Do::NoteUnfailed(why) => {
                pass.note(FAILED, false, "Upgrade not failed yet", &why);
                tracing::warn!(reason = why, "cannot give the upgrade up");
            }
            Do::ReleaseNodes => self.release_nodes().await,
        }
        Ok(())
    }
}

/// Goes to the phase after an event.
fn enter(pass: &mut Pass, event: PhaseEvent) -> Result<(), Error> {
    pass.entry.phase = phase::next(Some(&pass.entry.phase), event)?;
    match event {
        PhaseEvent::Ready => {
            pass.entry.start_time = Some(Time(pass.now));
            tracing::info!(version = pass.entry.version, "the upgrade starts");
        }
        PhaseEvent::Done => {
            pass.entry.complete_time = Some(Time(pass.now));
            tracing::info!(version = pass.entry.version, "the upgrade is done");
        }
        PhaseEvent::Seen { .. }
        | PhaseEvent::Checked
        | PhaseEvent::Changed
        | PhaseEvent::Expired => {}
    }
    Ok(())
}

fn log(step: StepName, outcome: &StepOutcome, is_news: bool) {
    let step = step.as_str();
    match outcome {
        StepOutcome::Done if is_news => tracing::info!(step, "a step is done"),
        StepOutcome::Hold(reason) if is_news => {
            tracing::info!(step, reason, "the upgrade is held");
        }
        StepOutcome::Done | StepOutcome::Waiting | StepOutcome::Hold(_) => {}
        StepOutcome::Failed(reason) => tracing::warn!(step, reason, "a step failed"),
    }
}

/// Addresses that must respond and do not, each with the reason.
pub(super) async fn failing_dependencies(pass: &Pass) -> Vec<String> {
    let timeout = Duration::try_from(pass.config.dependency_timeout).unwrap_or_default();
    let faults = check_dependencies(&pass.config.dependencies, timeout).await;
    faults
        .iter()
        .map(|error| Chain(error).to_string())
        .collect()
}
