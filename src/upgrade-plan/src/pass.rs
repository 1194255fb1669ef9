//! One pass over an upgrade: what it works on.

use api::ConditionStatus;
use api::config::ClusterVersion;
use api::stop::StopSwitch;
use api::upgrade::{UpgradeConfig, UpgradeHistoryEntry, UpgradePhase};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::config::{self, OperatorConfig};
use crate::drain_help::DrainLimits;
use crate::history;
use crate::notice::{ANNOTATION, Announced, NoticeState};
use crate::phase::{self, PhaseEvent, UnexpectedEvent};
use crate::release_state::{NoSource, is_commenced, preceding_version};
use crate::step::StepName;
use crate::validation::{self, ConfigVerdict, InvalidUpgrade};

/// Condition: whether the UpgradeConfig can be followed.
pub const VALID: &str = "UpgradeConfigValid";

/// One pass over an upgrade.
#[derive(Debug)]
pub struct Pass {
    /// As it was last written.
    pub upgrade: UpgradeConfig,
    /// The ClusterVersion, as it was last read.
    pub version: ClusterVersion,
    pub config: OperatorConfig,
    /// The entry of the history that is worked on.
    pub entry: UpgradeHistoryEntry,
    /// When the pass began, to the second.
    pub now: Timestamp,
}

impl Pass {
    /// Whether the cluster was changed for this upgrade. An administrator who takes the request
    /// away afterwards is not overruled.
    ///
    /// # Errors
    /// As of [`is_commenced`].
    pub fn is_commenced(&self) -> Result<bool, NoSource> {
        if history::is_step_done(&self.entry, StepName::CommenceUpgrade) {
            return Ok(true);
        }
        let requested = self.version.spec.desired_update.as_ref();
        let version = self.entry.version.as_str();
        if !version.is_empty() && requested.is_some_and(|update| update.version == version) {
            return Ok(true);
        }
        is_commenced(&self.version, &self.upgrade.spec.desired)
    }

    /// The switch that stops the cluster, if it is set.
    pub fn stop(&self) -> Option<StopSwitch> {
        StopSwitch::read(self.version.metadata.annotations.as_ref())
    }

    /// How long a budget may block a drain.
    pub fn force_drain(&self) -> SignedDuration {
        config::force_drain(&self.upgrade.spec)
    }

    /// How long drains may take.
    pub fn drain_limits(&self) -> DrainLimits {
        let expected = self.config.expected_drain_time;
        DrainLimits {
            free: self.config.node_drain_timeout,
            protected: self.force_drain().saturating_add(expected),
            expected,
        }
    }

    /// Judges the UpgradeConfig without a server.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn judge(&self) -> Result<ConfigVerdict, InvalidUpgrade> {
        let config = &self.config;
        let (accepted, verifies_graph) = (&config.accepted_risks, config.verifies_graph);
        validation::judge(&self.upgrade.spec, &self.version, accepted, verifies_graph)
    }

    /// Whether the UpgradeConfig was found valid.
    pub fn is_valid(&self) -> bool {
        let condition = self.entry.condition(VALID);
        condition.is_some_and(|condition| condition.status == ConditionStatus::True)
    }

    /// Whether its image was read, and is its version.
    pub fn has_read_image(&self) -> bool {
        let message = validation::valid_message(&self.upgrade.spec.desired);
        let condition = self.entry.condition(VALID);
        self.is_valid() && condition.is_some_and(|condition| condition.message == message)
    }

    /// Whether a state was announced.
    pub fn is_announced(&self, state: NoticeState) -> bool {
        let annotations = self.upgrade.metadata.annotations.as_ref();
        let announced = annotations.and_then(|all| all.get(ANNOTATION));
        let announced = Announced::parse(announced.map(String::as_str).unwrap_or_default());
        announced.has(&self.entry.version, state)
    }

    /// Notes a condition.
    pub fn note(&mut self, r#type: &str, status: bool, reason: &str, message: &str) {
        let text = (reason, message);
        history::note(&mut self.entry, r#type, status.into(), text, self.now);
    }

    /// Notes that nothing is wrong any more, where something was.
    pub fn clear(&mut self, r#type: &str, was: ConditionStatus, reason: &str, message: &str) {
        let condition = self.entry.condition(r#type);
        if condition.is_some_and(|condition| condition.status == was) {
            self.note(r#type, was == ConditionStatus::False, reason, message);
        }
    }

    /// An upgrade that was under way when another one was requested, and has not changed the
    /// cluster.
    pub fn replaced_entry(&self) -> Option<UpgradeHistoryEntry> {
        let mut entries = self.upgrade.status.as_ref()?.history.iter();
        let is_other = |entry: &&UpgradeHistoryEntry| {
            entry.phase == UpgradePhase::Upgrading && entry.version != self.entry.version
        };
        entries.find(is_other).cloned()
    }
}

/// The upgrade that is worked on, and why another one that is requested is not.
///
/// # Errors
/// There is none.
pub fn working_entry(
    upgrade: &UpgradeConfig,
    version: &ClusterVersion,
    now: Timestamp,
) -> Result<(UpgradeHistoryEntry, Option<String>), UnexpectedEvent> {
    let status = upgrade.status.clone().unwrap_or_default();
    let desired = upgrade.spec.desired.version.as_str();
    let requested = version.spec.desired_update.as_ref();
    let mut open = status.history.iter().filter(|entry| {
        let is_begun = history::is_step_done(entry, StepName::CommenceUpgrade)
            || requested.is_some_and(|update| update.version == entry.version);
        entry.phase == UpgradePhase::Upgrading && entry.version != desired && is_begun
    });
    if let Some(begun) = open.next() {
        let image = upgrade.spec.desired.image.as_str();
        let is_requested = requested.is_some_and(|update| update.image == image);
        if desired.is_empty() && !image.is_empty() && is_requested {
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
    // Until the version of an image is read, its progress is unknown.
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
