//! What was added for an upgrade is removed: at its end, when its window closes, when another one
//! takes its place, and when its UpgradeConfig is deleted.

use api::upgrade::{UpgradeConfig, UpgradeHistoryEntry, UpgradePhase};
use chassis::report::Chain;
use jiff::Timestamp;
use operator::Next;

use super::{Error, FAILED, FINALIZER, Pass, UpgradeOperator};
use crate::capacity;
use crate::history;
use crate::metrics;
use crate::notice::NoticeState;
use crate::phase::{self, PhaseEvent};
use crate::silence::{self, SilenceKind};
use crate::step::StepName;

/// Condition: whether what was added is removed.
const CLEANED_UP: &str = "CleanedUp";

impl UpgradeOperator {
    /// The UpgradeConfig is being deleted: nothing stays behind.
    pub(super) async fn clean_up(
        &self,
        upgrade: UpgradeConfig,
        now: Timestamp,
    ) -> Result<Next, Error> {
        let finalizers = upgrade.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|known| known == FINALIZER) {
            return Ok(Next::Settled);
        }
        let status = upgrade.status.clone().unwrap_or_default();
        let open = |entry: &&UpgradeHistoryEntry| entry.phase == UpgradePhase::Upgrading;
        for entry in status.history.iter().filter(open) {
            if let Err(why) = self.remove_added(entry, now).await {
                let mut failed = entry.clone();
                let said = ("Failed", why.as_str());
                history::note(&mut failed, CLEANED_UP, false.into(), said, now);
                let mut status = status.clone();
                history::put(&mut status, failed);
                if upgrade.status.as_ref() != Some(&status) {
                    self.requests.apply_status(&upgrade, &status).await?;
                }
                return Err(Error::CleanUp(why));
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
            .filter(|known| known != FINALIZER)
            .collect();
        match self.requests.set_finalizers(&upgrade, &others).await {
            Err(error) if error.code() != Some(404) => Err(error.into()),
            Ok(()) | Err(_) => Ok(Next::Settled),
        }
    }

    /// The window has closed before the cluster was changed. What was added goes first, then the
    /// end is announced: upstream's service drops a failed upgrade at once.
    pub(super) async fn expire(&self, pass: &mut Pass) -> Result<Next, Error> {
        let cause = first_cause(&pass.entry);
        let mut done = self.remove_added(&pass.entry, pass.now).await;
        if done.is_ok() {
            done = self.announce(pass, NoticeState::Failed, &cause).await;
        }
        if let Err(why) = done {
            pass.note(FAILED, false, "Upgrade not failed yet", &why);
            tracing::warn!(reason = why, "cannot give the upgrade up");
            return Ok(Next::Retry);
        }
        self.metrics.forget(&metrics::FAILURES);
        self.metrics.set(metrics::WINDOW_BREACHED, &[], 1.0);
        pass.entry.phase = phase::next(Some(&pass.entry.phase), PhaseEvent::Expired)?;
        pass.note(
            FAILED,
            true,
            "Upgrade failed",
            "FailedUpgrade notification sent",
        );
        Ok(Next::Settled)
    }

    /// Another upgrade was asked for before this one had changed the cluster.
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
    async fn remove_added(
        &self,
        entry: &UpgradeHistoryEntry,
        now: Timestamp,
    ) -> Result<(), String> {
        let has_begun = |step: StepName| entry.condition(step.step().condition).is_some();
        if has_begun(StepName::EnsureExtraUpgradeWorkers) {
            self.delete_machine_sets().await?;
        }
        for (step, kind) in [
            (
                StepName::CreateControlPlaneMaintWindow,
                SilenceKind::ControlPlane,
            ),
            (StepName::CreateWorkerMaintWindow, SilenceKind::Workers),
        ] {
            if has_begun(step) {
                self.end_silences(kind, now).await?;
            }
        }
        Ok(())
    }

    /// Deletes the MachineSets that were added.
    pub(super) async fn delete_machine_sets(&self) -> Result<(), String> {
        let said = |error: cluster::wire::Error| Chain(&error).to_string();
        let sets = self.requests.machine_sets().await.map_err(said)?;
        for name in capacity::sets_to_delete(&sets) {
            self.requests.delete_machine_set(name).await.map_err(said)?;
            tracing::info!(set = name, "deleted an extra MachineSet");
        }
        Ok(())
    }

    /// Ends this operator's silences of a kind: all are tried.
    pub(super) async fn end_silences(
        &self,
        kind: SilenceKind,
        now: Timestamp,
    ) -> Result<(), String> {
        let known = self.monitoring.silences(&self.requests, now).await?;
        let mut faults = Vec::new();
        for id in silence::to_remove(kind, &known) {
            let ended = self
                .monitoring
                .delete_silence(&self.requests, &id, now)
                .await;
            faults.extend(ended.err());
        }
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults.join("; "))
        }
    }
}

/// Why an upgrade has not changed the cluster: what its first step says that is not done.
fn first_cause(entry: &UpgradeHistoryEntry) -> String {
    let mut open = entry.conditions.iter().rev().filter(|condition| {
        condition.status == api::ConditionStatus::False && condition.start_time.is_some()
    });
    let first = open.next().map(|condition| condition.message.clone());
    first.unwrap_or_else(|| "it did not start in its window".to_owned())
}
