//! The fleet manager as the source: its policies make, change and withdraw the UpgradeConfig, and
//! are notified of how far the upgrade is.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use api::config::{ClusterVersion, cluster_version};
use api::upgrade::{UpgradeConfig, UpgradeConfigSpec, UpgradePhase, upgrade_config};
use chassis::report::Chain;
use cluster::path;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use web::retry::RetryPolicy;

use super::errors::SourceError;
use super::{Pass, UpgradeOperator};
use crate::fleet_client::{FleetClient, retry_policy};
use crate::pull_secret;
use upgrade_plan::fleet::{self, FleetSettings, FleetState};
use upgrade_plan::history;
use upgrade_plan::notice::NoticeState;
use upgrade_plan::release_state::is_commenced;
use upgrade_plan::series;
use upgrade_plan::step::StepName;
use upgrade_plan::walk::Refreshed;

/// Condition: whether the source of the UpgradeConfig could be read.
const SOURCE: &str = "ConfigSourceRead";

/// After a failure the source is read again after this time, which doubles.
const RETRY: SignedDuration = SignedDuration::from_mins(1);
/// Longest time between two tries.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);

/// Responses that ask for no upgrade any more count if one comes so long after another.
const DOUBTED: SignedDuration = SignedDuration::from_secs(20);

/// What was read of the source.
#[derive(Debug, Default)]
pub(super) struct SourceState {
    /// When it was last tried, and how long after that it is due again.
    tried: Option<(Timestamp, SignedDuration)>,
    /// When it was last read.
    read: Option<Timestamp>,
    /// Why it could not be read.
    failed: Option<String>,
    /// What it asks for, and why that is not followed.
    refused: Option<String>,
    /// Since when its responses ask for no upgrade although there is one.
    doubted: Option<Timestamp>,
}

impl UpgradeOperator {
    /// Reads the source if that is due. After which time it is due again; none if nothing is read.
    pub(super) async fn sync(&self, now: Timestamp) -> Option<SignedDuration> {
        let config = self.config().ok()?;
        let fleet = config.fleet.as_ref()?;
        let present = self.caches.upgrades.get(upgrade_config::NAME);
        let is_leaving = present
            .as_ref()
            .is_some_and(|upgrade| upgrade.metadata.deletion_timestamp.is_some());
        if let Some(left) = self.left(now) {
            return Some(left);
        }
        if is_leaving {
            // Its end wakes the next pass, which makes the one that takes its place.
            return Some(RETRY);
        }
        // While steps run they are not held up by a source that is away: it is read again anyway.
        let runs = present.is_some_and(|upgrade| {
            let status = upgrade.status.as_ref();
            status.is_some_and(|status| {
                let mut entries = status.history.iter();
                entries.any(|entry| entry.phase == UpgradePhase::Upgrading)
            })
        });
        let retries = if runs {
            RetryPolicy::NONE
        } else {
            retry_policy(fleet.routes)
        };
        let refreshed = self.refresh(fleet, retries).await;
        if refreshed != Refreshed::Unread {
            self.source().read = Some(now);
        }
        let wait = match refreshed {
            Refreshed::Same => config.watch_interval,
            // What was deleted is recreated as soon as it is gone.
            Refreshed::Changed => SignedDuration::ZERO,
            Refreshed::Doubted => RETRY,
            Refreshed::Unread => self.after_failure(),
        };
        let spread = Duration::try_from(wait).unwrap_or_default();
        let spread = SignedDuration::try_from(chassis::backoff::spread(spread)).unwrap_or(wait);
        self.source().tried = Some((now, spread));
        Some(spread.max(SignedDuration::from_secs(1)))
    }

    /// Time until the source is due; none if it is. A clock that was set back does not keep it from
    /// being read.
    fn left(&self, now: Timestamp) -> Option<SignedDuration> {
        let (tried, wait) = self.source().tried?;
        let left = wait.saturating_sub(now.duration_since(tried).abs());
        Some(left).filter(SignedDuration::is_positive)
    }

    fn after_failure(&self) -> SignedDuration {
        let state = self.source();
        let last = state.tried.map(|(_, wait)| wait);
        let is_repeated = state.read.is_none_or(|read| {
            let tried = state.tried.map(|(tried, _)| tried);
            tried.is_some_and(|tried| tried > read)
        });
        match last.filter(|_| is_repeated) {
            Some(last) => last.saturating_mul(2).clamp(RETRY, LONGEST),
            None => RETRY,
        }
    }

