//! The operator as a controller of one key: the UpgradeConfig is observed, its phase decided, and
//! what the phase asks for is done.
//!
//! - `walking`: observations and commands of an upgrade that waits, or is under way
//! - `starting`: what is checked before it starts
//! - `checks`: what the health checks find
//! - `cleanup`: what was added is removed
//! - `image`: the version of an image is found out
//! - `drain_help`: drains that are stuck are helped
//! - `planning`: the plan that clients read
//! - `announcing`: states are announced
//! - `delivery`: announcements are sent as `CloudEvents`
//! - `sync`: the fleet manager as the source
//! - `errors`: why any of it fails

mod announcing;
mod checks;
mod cleanup;
mod delivery;
mod drain_help;
mod errors;
mod image;
mod planning;
mod starting;
mod sync;
#[cfg(test)]
mod tests;
mod walking;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::ConditionStatus;
use api::config::{ClusterVersion, cluster_version};
use api::upgrade::{UpgradeConfig, UpgradeHistoryEntry, UpgradePhase, UpgradePlan, upgrade_config};
use chassis::report::Chain;
use cluster::events::Recorder;
use cluster::wire;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use operator::{Next, Reconcile};

use self::drain_help::DrainReports;
pub use self::errors::Error;
use self::planning::sooner;
use self::sync::SourceState;
use crate::metrics::UpgradeMetrics;
use crate::monitoring::Monitoring;
use crate::requests::Requests;
use crate::watches::{UpgradeCaches, UpgradeKey, Upgrades};
use upgrade_plan::config::{self, ConfigSource, OperatorConfig};
use upgrade_plan::history;
use upgrade_plan::pass::{Pass, working_entry};
use upgrade_plan::release_state::current_version;
use upgrade_plan::series;
use upgrade_plan::walk::POLL;

/// Keeps an UpgradeConfig until what was added for it is removed.
const FINALIZER: &str = "slipway.dev/managed-upgrade";

/// Condition: whether the operator's settings can be used.
const SETTINGS: &str = "OperatorConfigValid";
/// Condition: a change that is not followed.
const REFUSED: &str = "DesiredChangeRefused";
/// Condition: a person stopped the cluster.
const STOPPED: &str = "UpgradeStopped";
/// Condition: the upgrade was given up.
const FAILED: &str = "FailedUpgrade";

pub(crate) struct UpgradeOperator {
    requests: Requests,
    monitoring: Monitoring,
    caches: UpgradeCaches,
    recorder: Recorder,
    metrics: Arc<UpgradeMetrics>,
    namespace: String,
    now: fn() -> Timestamp,
    /// The plan as it was written last, and when its gates were evaluated last.
    planned: Mutex<Option<(UpgradePlan, Timestamp)>>,
    /// What was read of the source.
    source: Mutex<SourceState>,
    /// What people have been notified of about drains.
    drains: Mutex<DrainReports>,
    /// When extra MachineSets that were left were looked for.
    collected: Mutex<Option<Timestamp>>,
}

impl UpgradeOperator {
    pub(crate) fn new(
        requests: Requests,
        monitoring: Monitoring,
        caches: UpgradeCaches,
        recorder: Recorder,
        metrics: Arc<UpgradeMetrics>,
        namespace: String,
        now: fn() -> Timestamp,
    ) -> Self {
        Self {
            requests,
            monitoring,
            caches,
            recorder,
            metrics,
            namespace,
            now,
            planned: Mutex::new(None),
            source: Mutex::default(),
            drains: Mutex::default(),
            collected: Mutex::default(),
        }
    }

