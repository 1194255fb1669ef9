//! The operator as a controller of one key: the UpgradeConfig is observed, its phase decided, and
//! what the phase asks for is done.
//!
//! - `steps`: what each step does
//! - `checks`: what the health checks find
//! - `cleanup`: what was added is removed
//! - `image`: the version of an image is found out
//! - `keeping`: drains that are stuck are helped
//! - `planning`: the plan that clients read
//! - `delivery`: announcements are sent as `CloudEvents`
//! - `sync`: the fleet manager as the source

mod checks;
mod cleanup;
mod delivery;
mod image;
mod keeping;
mod planning;
mod steps;
mod sync;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::ConditionStatus;
use api::config::{ClusterVersion, cluster_version};
use api::upgrade::{UpgradeConfig, UpgradeHistoryEntry, UpgradePhase, UpgradePlan, upgrade_config};
use cluster::events::{EventSubject, Recorder, Severity};
use cluster::wire;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use operator::{Next, Reconcile};
use release::Version;
use release::update_graph::UpdateGraph;
use serde_json::json;

use self::delivery::unsent;
use self::planning::sooner;
use self::sync::SourceState;
use crate::cloud_event::{EventOutbox, UNSENT};
use crate::config::{self, ConfigSource, OperatorConfig};
use crate::fleet::client::Patience;
use crate::history::{self, StepOutcome, StepTurn};
use crate::metrics::{self, UpgradeMetrics};
use crate::monitoring::{self, Monitoring};
use crate::notice::{ANNOTATION, Announced, NoticeState};
use crate::phase::{self, PhaseEvent, UnexpectedEvent};
use crate::release_state::{NoSource, current_version, is_commenced, preceding_version};
use crate::requests::Requests;
use crate::schedule::{self, StartDecision};
use crate::step::StepName;
use crate::validation::{self, ConfigVerdict, InvalidUpgrade};
use crate::watches::{UpgradeCaches, Upgrades};
use crate::window;

/// Keeps an UpgradeConfig until what was added for it is removed.
const FINALIZER: &str = "slipway.dev/managed-upgrade";

/// Condition: whether the UpgradeConfig can be followed.
const VALID: &str = "UpgradeConfigValid";
/// Condition: whether the operator's settings can be used.
const SETTINGS: &str = "OperatorConfigValid";
/// Condition: a change that is not followed.
const REFUSED: &str = "DesiredChangeRefused";
/// Condition: the upgrade was given up.
const FAILED: &str = "FailedUpgrade";

/// How often a gate is asked again that holds an upgrade, and how often something is checked that
/// no watch reports.
const POLL: Duration = Duration::from_secs(30);

/// How often the time of an upgrade is compared with the clock, which may be set.
const CLOCK: SignedDuration = SignedDuration::from_mins(10);

/// An advance health check is made so long before the start, or longer.
const ADVANCE: SignedDuration = SignedDuration::from_mins(120);

/// The one thing that is reconciled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UpgradeKey;

impl fmt::Display for UpgradeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(upgrade_config::NAME)
    }
}

/// Why a pass could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] wire::Error),
    /// There is no ClusterVersion.
    #[error("there is no ClusterVersion {}", cluster_version::NAME)]
    NoVersion,
    /// Phase and event contradict each other.
    #[error("cannot tell what comes next")]
    Phase(#[from] UnexpectedEvent),
    /// What was added for an upgrade could not be removed.
    #[error("cannot remove what was added for the upgrade: {0}")]
    CleanUp(String),
}

/// The operator.
pub(crate) struct UpgradeOperator {
    requests: Requests,
    monitoring: Monitoring,
    caches: UpgradeCaches,
    recorder: Recorder,
    metrics: Arc<UpgradeMetrics>,
    namespace: String,
    now: fn() -> Timestamp,
    /// The plan as it was written last, and when its gates were asked last.
    planned: Mutex<Option<(UpgradePlan, Timestamp)>>,
    /// What is known of the source.
    source: Mutex<SourceState>,
}

/// One pass over an upgrade.
#[derive(Debug)]
pub(crate) struct Pass {
    /// As it was last written.
    upgrade: UpgradeConfig,
    version: ClusterVersion,
    config: OperatorConfig,
    entry: UpgradeHistoryEntry,
    now: Timestamp,
}