    fn source(&self) -> MutexGuard<'_, SourceState> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the source read with the next pass.
    pub(super) fn read_source_again(&self) {
        self.source().tried = None;
    }

    /// When the source was read last.
    pub(super) fn source_read(&self) -> Option<Timestamp> {
        self.source().read
    }

    /// What the source asks for that is not followed.
    pub(super) fn source_refused(&self) -> Option<String> {
        self.source().refused.clone()
    }

    /// Notes whether the source could be read.
    pub(super) fn note_source(&self, pass: &mut Pass) {
        let failed = self.source().failed.clone();
        match failed {
            Some(why) => pass.note(SOURCE, false, "Unread", &why),
            None => pass.clear(SOURCE, false.into(), "Read", "the source could be read"),
        }
    }

    /// Makes the UpgradeConfig what the source asks for.
    pub(super) async fn refresh(&self, fleet: &FleetSettings, retries: RetryPolicy) -> Refreshed {
        let refreshed = self.follow_source(fleet, retries).await;
        let now = (self.now)();
        let mut state = self.source();
        match refreshed {
            Ok((refreshed, refused)) => {
                state.failed = None;
                state.refused = refused;
                let since = state.doubted.unwrap_or(now);
                state.doubted = Some(since).filter(|_| refreshed == Refreshed::Doubted);
                refreshed
            }
            Err(error) => {
                let why = format!("unable to retrieve upgrade spec: {}", Chain(&error));
                if state.failed.as_ref() != Some(&why) {
                    tracing::warn!(error = why, "cannot read the source of the UpgradeConfig");
                }
                state.failed = Some(why);
                state.doubted = None;
                Refreshed::Unread
            }
        }
    }

    /// What came of it, and what is not followed.
    async fn follow_source(
        &self,
        fleet: &FleetSettings,
        retries: RetryPolicy,
    ) -> Result<(Refreshed, Option<String>), SourceError> {
        let version = self.caches.versions.get(cluster_version::NAME);
        let version = version.ok_or(SourceError::NoVersion)?;
        let wanted = self.wanted(fleet, &version, retries).await?;
        let present = self.requests.upgrade().await?;
        match (present, wanted) {
            (None, None) => Ok((Refreshed::Same, None)),
            (None, Some(spec)) => {
                let (version, at) = (&spec.desired.version, &spec.upgrade_at);
                tracing::info!(version, at, "the fleet manager asks for an upgrade");
                self.requests.create_upgrade(&spec).await?;
                Ok((Refreshed::Changed, None))
            }
            (Some(present), Some(spec)) if present.spec == spec => Ok((Refreshed::Same, None)),
            (Some(present), _) if present.metadata.deletion_timestamp.is_some() => {
                Ok((Refreshed::Changed, None))
            }
            (Some(present), Some(spec)) if has_begun(&present, &version) => {
                let refused = format!(
                    "the fleet manager asks for version {:?} at {}, which is not followed, because \
                     the upgrade to {} has changed the cluster",
                    spec.desired.version, spec.upgrade_at, present.spec.desired.version
                );
                Ok((Refreshed::Same, Some(refused)))
            }
            (Some(_), None) if !is_certain(self.source().doubted, (self.now)()) => {
                tracing::info!("the fleet manager asks for no upgrade: it is read once more");
                Ok((Refreshed::Doubted, None))
            }
            (Some(present), wanted) => {
                let reason = if wanted.is_some() {
                    "the fleet manager asks for another upgrade"
                } else {
                    "the fleet manager asks for no upgrade any more"
                };
                tracing::info!(reason, "the UpgradeConfig is deleted");
                self.requests.delete_upgrade(&present).await?;
                Ok((Refreshed::Changed, None))
            }
        }
    }

    /// What the policies of the cluster ask for: the earliest run that is to be carried out.
    async fn wanted(
        &self,
        fleet: &FleetSettings,
        version: &ClusterVersion,
        retries: RetryPolicy,
    ) -> Result<Option<UpgradeConfigSpec>, SourceError> {
        let token = self.fleet_token().await?;
        let client = FleetClient::new(fleet, &version.spec.cluster_id, &token, retries)?;
        let cluster = client.cluster().await?;
        let policies = client.policies(&cluster).await?;
        for (_, policy) in fleet::by_time(policies)? {
            let state = client.state(&cluster, &policy).await?;
            if fleet::is_asked_for(&policy, &state)? {
                return Ok(Some(fleet::to_spec(
                    &policy,
                    &cluster,
                    &fleet.upgrade_type,
                )?));
            }
        }
        Ok(None)
    }