    async fn follow(&self, upgrade: UpgradeConfig) -> Result<Next, Error> {
        let now = (self.now)();
        // A status holds times to the second.
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        if upgrade.metadata.deletion_timestamp.is_some() {
            return self.clean_up(upgrade, now).await;
        }
        let finalizers = upgrade.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|name| name == FINALIZER) {
            let finalizers = [finalizers, vec![FINALIZER.to_owned()]].concat();
            self.requests.set_finalizers(&upgrade, &finalizers).await?;
            // The watch reports it.
            return Ok(Next::Settled);
        }
        let version = self.caches.versions.get(cluster_version::NAME);
        let version = version.ok_or(Error::NoVersion)?.as_ref().clone();
        let (entry, refused) = working_entry(&upgrade, &version, now)?;
        let config = match self.config() {
            Ok(config) => config,
            Err(error) => {
                let (mut upgrade, mut entry) = (upgrade, entry);
                let why = Chain(&error).to_string();
                let text = ("Invalid", why.as_str());
                history::note(&mut entry, SETTINGS, ConditionStatus::False, text, now);
                if self.write(&mut upgrade, &entry).await? {
                    tracing::warn!(error = why, "cannot use the settings");
                }
                // They are watched.
                return Ok(Next::Settled);
            }
        };
        let mut pass = Pass {
            upgrade,
            version,
            config,
            entry,
            now,
        };
        let unused = [&pass.config.unused[..], &pass.config.scale_faults].concat();
        if !unused.is_empty() {
            let message = format!(
                "the settings can be used, but for {}",
                config::list(&unused)
            );
            pass.note(SETTINGS, true, "PartlyValid", &message);
        } else if pass.entry.condition(SETTINGS).is_some() {
            pass.note(SETTINGS, true, "Valid", "the settings can be used");
        }
        self.note_source(&mut pass);
        if pass.config.source == ConfigSource::Local {
            // The object itself is the source, and was just read.
            let now = series::seconds(pass.now.as_second());
            self.metrics.set(series::SYNC, &[], now);
        }
        if let Some(why) = refused.or_else(|| self.source_refused()) {
            pass.note(REFUSED, true, "UpgradeCommenced", &why);
        } else {
            let message = "what is asked for is what is done";
            pass.clear(REFUSED, ConditionStatus::True, "Followed", message);
        }
        note_stop(&mut pass);
        if let Some(replaced) = pass.replaced_entry() {
            self.give_up_replaced(&mut pass, replaced).await?;
        }
        let next = self.run_phases(&mut pass).await;
        let series = series::status_series(&pass.upgrade, &pass.entry, &pass.version);
        self.metrics.set_series(series);
        let next = self.keep_plan(&pass, next?).await;
        Ok(self.deliver(&mut pass, next).await)
    }

    async fn run_phases(&self, pass: &mut Pass) -> Result<Next, Error> {
        loop {
            let next = match pass.entry.phase {
                UpgradePhase::New => {
                    // Clients wait for each phase.
                    self.save(pass).await?;
                    self.check_in_advance(pass).await?;
                    None
                }
                UpgradePhase::Pending | UpgradePhase::Upgrading => self.walk(pass).await?,
                UpgradePhase::Upgraded => Some(self.upgraded(pass).await?),
                UpgradePhase::Failed | UpgradePhase::Other(_) => Some(Next::Settled),
            };
            self.save(pass).await?;
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }

    /// Stuck drains, which are helped, and when the first worker began and the last was done.
    async fn observe_nodes(&self, pass: &mut Pass) {
        if pass.is_commenced() != Ok(true) {
            self.metrics.set_drains(&[]);
            return;
        }
        let stuck = self.help_drains(pass).await;
        self.metrics.set_drains(&stuck);
        let pending = self.pending_workers();
        if pending > 0 && pass.entry.worker_start_time.is_none() {
            pass.entry.worker_start_time = Some(Time(pass.now));
        }
        let has_begun = pass.entry.worker_start_time.is_some();
        if pending == 0 && has_begun && pass.entry.worker_complete_time.is_none() {
            pass.entry.worker_complete_time = Some(Time(pass.now));
        }
    }

    /// Machines of all pools but the control plane's that are not updated yet.
    fn pending_workers(&self) -> u32 {
        let pools = self.caches.pools.table();
        let workers = pools.values().filter(|pool| !pool.is_control_plane());
        workers.map(|pool| pool.pending()).sum()
    }

    /// Upgraded: how it ended is published; a finished one of the source LOCAL is deleted.
    async fn upgraded(&self, pass: &mut Pass) -> Result<Next, Error> {
        let published = self.publish_result(pass).await;
        if let Err(error) = &published {
            tracing::warn!(
                reason = Chain(error).to_string(),
                "cannot tell which alerts fired during the upgrade"
            );
        }
        let retry = published
            .is_err()
            .then_some(Next::After(Duration::from_mins(5)));
        if pass.config.source != ConfigSource::Local {
            return Ok(retry.unwrap_or(Next::Settled));
        }
        let done = pass
            .entry
            .complete_time
            .as_ref()
            .map_or(pass.now, |time| time.0);
        let since = pass.now.duration_since(done);
        let left = pass.config.watch_interval.saturating_sub(since);
        if left.is_positive() {
            return Ok(Next::After(Duration::try_from(left).unwrap_or(POLL)));
        }
        tracing::info!("the finished UpgradeConfig is deleted");
        self.requests.delete_upgrade(&pass.upgrade).await?;
        Ok(Next::Settled)
    }

    /// Writes the status if it differs; whether it did.
    async fn save(&self, pass: &mut Pass) -> Result<bool, wire::Error> {
        self.write(&mut pass.upgrade, &pass.entry).await
    }

    async fn write(
        &self,
        upgrade: &mut UpgradeConfig,
        entry: &UpgradeHistoryEntry,
    ) -> Result<bool, wire::Error> {
        let mut status = upgrade.status.clone().unwrap_or_default();
        history::put(&mut status, entry.clone());
        if upgrade.status.as_ref() == Some(&status) {
            return Ok(false);
        }
        let written = self.requests.apply_status(upgrade, &status).await?;
        self.keep(upgrade, written);
        Ok(true)
    }

    /// Goes on from the response to a write, which the watch delivers later.
    fn keep(&self, upgrade: &mut UpgradeConfig, written: UpgradeConfig) {
        let written = <Upgrades as operator::Watched>::parse(written);
        // What was requested in between is followed with the next pass.
        upgrade.metadata = written.metadata.clone();
        upgrade.status.clone_from(&written.status);
        self.caches.upgrades.refresh(written);
    }

    fn config(&self) -> Result<OperatorConfig, config::Error> {
        let map = self.caches.settings.get(config::CONFIG_MAP);
        let text = map.as_ref().and_then(|map| map.data.get(config::KEY));
        let text = text.ok_or_else(|| config::Error::Missing(self.namespace.clone()))?;
        OperatorConfig::parse(text)
    }
}

