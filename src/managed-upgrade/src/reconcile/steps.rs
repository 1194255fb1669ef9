//! What each step does. A step never sleeps, may run twice, and says why it is not done.

use std::collections::BTreeMap;
use std::time::Duration;

use chassis::report::Chain;
use release::Version;

use super::{Pass, UpgradeOperator, running};
use crate::monitoring::check_dependencies;
use upgrade_plan::capacity::{self, CapacityState};
use upgrade_plan::commence::{self, CommenceStep};
use upgrade_plan::config;
use upgrade_plan::health::{self, HealthFinding};
use upgrade_plan::history::StepOutcome;
use upgrade_plan::hook::{HookState, HookTime};
use upgrade_plan::node_view;
use upgrade_plan::notice::NoticeState;
use upgrade_plan::release_state::{current_version, is_completed, started};
use upgrade_plan::schedule::{self, parse_start};
use upgrade_plan::series;
use upgrade_plan::silence::{self, SilenceKind};
use upgrade_plan::step::StepName;
use upgrade_plan::{upgradeable, window};

/// What came of a step, or why it failed.
type Outcome = Result<StepOutcome, String>;

impl UpgradeOperator {
    /// Runs a step between its hooks.
    pub(super) async fn run_with_hooks(&self, pass: &mut Pass, step: StepName) -> StepOutcome {
        for part in [Some(HookTime::Before), None, Some(HookTime::After)] {
            let outcome = match part {
                Some(when) => {
                    let outcome = self.run_hooks(pass, step, when).await;
                    outcome.unwrap_or_else(StepOutcome::Failed)
                }
                None => self.run_step(pass, step).await,
            };
            if outcome != StepOutcome::Done {
                return outcome;
            }
        }
        StepOutcome::Done
    }

    pub(super) async fn run_hooks(
        &self,
        pass: &mut Pass,
        step: StepName,
        when: HookTime,
    ) -> Outcome {
        let hooks = pass.config.hooks.clone();
        let hooks = hooks.iter();
        for hook in hooks.filter(|hook| hook.step == step && hook.when == when) {
            let known = pass.entry.condition(&hook.condition());
            if known.is_some_and(|known| known.status == api::ConditionStatus::True) {
                continue;
            }
            let job = hook.job_name(&pass.entry.version);
            let found = self.requests.job(&job).await;
            let Some(found) = found.map_err(|error| said(&error))? else {
                let wanted = hook.to_job(&pass.upgrade, &pass.entry.version);
                let created = self.requests.create_job(&wanted).await;
                created.map_err(|error| said(&error))?;
                tracing::info!(hook = hook.name, job, "created the Job of a hook");
                return Ok(StepOutcome::Hold(format!(
                    "hook {}: Job {job} runs",
                    hook.name
                )));
            };
            match hook.state(&found, &pass.upgrade) {
                HookState::Done => {
                    let said = format!("Job {job} has succeeded");
                    pass.note(&hook.condition(), true, "Succeeded", &said);
                    // The Job may remove itself: what follows does not run it a second time.
                    let saved = self.save(pass).await;
                    saved.map_err(|error| self::said(&error))?;
                }
                HookState::Running => {
                    let why = format!("hook {}: Job {job} runs", hook.name);
                    return Ok(StepOutcome::Hold(why));
                }
                HookState::Failed(why) => {
                    return Ok(StepOutcome::Hold(format!("hook {}: {why}", hook.name)));
                }
            }
        }
        Ok(StepOutcome::Done)
    }

