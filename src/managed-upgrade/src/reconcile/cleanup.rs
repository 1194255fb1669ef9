//! What was added for an upgrade is removed: at its end, when its window closes, when another one
//! takes its place, when its UpgradeConfig is deleted, and when that was lost.

use std::sync::PoisonError;

use api::upgrade::{UpgradeConfig, UpgradeHistoryEntry, UpgradePhase};
use chassis::report::Chain;
use cluster::events::Severity;
use cluster::wire;
use jiff::{SignedDuration, Timestamp};
use operator::Next;

use super::errors::CommandError;
use super::{Error, FAILED, FINALIZER, Pass, UpgradeOperator};
use upgrade_plan::capacity;
use upgrade_plan::history;
use upgrade_plan::notice::NoticeState;
use upgrade_plan::phase::{self, PhaseEvent};
use upgrade_plan::silence::{self, SilenceKind};
use upgrade_plan::step::StepName;

/// Condition: whether what was added is removed.
const CLEANED_UP: &str = "CleanedUp";

/// A deleted UpgradeConfig waits so long for an Alertmanager that is away: silences end by
/// themselves.
const SILENCES_KEPT: SignedDuration = SignedDuration::from_hours(1);

/// How often what was left behind is looked for.
const COLLECTED: SignedDuration = SignedDuration::from_mins(10);