impl Pass {
    /// Whether the cluster was changed for this upgrade. An administrator who takes the request
    /// away afterwards is not overruled.
    fn is_commenced(&self) -> Result<bool, NoSource> {
        if history::is_step_done(&self.entry, StepName::CommenceUpgrade) {
            return Ok(true);
        }
        let asked = self.version.spec.desired_update.as_ref();
        let version = self.entry.version.as_str();
        if !version.is_empty() && asked.is_some_and(|update| update.version == version) {
            return Ok(true);
        }
        is_commenced(&self.version, &self.upgrade.spec.desired)
    }

    fn note(&mut self, r#type: &str, status: bool, reason: &str, message: &str) {
        let said = (reason, message);
        history::note(&mut self.entry, r#type, status.into(), said, self.now);
    }

    /// Notes that nothing is wrong any more, where something was.
    fn clear(&mut self, r#type: &str, was: ConditionStatus, reason: &str, message: &str) {
        let known = self.entry.condition(r#type);
        if known.is_some_and(|known| known.status == was) {
            self.note(r#type, was == ConditionStatus::False, reason, message);
        }
    }
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
        if !finalizers.iter().any(|known| known == FINALIZER) {
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
                let why = error.to_string();
                let said = ("Invalid", why.as_str());
                history::note(&mut entry, SETTINGS, ConditionStatus::False, said, now);
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
        pass.clear(
            SETTINGS,
            ConditionStatus::False,
            "Valid",
            "the settings can be used",
        );
        self.note_source(&mut pass);
        if let Some(why) = refused.or_else(|| self.source_refused()) {
            pass.note(REFUSED, true, "UpgradeCommenced", &why);
        } else {
            let said = "what is asked for is what is done";
            pass.clear(REFUSED, ConditionStatus::True, "Followed", said);
        }
        if let Some(replaced) = replaced_entry(&pass) {
            self.give_up_replaced(&mut pass, replaced).await?;
        }
        let next = self.run_phases(&mut pass).await;
        let series = metrics::status_series(&pass.upgrade, &pass.entry, &pass.version);
        self.metrics.set_series(series);
        let next = self.keep_plan(&pass, next?).await;
        Ok(self.deliver(&mut pass, next).await)
    }

    async fn run_phases(&self, pass: &mut Pass) -> Result<Next, Error> {
        loop {
            let next = match pass.entry.phase {
                UpgradePhase::New => {
                    self.check_in_advance(pass).await?;
                    None
                }
                UpgradePhase::Pending => self.pending(pass).await?,
                UpgradePhase::Upgrading => Some(self.upgrading(pass).await?),
                UpgradePhase::Upgraded => Some(self.upgraded(pass).await?),
                UpgradePhase::Failed | UpgradePhase::Other(_) => Some(Next::Settled),
            };
            self.save(pass).await?;
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }

    /// New: what may hold the upgrade is announced long before its start.
    async fn check_in_advance(&self, pass: &mut Pass) -> Result<(), Error> {
        let start = schedule::parse_start(&pass.upgrade.spec.upgrade_at);
        let is_far = start.is_ok_and(|start| start.duration_since(pass.now) > ADVANCE);
        if is_far && pass.config.has_all_health_checks {
            let findings = self.findings(pass).await;
            if !findings.is_empty() {
                let why = checks::texts(&findings);
                // Another try would come too late to be in advance: it is logged, and goes on.
                if let Err(error) = self.announce(pass, NoticeState::PreHealthCheck, &why).await {
                    tracing::warn!(error, "cannot announce what the check in advance found");
                }
            }
        }
        pass.entry.phase = phase::next(Some(&pass.entry.phase), PhaseEvent::Checked)?;
        Ok(())
    }

    /// Pending: validated, and started when the time has come. None: the next phase has begun.
    async fn pending(&self, pass: &mut Pass) -> Result<Option<Next>, Error> {
        let start = schedule::parse_start(&pass.upgrade.spec.upgrade_at);
        let decision = start.map(|start| {
            let config = &pass.config;
            schedule::decide(start, config.window, &config.windows, pass.now)
        });
        let is_due = !matches!(decision, Ok(StartDecision::Wait(_)));
        let verdict = if let Ok(StartDecision::Stale(why)) = &decision {
            Err(why.clone())
        } else {
            let verdict = self.validate(pass, is_due).await;
            verdict.map_err(|invalid| invalid.to_string())
        };
        self.metrics.set(
            metrics::VALIDATION_FAILED,
            &[],
            f64::from(u8::from(verdict.is_err())),
        );
        if let Ok(Some(version)) = &verdict
            && self.adopt_version(pass, version).await?
        {
            return Ok(Some(Next::After(Duration::from_secs(1))));
        }
        if let Err(why) = verdict {
            let is_new = pass
                .entry
                .condition(VALID)
                .is_none_or(|known| known.message != why);
            pass.note(VALID, false, "Invalid", &why);
            if is_new {
                tracing::warn!(reason = why, "the UpgradeConfig is not followed");
            }
            // ClusterVersion and the UpgradeConfig are watched; a server is asked again.
            let poll = Duration::from_mins(1);
            let asks_registry = !pass.upgrade.spec.desired.image.is_empty();
            return Ok(Some(if is_due || asks_registry {
                Next::After(poll)
            } else {
                Next::Settled
            }));
        }
        let said = validation::valid_message(&pass.upgrade.spec.desired);
        pass.note(VALID, true, "Valid", &said);
        if let Ok(StartDecision::Wait(left)) = decision {
            let wait = left.min(CLOCK) + SignedDuration::from_secs(1);
            let wait = Duration::try_from(wait).unwrap_or(POLL);
            return Ok(Some(Next::After(wait)));
        }
        if let Some(fleet) = pass.config.fleet.clone() {
            // What the source withdrew since it was last read does not start, nor does anything
            // while the source cannot be read.
            match self.refresh(&fleet, Patience::of(fleet.routes)).await {
                Ok(false) => self.note_source(pass),
                Ok(true) => {
                    self.read_source_again();
                    pass.entry.phase = phase::next(Some(&pass.entry.phase), PhaseEvent::Changed)?;
                    return Ok(Some(Next::After(Duration::from_secs(1))));
                }
                Err(_) => {
                    self.note_source(pass);
                    return Ok(Some(Next::Retry));
                }
            }
        }
        // What the watch has not delivered yet counts too: a withdrawal before the start does.
        let latest = self.requests.upgrade().await?;
        let is_same = |latest: &UpgradeConfig| {
            latest.spec == pass.upgrade.spec
                && latest.metadata.uid == pass.upgrade.metadata.uid
                && latest.metadata.deletion_timestamp.is_none()
        };
        if !latest.as_ref().is_some_and(is_same) {
            tracing::info!("the UpgradeConfig was changed or withdrawn at its start");
            // The watch delivers what it is now.
            pass.entry.phase = phase::next(Some(&pass.entry.phase), PhaseEvent::Changed)?;
            return Ok(Some(Next::After(Duration::from_secs(1))));
        }
        pass.entry.phase = phase::next(Some(&pass.entry.phase), PhaseEvent::Ready)?;
        pass.entry.start_time = Some(Time(pass.now));
        tracing::info!(version = pass.entry.version, "the upgrade starts");
        Ok(None)
    }

    /// Whether the upgrade can be followed. Some: the version that its image says it is.
    async fn validate(&self, pass: &Pass, is_due: bool) -> Result<Option<Version>, InvalidUpgrade> {
        let spec = &pass.upgrade.spec;
        match validation::judge(spec, &pass.version, pass.config.verifies_graph)? {
            ConfigVerdict::Valid => Ok(None),
            // The registry is asked when the image is seen, and at the start.
            ConfigVerdict::AskImage { .. } if !is_due && pass.has_read_image() => Ok(None),
            ConfigVerdict::AskImage { current, place } => {
                image::read_version(&place, &current).await.map(Some)
            }
            ConfigVerdict::AskGraph { current, desired } => {
                // The service is asked once when the upgrade is seen, and at the start.
                let known = pass.entry.condition(VALID);
                if !is_due && known.is_some_and(|known| known.status == ConditionStatus::True) {
                    return Ok(None);
                }
                let unknown = |why: String| InvalidUpgrade {
                    field: "spec.desired.version",
                    why: format!("cannot ask the update service: {why}"),
                };
                let url = graph_url(pass, &current.to_string()).map_err(unknown)?;
                let (status, body) = monitoring::read_graph(&url).await.map_err(unknown)?;
                if !status.is_success() {
                    return Err(unknown(format!("{url} answers {status}")));
                }
                let said =
                    |error: &dyn std::error::Error| chassis::report::Chain(error).to_string();
                let graph = UpdateGraph::parse(&body).map_err(|error| unknown(said(&error)))?;
                let offers = graph.offers(&current);
                let offers =
                    offers.ok_or_else(|| unknown(format!("it does not know {current}")))?;
                validation::in_graph(&desired, &offers).map(|()| None)
            }
        }
    }

    /// Upgrading: the window, then the steps in order until one is not done.
    async fn upgrading(&self, pass: &mut Pass) -> Result<Next, Error> {
        self.observe_nodes(pass).await;
        let r#type = pass.upgrade.spec.r#type.clone();
        let commenced = pass.is_commenced();
        if window::has_expired(
            &r#type,
            &pass.entry,
            commenced,
            pass.config.window,
            pass.now,
        ) {
            return self.expire(pass).await;
        }
        for step in pass.config.steps(&r#type) {
            let outcome = match history::turn(&pass.entry, &step, pass.is_commenced() == Ok(true)) {
                StepTurn::Skip => continue,
                StepTurn::Passed => StepOutcome::Done,
                StepTurn::Run => {
                    history::begin(&mut pass.entry, &step, pass.now);
                    // The intent is written before the first effect.
                    self.save(pass).await?;
                    self.run_with_hooks(pass, step.name).await
                }
            };
            history::finish(&mut pass.entry, &step, &outcome, pass.now);
            let is_news = self.save(pass).await?;
            let step = step.name.as_str();
            match outcome {
                StepOutcome::Done => {
                    if is_news {
                        tracing::info!(step, "a step is done");
                    }
                }
                StepOutcome::Waiting => return Ok(Next::After(POLL)),
                StepOutcome::Hold(reason) => {
                    if is_news {
                        tracing::info!(step, reason, "the upgrade is held");
                    }
                    return Ok(Next::After(POLL));
                }
                StepOutcome::Failed(reason) => {
                    tracing::warn!(step, reason, "a step failed");
                    return Ok(Next::Retry);
                }
            }
        }
        pass.entry.phase = phase::next(Some(&pass.entry.phase), PhaseEvent::Done)?;
        pass.entry.complete_time = Some(Time(pass.now));
        self.metrics.set_drains(&[]);
        self.release_nodes().await;
        tracing::info!(version = pass.entry.version, "the upgrade is done");
        // How it ended is published with the next pass, which the write wakes.
        Ok(Next::Settled)
    }

    /// Stuck drains, which are helped, and when the first worker began and the last was done.
    async fn observe_nodes(&self, pass: &mut Pass) {
        if pass.is_commenced() != Ok(true) {
            self.metrics.set_drains(&[]);
            return;
        }
        let stuck = self.keep_nodes(pass).await;
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
        let workers = pools.values().filter(|pool| pool.name != "master");
        workers.map(|pool| pool.pending()).sum()
    }

    /// Upgraded: how it ended is published; a finished one of the source LOCAL is deleted.
    async fn upgraded(&self, pass: &mut Pass) -> Result<Next, Error> {
        let published = self.publish_result(pass).await;
        if let Err(why) = &published {
            tracing::warn!(
                reason = why,
                "cannot tell which alerts fired during the upgrade"
            );
        }
        let retry = published
            .is_err()
            .then_some(Next::After(Duration::from_mins(5)));
        if pass.config.source != ConfigSource::Local {
            return Ok(retry.unwrap_or(Next::Settled));
        }
        let now = metrics::seconds(pass.now.as_second());
        self.metrics.set(metrics::SYNC, &[], now);
        let done = pass
            .entry
            .complete_time
            .as_ref()
            .map_or(pass.now, |time| time.0);
        let left = pass.config.watch_interval - pass.now.duration_since(done);
        if left.is_positive() {
            return Ok(Next::After(Duration::try_from(left).unwrap_or(POLL)));
        }
        tracing::info!("the finished UpgradeConfig is deleted");
        self.requests.delete_upgrade(&pass.upgrade).await?;
        Ok(Next::Settled)
    }

    /// Writes the status if it differs; whether it did.
    async fn save(&self, pass: &mut Pass) -> Result<bool, Error> {
        self.write(&mut pass.upgrade, &pass.entry).await
    }

    async fn write(
        &self,
        upgrade: &mut UpgradeConfig,
        entry: &UpgradeHistoryEntry,
    ) -> Result<bool, Error> {
        let mut status = upgrade.status.clone().unwrap_or_default();
        history::put(&mut status, entry.clone());
        if upgrade.status.as_ref() == Some(&status) {
            return Ok(false);
        }
        let written = self.requests.apply_status(upgrade, &status).await?;
        self.keep(upgrade, written);
        Ok(true)
    }

    /// Goes on from the answer to a write, which the watch delivers later.
    fn keep(&self, upgrade: &mut UpgradeConfig, written: UpgradeConfig) {
        let written = <Upgrades as operator::Watched>::parse(written);
        // What was asked for in between is followed with the next pass.
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

    /// Announces a state, once.
    async fn announce(&self, pass: &mut Pass, state: NoticeState, why: &str) -> Result<(), String> {
        let version = pass.entry.version.clone();
        let annotations = pass.upgrade.metadata.annotations.as_ref();
        let announced = annotations.and_then(|all| all.get(ANNOTATION));
        let announced = Announced::parse(announced.map(String::as_str).unwrap_or_default());
        if announced.has(&version, state) {
            return Ok(());
        }
        let name = state.as_str();
        let text = state.text(&version, why);
        if let Err(why) = self.tell_fleet(pass, state, &text).await {
            self.metrics
                .set(metrics::NOTIFICATION_FAILED, &[("event", name)], 1.0);
            return Err(format!("can't send notification '{name}': {why}"));
        }
        self.say(&pass.upgrade, &version, state, why, pass.now);
        let announced = announced.with(&version, state).to_annotation();
        let annotations = if pass.config.cloud_events.is_some() {
            // With the same write: it is announced once, and sent until it is delivered.
            let outbox = EventOutbox::of(&pass.upgrade);
            let outbox = outbox.with(unsent(&version, state, why, pass.now));
            json!({ ANNOTATION: announced, UNSENT: outbox.to_annotation() })
        } else {
            json!({ ANNOTATION: announced })
        };
        match self.requests.annotate(&annotations).await {
            Ok(written) => {
                self.keep(&mut pass.upgrade, written);
                self.metrics
                    .set(metrics::NOTIFICATION_FAILED, &[("event", name)], 0.0);
                let labels = [("event", name), ("version", version.as_str())];
                self.metrics.set(metrics::NOTIFICATION, &labels, 1.0);
                Ok(())
            }
            Err(error) => {
                self.metrics
                    .set(metrics::NOTIFICATION_FAILED, &[("event", name)], 1.0);
                let why = chassis::report::Chain(&error);
                Err(format!("can't send notification '{name}': {why}"))
            }
        }
    }

    /// Writes a state to the log and as an event.
    fn say(
        &self,
        upgrade: &UpgradeConfig,
        version: &str,
        state: NoticeState,
        why: &str,
        now: Timestamp,
    ) {
        let name = state.as_str();
        let text = state.text(version, why);
        tracing::info!(version, "Upgrade-State: {name} Description: {text}");
        let severity = if state.is_warning() {
            Severity::Warning
        } else {
            Severity::Normal
        };
        self.record(upgrade, severity, name, &text, now);
    }

    /// Writes an event about the UpgradeConfig.
    fn record(
        &self,
        upgrade: &UpgradeConfig,
        severity: Severity,
        reason: &'static str,
        text: &str,
        now: Timestamp,
    ) {
        let subject = EventSubject {
            api_version: "upgrade.managed.openshift.io/v1alpha1".to_owned(),
            kind: "UpgradeConfig".to_owned(),
            name: upgrade_config::NAME.to_owned(),
            uid: upgrade.metadata.uid.clone().unwrap_or_default(),
        };
        self.recorder.say(&subject, severity, reason, text, now);
    }
}

impl Reconcile for UpgradeOperator {
    type Key = UpgradeKey;
    type Error = Error;

    fn keys(&self) -> Vec<UpgradeKey> {
        vec![UpgradeKey]
    }

    async fn reconcile(&self, _: &UpgradeKey) -> Result<Next, Error> {
        let due = Box::pin(self.sync((self.now)())).await;
        let Some(upgrade) = self.caches.upgrades.get(upgrade_config::NAME) else {
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

/// The upgrade that is worked on, and why another one that is asked for is not.
fn working_entry(
    upgrade: &UpgradeConfig,
    version: &ClusterVersion,
    now: Timestamp,
) -> Result<(UpgradeHistoryEntry, Option<String>), Error> {
    let status = upgrade.status.clone().unwrap_or_default();
    let desired = upgrade.spec.desired.version.as_str();
    let asked = version.spec.desired_update.as_ref();
    let mut open = status.history.iter().filter(|entry| {
        let is_begun = history::is_step_done(entry, StepName::CommenceUpgrade)
            || asked.is_some_and(|update| update.version == entry.version);
        entry.phase == UpgradePhase::Upgrading && entry.version != desired && is_begun
    });
    if let Some(begun) = open.next() {
        let image = upgrade.spec.desired.image.as_str();
        let is_asked = asked.is_some_and(|update| update.image == image);
        if desired.is_empty() && !image.is_empty() && is_asked {
            return Ok((begun.clone(), None));
        }
        let why = format!(
            "spec.desired.version: {desired:?} is not followed, because the upgrade to {} has \
             changed the cluster",
            begun.version
        );
        return Ok((begun.clone(), Some(why)));
    }
    if let Some(entry) = history::find(&status, desired) {
        return Ok((entry.clone(), None));
    }
    // Until the version of an image is known, its progress is not either.
    let is_commenced =
        !desired.is_empty() && is_commenced(version, &upgrade.spec.desired).unwrap_or(false);
    let version = version.status.clone().unwrap_or_default();
    let entry = UpgradeHistoryEntry {
        version: desired.to_owned(),
        preceding_version: preceding_version(&version, desired).to_owned(),
        phase: phase::next(None, PhaseEvent::Seen { is_commenced })?,
        start_time: Some(Time(now)).filter(|_| is_commenced),
        complete_time: None,
        worker_start_time: None,
        worker_complete_time: None,
        conditions: Vec::new(),
    };
    Ok((entry, None))
}

/// An upgrade that was under way when another one was asked for, and has not changed the cluster.
fn replaced_entry(pass: &Pass) -> Option<UpgradeHistoryEntry> {
    let mut entries = pass.upgrade.status.as_ref()?.history.iter();
    let is_other = |entry: &&UpgradeHistoryEntry| {
        entry.phase == UpgradePhase::Upgrading && entry.version != pass.entry.version
    };
    entries.find(is_other).cloned()
}

/// The version that runs, for labels.
fn running(version: &ClusterVersion) -> String {
    let status = version.status.as_ref();
    let running = status.and_then(|status| current_version(status).ok());
    running.unwrap_or("unknown").to_owned()
}

/// Where the update service is asked about the desired channel.
fn graph_url(pass: &Pass, current: &str) -> Result<String, String> {
    const SERVICE: &str = "https://api.openshift.com/api/upgrades_info/v1/graph";
    let spec = &pass.version.spec;
    let groups: Vec<usize> = spec.cluster_id.split('-').map(str::len).collect();
    let is_hex = |c: char| c.is_ascii_hexdigit() || c == '-';
    if groups != [8, 4, 4, 4, 12] || !spec.cluster_id.chars().all(is_hex) {
        return Err(format!(
            "spec.clusterID {:?} of ClusterVersion is no UUID",
            spec.cluster_id
        ));
    }
    let service = if spec.upstream.is_empty() {
        SERVICE
    } else {
        spec.upstream.as_str()
    };
    let architecture = pass
        .version
        .status
        .as_ref()
        .map(|status| &status.desired.architecture);
    let architecture = match architecture.map(String::as_str) {
        Some("Multi") => "multi",
        _ => ARCHITECTURE,
    };
    let separator = if service.contains('?') { '&' } else { '?' };
    let escape = cluster::wire::escape;
    Ok(format!(
        "{service}{separator}arch={architecture}&channel={}&id={}&version={}",
        escape(&pass.upgrade.spec.desired.channel),
        escape(&spec.cluster_id),
        escape(current)
    ))
}

/// Architecture of this program, and so of its cluster's release, in the words of releases.
pub(crate) const ARCHITECTURE: &str = match std::env::consts::ARCH.as_bytes() {
    b"x86_64" => "amd64",
    b"aarch64" => "arm64",
    b"powerpc64" => "ppc64le",
    _ => std::env::consts::ARCH,
};