    async fn run_step(&self, pass: &mut Pass, step: StepName) -> StepOutcome {
        use StepName as Name;
        let outcome = match step {
            Name::SendStartedNotification => self.said(pass, NoticeState::Started).await,
            Name::UpgradeDelayedCheck => self.check_delay(pass).await,
            Name::IsUpgradeable => is_upgradeable(pass),
            Name::PreUpgradeHealthCheck => self.check_health_before(pass).await,
            Name::ExternalDependencyAvailabilityCheck => check_external(pass).await,
            Name::EnsureExtraUpgradeWorkers => self.add_machines(pass).await,
            Name::CreateControlPlaneMaintWindow => self.silence_control_plane(pass).await,
            Name::CommenceUpgrade => self.commence(pass).await,
            Name::ControlPlaneUpgraded => self.await_control_plane(pass).await,
            Name::RemoveControlPlaneMaintWindow => {
                let ended = self.end_silences(SilenceKind::ControlPlane, pass.now).await;
                ended.map(|()| StepOutcome::Done)
            }
            Name::CreateWorkerMaintWindow => self.silence_workers(pass).await,
            Name::AllWorkersUpgraded => self.await_workers(pass).await,
            Name::RemoveExtraScaledNodes => self.remove_machines(pass).await,
            Name::RemoveMaintWindow => {
                let ended = self.end_silences(SilenceKind::Workers, pass.now).await;
                ended.map(|()| StepOutcome::Done)
            }
            Name::PostUpgradeHealthCheck => self.check_health_after(pass).await,
            Name::PostUpgradeProcedures => self.run_procedures(pass).await,
            Name::SendCompletedNotification => self.said(pass, NoticeState::Completed).await,
        };
        outcome.unwrap_or_else(StepOutcome::Failed)
    }

    async fn said(&self, pass: &mut Pass, state: NoticeState) -> Outcome {
        self.announce(pass, state, "").await?;
        Ok(StepOutcome::Done)
    }

    async fn check_delay(&self, pass: &mut Pass) -> Outcome {
        if window::is_delayed(&pass.entry, pass.config.delay_trigger, pass.now) {
            let mut open = pass.entry.conditions.iter().filter(|condition| {
                condition.status == api::ConditionStatus::False && condition.start_time.is_some()
            });
            let why = open.next_back().map(|condition| condition.message.clone());
            let why = why.unwrap_or_else(|| "its gates are not passed yet".to_owned());
            self.announce(pass, NoticeState::Delayed, &why).await?;
        }
        Ok(StepOutcome::Done)
    }

    async fn check_health_before(&self, pass: &mut Pass) -> Outcome {
        let findings = self.findings(pass).await;
        if !findings.is_empty() && pass.config.has_all_health_checks {
            let why = health::announcement(&findings);
            self.announce(pass, NoticeState::HealthCheck, &why).await?;
        }
        let holding: Vec<_> = findings.into_iter().filter(HealthFinding::holds).collect();
        if holding.is_empty() {
            return Ok(StepOutcome::Done);
        }
        Ok(StepOutcome::Hold(health::texts(&holding)))
    }

    async fn check_health_after(&self, pass: &mut Pass) -> Outcome {
        // An alert about a drain that has ended would fail the check that ends it.
        self.metrics.set_drains(&[]);
        let findings = self.findings(pass).await;
        let holding: Vec<_> = findings.into_iter().filter(HealthFinding::holds).collect();
        if holding.is_empty() {
            return Ok(StepOutcome::Done);
        }
        Ok(StepOutcome::Hold(health::texts(&holding)))
    }

    async fn add_machines(&self, pass: &mut Pass) -> Outcome {
        if !pass.upgrade.spec.capacity_reservation {
            return Ok(StepOutcome::Done);
        }
        if !pass.config.scale_faults.is_empty() {
            return Err(config::list(&pass.config.scale_faults));
        }
        let sets = self
            .requests
            .machine_sets()
            .await
            .map_err(|error| said(&error))?;
        let originals = match capacity::originals(&sets, &pass.config) {
            Ok(originals) => originals,
            Err(why) => {
                let state = NoticeState::ScaleSkipped;
                if let Err(error) = self.announce(pass, state, &why).await {
                    tracing::warn!(error, "cannot announce that no machines are added");
                }
                return Ok(StepOutcome::Done);
            }
        };
        let missing = capacity::missing_copies(&originals, &sets, pass.config.extra_machines);
        for copy in &missing {
            self.requests
                .create_machine_set(copy)
                .await
                .map_err(|error| said(&error))?;
            tracing::info!(set = capacity::name(copy), "created an extra MachineSet");
        }
        if !missing.is_empty() {
            return Ok(StepOutcome::Waiting);
        }
        let machines = self
            .requests
            .machines()
            .await
            .map_err(|error| said(&error))?;
        let nodes = self.caches.nodes.table();
        let nodes: BTreeMap<String, bool> = nodes
            .values()
            .map(|node| (node.name.clone(), node.is_ready))
            .collect();
        let timeout = pass.config.scale_timeout;
        match capacity::state(&sets, &machines, &nodes, timeout, pass.now) {
            CapacityState::Ready => {
                self.metrics.set(series::SCALING_FAILED, &[], 0.0);
                Ok(StepOutcome::Done)
            }
            CapacityState::Waiting(why) => Ok(StepOutcome::Hold(why)),
            CapacityState::TimedOut(why) => {
                self.metrics.set(series::SCALING_FAILED, &[], 1.0);
                self.announce(pass, NoticeState::Skipped, &why).await?;
                Ok(StepOutcome::Done)
            }
        }
    }