impl UpgradeOperator {
    /// The UpgradeConfig is being deleted: nothing stays behind.
    pub(super) async fn clean_up(
        &self,
        upgrade: UpgradeConfig,
        now: Timestamp,
    ) -> Result<Next, Error> {
        let finalizers = upgrade.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|name| name == FINALIZER) {
            return Ok(Next::Settled);
        }
        let status = upgrade.status.clone().unwrap_or_default();
        let open = |entry: &&UpgradeHistoryEntry| entry.phase == UpgradePhase::Upgrading;
        for entry in status.history.iter().filter(open) {
            if let Err(error) = self.remove_added_of_deleted(&upgrade, entry, now).await {
                let why = Chain(&error).to_string();
                let mut failed = entry.clone();
                let text = ("Failed", why.as_str());
                history::note(&mut failed, CLEANED_UP, false.into(), text, now);
                let mut status = status.clone();
                history::put(&mut status, failed);
                if upgrade.status.as_ref() != Some(&status) {
                    self.requests.apply_status(&upgrade, &status).await?;
                }
                return Err(Error::CleanUp(error));
            }
            let state = NoticeState::CleanedUp;
            self.say(&upgrade, &entry.version, state, "", now);
        }
        self.release_nodes().await;
        let withdrawn: Vec<_> = status.history.iter().filter(open).collect();
        self.deliver_last(&upgrade, &withdrawn, now).await;
        self.metrics.reset();
        let others: Vec<String> = finalizers
            .into_iter()
            .filter(|name| name != FINALIZER)
            .collect();
        match self.requests.set_finalizers(&upgrade, &others).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            Ok(()) | Err(_) => Ok(Next::Settled),
        }
    }

    /// Another upgrade was requested before this one had changed the cluster.
    pub(super) async fn give_up_replaced(
        &self,
        pass: &mut Pass,
        mut replaced: UpgradeHistoryEntry,
    ) -> Result<(), Error> {
        let removed = self.remove_added(&replaced, pass.now).await;
        removed.map_err(Error::CleanUp)?;
        replaced.phase = phase::next(Some(&replaced.phase), PhaseEvent::Expired)?;
        let why = format!(
            "spec.desired was changed to version {:?} before the cluster was changed",
            pass.upgrade.spec.desired.version
        );
        tracing::info!(version = replaced.version, "an upgrade was replaced");
        history::note(
            &mut replaced,
            FAILED,
            true.into(),
            ("Upgrade replaced", &why),
            pass.now,
        );
        let mut status = pass.upgrade.status.clone().unwrap_or_default();
        history::put(&mut status, replaced);
        let written = self.requests.apply_status(&pass.upgrade, &status).await?;
        self.keep(&mut pass.upgrade, written);
        Ok(())
    }

    /// Deletes extra MachineSets and ends silences of an upgrade, as far as its steps got.
    pub(super) async fn remove_added(
        &self,
        entry: &UpgradeHistoryEntry,
        now: Timestamp,
    ) -> Result<(), CommandError> {
        self.remove_machine_sets(entry).await?;
        self.remove_silences(entry, now).await
    }

    /// The same for an UpgradeConfig that is deleted. It does not wait for ever.
    async fn remove_added_of_deleted(
        &self,
        upgrade: &UpgradeConfig,
        entry: &UpgradeHistoryEntry,
        now: Timestamp,
    ) -> Result<(), CommandError> {
        self.remove_machine_sets(entry).await?;
        let removed = self.remove_silences(entry, now).await;
        let deleted = upgrade.metadata.deletion_timestamp.as_ref();
        match removed {
            Err(error) if deleted.is_some_and(|at| waits_in_vain(at.0, now)) => {
                let why = Chain(&error).to_string();
                tracing::warn!(error = why, "silences of a deleted UpgradeConfig stay");
                let text = format!("silences stay until they end by themselves: {why}");
                self.record(upgrade, Severity::Warning, "SilencesLeft", &text, now);
                Ok(())
            }
            removed => removed,
        }
    }

    async fn remove_machine_sets(&self, entry: &UpgradeHistoryEntry) -> Result<(), wire::Error> {
        if has_begun(entry, StepName::EnsureExtraUpgradeWorkers) {
            self.delete_machine_sets().await?;
        }
        Ok(())
    }

    async fn remove_silences(
        &self,
        entry: &UpgradeHistoryEntry,
        now: Timestamp,
    ) -> Result<(), CommandError> {
        for (step, kind) in [
            (
                StepName::CreateControlPlaneMaintWindow,
                SilenceKind::ControlPlane,
            ),
            (StepName::CreateWorkerMaintWindow, SilenceKind::Workers),
        ] {
            if has_begun(entry, step) {
                let silences = self.monitoring.silences(&self.requests, now).await?;
                let ids = silence::to_remove(kind, &silences);
                self.end_silences(&ids, now).await?;
            }
        }
        Ok(())
    }

    /// Deletes MachineSets that an upgrade left which is over, or whose UpgradeConfig went without
    /// its finalizer. Another try comes with a later pass.
    pub(super) async fn collect_machine_sets(
        &self,
        upgrade: Option<&UpgradeConfig>,
        now: Timestamp,
    ) {
        if upgrade.is_some_and(may_have_added) {
            return;
        }
        {
            let mut last = self
                .collected
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let is_recent = |last: Timestamp| now.duration_since(last).abs() < COLLECTED;
            if last.is_some_and(is_recent) {
                return;
            }
            *last = Some(now);
        }
        if let Err(error) = self.delete_machine_sets().await {
            let error = Chain(&error).to_string();
            tracing::warn!(error, "cannot look for extra MachineSets that were left");
        }
    }

    /// Deletes the MachineSets that were added.
    async fn delete_machine_sets(&self) -> Result<(), wire::Error> {
        let sets = self.requests.machine_sets().await?;
        for name in capacity::sets_to_delete(&sets) {
            self.delete_machine_set(name).await?;
        }
        Ok(())
    }

    pub(super) async fn delete_machine_set(&self, name: &str) -> Result<(), wire::Error> {
        self.requests.delete_machine_set(name).await?;
        tracing::info!(set = name, "deleted an extra MachineSet");
        Ok(())
    }

    /// Ends silences, by their ids: all are tried.
    pub(super) async fn end_silences(
        &self,
        ids: &[String],
        now: Timestamp,
    ) -> Result<(), CommandError> {
        let mut faults = Vec::new();
        for id in ids {
            let ended = self
                .monitoring
                .delete_silence(&self.requests, id, now)
                .await;
            faults.extend(ended.err());
        }
        if faults.is_empty() {
            Ok(())
        } else {
            Err(CommandError::Silences(faults))
        }
    }
}

/// Whether an upgrade is under way, which removes itself what it adds.
fn may_have_added(upgrade: &UpgradeConfig) -> bool {
    let entries = upgrade.status.iter().flat_map(|status| &status.history);
    let mut phases = entries.map(|entry| &entry.phase);
    upgrade.metadata.deletion_timestamp.is_some()
        || phases.any(|phase| *phase == UpgradePhase::Upgrading)
}

fn has_begun(entry: &UpgradeHistoryEntry, step: StepName) -> bool {
    entry.condition(step.step().condition).is_some()
}

fn waits_in_vain(deleted: Timestamp, now: Timestamp) -> bool {
    now.duration_since(deleted) > SILENCES_KEPT
}
