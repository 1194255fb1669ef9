//! Which entry of the history a pass works on.

use api::config::ClusterVersion;
use api::upgrade::{UpgradeConfig, UpgradeHistoryEntry, UpgradePhase};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Error, Pass};
use upgrade_plan::history;
use upgrade_plan::phase::{self, PhaseEvent};
use upgrade_plan::release_state::{is_commenced, preceding_version};
use upgrade_plan::step::StepName;

/// The upgrade that is worked on, and why another one that is asked for is not.
pub(super) fn working_entry(
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
pub(super) fn replaced_entry(pass: &Pass) -> Option<UpgradeHistoryEntry> {
    let mut entries = pass.upgrade.status.as_ref()?.history.iter();
    let is_other = |entry: &&UpgradeHistoryEntry| {
        entry.phase == UpgradePhase::Upgrading && entry.version != pass.entry.version
    };
    entries.find(is_other).cloned()
}