    async fn silence_control_plane(&self, pass: &mut Pass) -> Outcome {
        let known = self.monitoring.silences(&self.requests, pass.now).await?;
        let criticals = &pass.config.control_plane_criticals;
        let version = &pass.entry.version;
        for silence in silence::missing_of_control_plane(version, criticals, &known) {
            let length = pass.config.control_plane_time;
            let created =
                self.monitoring
                    .create_silence(&self.requests, &silence, length, pass.now);
            created.await?;
            tracing::info!(comment = silence.comment, "created a silence");
        }
        Ok(StepOutcome::Done)
    }

    async fn commence(&self, pass: &mut Pass) -> Outcome {
        self.metrics.set(series::WINDOW_BREACHED, &[], 0.0);
        let desired = pass.upgrade.spec.desired.clone();
        if let Some(why) = schedule::closed(&pass.config.windows, pass.now)
            && pass.is_commenced() != Ok(true)
        {
            return Ok(StepOutcome::Hold(why));
        }
        loop {
            let accepted = &pass.config.accepted_risks;
            let change = match commence::decide(&desired, &pass.version, accepted) {
                CommenceStep::Done => return Ok(StepOutcome::Done),
                CommenceStep::Hold(why) => return Ok(StepOutcome::Hold(why)),
                CommenceStep::SetRelease(change) => {
                    if let Some(outcome) = self.check_image(pass).await? {
                        return Ok(outcome);
                    }
                    self.announce(pass, NoticeState::ControlPlaneStarted, "")
                        .await?;
                    change
                }
                CommenceStep::SetChannel(change) => {
                    let changed = self.requests.change_version(&change).await;
                    changed.map_err(|error| said(&error))?;
                    tracing::info!(
                        channel = desired.channel,
                        "set the channel of ClusterVersion"
                    );
                    // What it offers is in the status of ClusterVersion, which is watched.
                    return Ok(StepOutcome::Waiting);
                }
            };
            let changed = self.requests.change_version(&change).await;
            let changed = changed.map_err(|error| said(&error))?;
            self.caches.versions.refresh(changed.clone());
            pass.version = changed;
            tracing::info!(
                version = desired.version,
                "set the release of ClusterVersion"
            );
        }
    }

    async fn await_control_plane(&self, pass: &mut Pass) -> Outcome {
        let version = pass.entry.version.clone();
        let status = pass.version.status.clone().unwrap_or_default();
        let current = running(&pass.version);
        let labels = [("version", version.as_str())];
        if is_completed(&status, &version) {
            self.announce(pass, NoticeState::ControlPlaneFinished, "")
                .await?;
            self.metrics
                .set(series::CONTROL_PLANE_TIMEOUT, &labels, 0.0);
            return Ok(StepOutcome::Done);
        }
        let began = started(&status, &version);
        let began = began.or_else(|| parse_start(&pass.upgrade.spec.upgrade_at).ok());
        let limit = pass.config.control_plane_time;
        if began.is_some_and(|began| pass.now.duration_since(began) > limit) {
            self.metrics
                .set(series::CONTROL_PLANE_TIMEOUT, &labels, 1.0);
        }
        let asked = pass.version.spec.desired_update.as_ref();
        let asked = asked.map_or("", |update| update.version.as_str());
        if asked != version && pass.upgrade.spec.desired.image.is_empty() {
            return Ok(StepOutcome::Hold(format!(
                "ClusterVersion runs {current} and asks for {asked:?}: the request for {version} \
                 was taken away"
            )));
        }
        Ok(StepOutcome::Waiting)
    }