    /// Reports a state to the fleet manager, if it takes it. A second report is no change.
    pub(super) async fn tell_fleet(
        &self,
        pass: &Pass,
        state: NoticeState,
        text: &str,
    ) -> Result<(), SourceError> {
        let Some(fleet) = &pass.config.fleet else {
            return Ok(());
        };
        let summary = state.summary().filter(|_| fleet.has_service_logs);
        let word = fleet::word(state);
        if summary.is_none() && word.is_none() {
            return Ok(());
        }
        let token = self.fleet_token().await?;
        // The step is repeated.
        let id = &pass.version.spec.cluster_id;
        let client = FleetClient::new(fleet, id, &token, RetryPolicy::NONE)?;
        let cluster = client.cluster().await?;
        if let Some(summary) = summary {
            let logged = client.log(&cluster, summary, text, state.reference());
            return Ok(logged.await?);
        }
        let policies = client.policies(&cluster).await?;
        let at = &pass.upgrade.spec.upgrade_at;
        let policy =
            fleet::policy_of(&policies, &pass.entry.version, at).ok_or(SourceError::NoPolicy)?;
        let present = client.state(&cluster, policy).await?;
        let present = FleetState::of(&present)?;
        if let Some(word) = word.filter(|_| present.takes(state)) {
            client.set_state(&cluster, policy, word, text).await?;
        }
        Ok(())
    }

    /// What proves the cluster to the fleet manager.
    async fn fleet_token(&self) -> Result<String, SourceError> {
        let (namespace, name) = pull_secret::NAME;
        let path = path::namespaced::<Secret>(namespace, name);
        let secret = self.requests.read(&path).await?;
        let secret = secret.ok_or(SourceError::NoSecret)?;
        Ok(pull_secret::token_of(&secret)?)
    }

    /// Sets the metric of the source, which outlives an UpgradeConfig.
    pub(super) fn publish_source(&self) {
        if let Some(read) = self.source_read() {
            let read = series::seconds(read.as_second());
            self.metrics.set(series::SYNC, &[], read);
        }
    }
}

/// Whether a response that asks for no upgrade counts, after one at `doubted` that did too.
fn is_certain(doubted: Option<Timestamp>, now: Timestamp) -> bool {
    doubted.is_some_and(|since| now.duration_since(since).abs() >= DOUBTED)
}

/// Whether the cluster was changed for the upgrade, which goes on.
fn has_begun(upgrade: &UpgradeConfig, version: &ClusterVersion) -> bool {
    let status = upgrade.status.clone().unwrap_or_default();
    let entry = history::find(&status, &upgrade.spec.desired.version);
    entry.is_some_and(|entry| {
        entry.phase == UpgradePhase::Upgrading
            && (history::is_step_done(entry, StepName::CommenceUpgrade)
                || is_commenced(version, &upgrade.spec.desired).unwrap_or(false))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use upgrade_plan::fixture::{START, cluster_version, entry, spec};

    #[test]
    fn one_answer_without_an_upgrade_withdraws_none() {
        let later = |secs| START + SignedDuration::from_secs(secs);
        let table = [
            (None, 0, false),
            (Some(START), 0, false),
            (Some(START), 19, false),
            (Some(START), 20, true),
            // The clock was set back.
            (Some(START), -60, true),
        ];
        for (doubted, secs, expected) in table {
            assert_eq!(is_certain(doubted, later(secs)), expected, "{secs}");
        }
    }

    #[test]
    fn an_upgrade_that_changed_the_cluster_is_not_replaced() {
        let mut version = cluster_version("4.16.3");
        let mut upgrade = UpgradeConfig::new(upgrade_config::NAME, spec());
        assert!(!has_begun(&upgrade, &version));
        let with = |upgrade: &mut UpgradeConfig, phase| {
            let mut status = upgrade.status.clone().unwrap_or_default();
            history::put(&mut status, entry(phase));
            upgrade.status = Some(status);
        };
        with(&mut upgrade, UpgradePhase::Upgrading);
        assert!(!has_begun(&upgrade, &version), "its gates are still open");
        version.spec.desired_update = Some(api::config::cluster_version::Update {
            version: "4.16.4".to_owned(),
            ..api::config::cluster_version::Update::default()
        });
        assert!(has_begun(&upgrade, &version));
        with(&mut upgrade, UpgradePhase::Upgraded);
        assert!(!has_begun(&upgrade, &version), "it is over");
    }
}