impl Reconcile for UpgradeOperator {
    type Key = UpgradeKey;
    type Error = Error;

    fn keys(&self) -> Vec<UpgradeKey> {
        vec![UpgradeKey]
    }

    async fn reconcile(&self, _: &UpgradeKey) -> Result<Next, Error> {
        let now = (self.now)();
        let due = Box::pin(self.sync(now)).await;
        let upgrade = self.caches.upgrades.get(upgrade_config::NAME);
        self.collect_machine_sets(upgrade.as_deref(), now).await;
        let Some(upgrade) = upgrade else {
            self.metrics.reset();
            self.publish_source();
            return Ok(due.map_or(Next::Gone, |left| sooner(Next::Settled, left)));
        };
        self.publish_source();
        // A pass is large, and there is one.
        let next = Box::pin(self.follow(upgrade.as_ref().clone())).await?;
        Ok(due.map_or(next, |left| sooner(next, left)))
    }
}

/// Notes who stopped the cluster, or that it goes on. An upgrade that is over has no step to begin.
fn note_stop(pass: &mut Pass) {
    let is_over = matches!(
        pass.entry.phase,
        UpgradePhase::Upgraded | UpgradePhase::Failed
    );
    match pass.stop().filter(|_| !is_over) {
        Some(switch) => {
            let message = format!("no step begins: the cluster is stopped {switch}");
            pass.note(STOPPED, true, "Stopped", &message);
        }
        None => pass.clear(
            STOPPED,
            ConditionStatus::True,
            "Resumed",
            "the cluster goes on",
        ),
    }
}

/// The version that runs, for labels.
fn running(version: &ClusterVersion) -> String {
    let status = version.status.as_ref();
    let running = status.and_then(|status| current_version(status).ok());
    running.unwrap_or("unknown").to_owned()
}