    async fn silence_workers(&self, pass: &mut Pass) -> Outcome {
        let pending = self.pending_workers();
        if pending == 0 {
            return Ok(StepOutcome::Done);
        }
        let known = self.monitoring.silences(&self.requests, pass.now).await?;
        let change = silence::change_of_workers(&pass.entry.version, pending, &known);
        // The new one first: no moment is without a silence.
        if let Some(silence) = &change.created {
            let length = pass.config.worker_window(pending, pass.force_drain());
            let created = self
                .monitoring
                .create_silence(&self.requests, silence, length, pass.now);
            created.await?;
            tracing::info!(comment = silence.comment, "created a silence");
        }
        let mut faults = Vec::new();
        for id in &change.replaced {
            let ended = self
                .monitoring
                .delete_silence(&self.requests, id, pass.now)
                .await;
            faults.extend(ended.err());
        }
        if faults.is_empty() {
            Ok(StepOutcome::Done)
        } else {
            Err(faults.join("; "))
        }
    }

    async fn await_workers(&self, pass: &mut Pass) -> Outcome {
        let pools = self.caches.pools.table();
        let mut open = node_view::open_pools(pools.values().map(AsRef::as_ref));
        let version = pass.entry.version.clone();
        let labels = [("version", version.as_str())];
        if open.is_empty() {
            self.announce(pass, NoticeState::WorkersFinished, "")
                .await?;
            self.metrics.set(series::WORKER_TIMEOUT, &labels, 0.0);
            return Ok(StepOutcome::Done);
        }
        let known = self.monitoring.silences(&self.requests, pass.now).await?;
        let is_late = silence::has_run_out(&version, &known);
        let value = f64::from(u8::from(is_late));
        self.metrics.set(series::WORKER_TIMEOUT, &labels, value);
        open.extend(self.held_drains());
        Ok(StepOutcome::Hold(open.join("; ")))
    }

    async fn remove_machines(&self, pass: &mut Pass) -> Outcome {
        if !pass.upgrade.spec.capacity_reservation {
            // Copies of an upgrade that asked for them before are collected after this one.
            return Ok(StepOutcome::Done);
        }
        self.delete_machine_sets().await?;
        let machines = self.requests.machines().await;
        let machines = machines.map_err(|error| said(&error))?;
        let nodes = self.caches.nodes.table();
        let (mut open, mut stuck, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        for machine in capacity::added_machines(&machines) {
            let name = capacity::name(machine);
            let Some(node) = capacity::node_of(machine) else {
                open.push(format!("{name} (it has no node)"));
                continue;
            };
            open.push(name.to_owned());
            let Some(known) = nodes.get(node) else {
                continue;
            };
            match self.keep_machine(pass, machine, known).await {
                Ok(false) => {}
                Ok(true) => stuck.push(node.to_owned()),
                Err(why) => faults.push(format!("node {node}: {why}")),
            }
        }
        self.metrics.set_drains(&stuck);
        if open.is_empty() {
            return Ok(StepOutcome::Done);
        }
        if !stuck.is_empty() {
            faults.push(format!(
                "the drain of {} takes longer than nodeDrain.timeOut",
                stuck.join(", ")
            ));
        }
        if !faults.is_empty() {
            faults.extend(self.held_drains());
            return Err(faults.join("; "));
        }
        Ok(StepOutcome::Hold(format!(
            "extra machines are there: {}",
            open.join(", ")
        )))
    }

    async fn run_procedures(&self, pass: &mut Pass) -> Outcome {
        if pass.config.is_fedramp {
            let sent = self.requests.initialise_file_integrity().await;
            sent.map_err(|error| said(&error))?;
        }
        Ok(StepOutcome::Done)
    }
}

pub(super) fn is_upgradeable(pass: &Pass) -> Outcome {
    let status = pass.version.status.clone().unwrap_or_default();
    let current = current_version(&status).map_err(|error| said(&error))?;
    let parse = |text: &str| text.parse::<Version>().map_err(|error| said(&error));
    let (current, desired) = (parse(current)?, parse(&pass.entry.version)?);
    let at = parse_start(&pass.upgrade.spec.upgrade_at)?;
    Ok(match upgradeable::check(&status, &current, &desired, at) {
        Ok(()) => StepOutcome::Done,
        Err(why) => StepOutcome::Hold(why),
    })
}

pub(super) async fn check_external(pass: &Pass) -> Outcome {
    let timeout = Duration::try_from(pass.config.dependency_timeout).unwrap_or_default();
    let faults = check_dependencies(&pass.config.dependencies, timeout).await;
    if faults.is_empty() {
        return Ok(StepOutcome::Done);
    }
    Ok(StepOutcome::Hold(faults.join("; ")))
}

fn said(error: &dyn std::error::Error) -> String {
    Chain(error).to_string()
}
