//! Decides what `slipway managed schedule` and `cancel` write, or why they refuse. Pure.

use api::ConditionStatus;
use api::config::ClusterVersion;
use api::upgrade::{UpgradeConfig, UpgradeHistoryEntry, UpgradePhase, upgrade_config};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use release::Version;
use serde_json::{Value, json};

/// Condition of an upgrade that has changed the cluster.
const COMMENCED: &str = "UpgradeCommenced";

/// What `slipway managed schedule` asks for.
#[derive(Debug, Clone, Args)]
pub struct ScheduleWish {
    /// Version
    #[arg(long, value_name = "VERSION")]
    pub to: Version,
    /// Channel that offers it [default: that of ClusterVersion]
    #[arg(long, value_name = "CHANNEL")]
    pub channel: Option<String>,
    /// When it starts at the earliest, such as 2027-01-16T02:00:00+01:00 [default: now]
    #[arg(long, value_name = "TIME")]
    pub at: Option<Timestamp>,
    /// The same from now on, such as 2h30m
    #[arg(long, value_name = "DURATION", conflicts_with = "at")]
    pub after: Option<SignedDuration>,
    /// List of steps: OSD or ARO [default: that of the present one, else OSD]
    #[arg(long = "type", value_name = "TYPE", value_parser = ["OSD", "ARO"])]
    pub list: Option<String>,
    /// Minutes after which a drain that a PodDisruptionBudget blocks is forced
    #[arg(long, value_name = "MINUTES", default_value_t = 60,
          value_parser = clap::value_parser!(i32)
              .range(0..=i64::from(upgrade_config::LONGEST_FORCE_DRAIN_MINUTES)))]
    pub pdb_force_drain_timeout: i32,
    /// Add a machine to each worker pool for the time of the upgrade
    #[arg(long)]
    pub capacity_reservation: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ScheduleDecision {
    /// Nothing: it is scheduled already.
    Nothing,
    /// This object is created.
    Create(Value),
    /// This merge patch is sent, which another change in between refuses.
    Change(Value),
}

/// The change, and the message about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scheduled {
    pub(crate) change: ScheduleDecision,
    pub(crate) message: String,
    pub(crate) warnings: Vec<String>,
}

/// Why an upgrade is not scheduled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScheduleRefused {
    #[error("--at {at} is in the past")]
    PastTime { at: Timestamp },
    #[error("--after is in the past")]
    NegativeDelay,
    #[error("--after is too far away")]
    DelayTooLong,
    #[error("ClusterVersion has no channel: name one with --channel")]
    NoChannel,
    #[error("the upgrade before is being withdrawn: try again when it is gone")]
    OtherWithdrawn,
    #[error("the upgrade to {version} has changed the cluster: wait until it is done")]
    OtherCommenced { version: String },
    #[error(
        "the upgrade to {version} is {phase} already: `slipway managed cancel` removes it, then \
         schedule it again"
    )]
    Over {
        version: String,
        phase: UpgradePhase,
    },
}

/// Why an upgrade is not withdrawn.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CancelRefused {
    #[error("the upgrade is being withdrawn already")]
    Withdrawn,
    #[error(
        "the upgrade to {version} has changed the cluster, and there is no way back: wait until it \
         is done"
    )]
    Commenced { version: String },
}

impl ScheduleWish {
    /// Decides what is changed.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn decide(
        &self,
        present: Option<&UpgradeConfig>,
        version: &ClusterVersion,
        now: Timestamp,
    ) -> Result<Scheduled, ScheduleRefused> {
        let to = self.to.to_string();
        let at = match (self.at, self.after) {
            (Some(at), _) if at < now => return Err(ScheduleRefused::PastTime { at }),
            (_, Some(after)) if after.is_negative() => {
                return Err(ScheduleRefused::NegativeDelay);
            }
            (Some(at), _) => at,
            (None, Some(after)) => now
                .checked_add(after)
                .map_err(|_| ScheduleRefused::DelayTooLong)?,
            (None, None) => now,
        };
        let at = Timestamp::from_second(at.as_second()).unwrap_or(at);
        let channel = self.channel.as_deref().unwrap_or(&version.spec.channel);
        if channel.is_empty() {
            return Err(ScheduleRefused::NoChannel);
        }
        let mut warnings = Vec::new();
        if let Some(present) = present {
            refuse(present, version, &to)?;
            warnings.extend(replaced(present, &to));
        }
        let list = match (&self.list, present) {
            (Some(list), _) => list.clone(),
            (None, Some(present)) => present.spec.r#type.to_string(),
            (None, None) => "OSD".to_owned(),
        };
        let spec = |desired: Value| {
            json!({
                "type": list,
                "upgradeAt": at.to_string(),
                "PDBForceDrainTimeout": self.pdb_force_drain_timeout,
                "capacityReservation": self.capacity_reservation,
                "desired": desired,
            })
        };
        let wanted = spec(json!({ "version": to, "channel": channel }));
        let Some(present) = present else {
            return Ok(Scheduled {
                change: ScheduleDecision::Create(json!({
                    "apiVersion": "upgrade.managed.openshift.io/v1alpha1",
                    "kind": "UpgradeConfig",
                    "metadata": { "name": upgrade_config::NAME },
                    "spec": wanted,
                })),
                message: format!("Scheduled an upgrade to {to} at {at}\n"),
                warnings,
            });
        };
        let wanted = serde_json::from_value(wanted);
        if wanted.is_ok_and(|wanted: upgrade_config::UpgradeConfigSpec| wanted == present.spec) {
            return Ok(Scheduled {
                change: ScheduleDecision::Nothing,
                message: format!("info: The upgrade to {to} is scheduled at {at} already\n"),
                warnings,
            });
        }
        // An image that was requested before would count in the version's place.
        let desired = json!({ "version": to, "channel": channel, "image": null });
        Ok(Scheduled {
            change: ScheduleDecision::Change(json!({
                "metadata": { "resourceVersion": present.metadata.resource_version },
                "spec": spec(desired),
            })),
            message: format!("Changed the upgrade: to {to} at {at}\n"),
            warnings,
        })
    }
}

/// Decides whether an upgrade may be withdrawn; the message about it.
///
/// # Errors
/// The refusal.
pub(crate) fn cancel(
    upgrade: &UpgradeConfig,
    version: &ClusterVersion,
) -> Result<String, CancelRefused> {
    if upgrade.metadata.deletion_timestamp.is_some() {
        return Err(CancelRefused::Withdrawn);
    }
    if let Some(begun) = begun(upgrade, version) {
        let version = begun.version.clone();
        return Err(CancelRefused::Commenced { version });
    }
    let to = &upgrade.spec.desired.version;
    Ok(format!("Withdrew the upgrade to {to}\n"))
}

/// What speaks against another request.
fn refuse(
    present: &UpgradeConfig,
    version: &ClusterVersion,
    to: &str,
) -> Result<(), ScheduleRefused> {
    if present.metadata.deletion_timestamp.is_some() {
        return Err(ScheduleRefused::OtherWithdrawn);
    }
    if let Some(begun) = begun(present, version) {
        let version = begun.version.clone();
        return Err(ScheduleRefused::OtherCommenced { version });
    }
    let over = entries(present).find(|entry| entry.version == to && is_over(entry));
    match over {
        Some(over) => Err(ScheduleRefused::Over {
            version: to.to_owned(),
            phase: over.phase.clone(),
        }),
        None => Ok(()),
    }
}

/// What a request takes the place of.
fn replaced(present: &UpgradeConfig, to: &str) -> Option<String> {
    let mut open = entries(present).filter(|entry| !is_over(entry));
    let open = open.find(|entry| entry.version != to)?;
    Some(format!(
        "the upgrade to {}, which is {}, is given up",
        open.version, open.phase
    ))
}

fn entries(upgrade: &UpgradeConfig) -> impl Iterator<Item = &UpgradeHistoryEntry> {
    upgrade.status.iter().flat_map(|status| &status.history)
}

fn is_over(entry: &UpgradeHistoryEntry) -> bool {
    matches!(entry.phase, UpgradePhase::Upgraded | UpgradePhase::Failed)
}

/// The upgrade that has changed the cluster and is not done.
fn begun<'a>(
    upgrade: &'a UpgradeConfig,
    version: &ClusterVersion,
) -> Option<&'a UpgradeHistoryEntry> {
    let requested = version.spec.desired_update.as_ref();
    let is_begun = |entry: &&UpgradeHistoryEntry| {
        let condition = entry.condition(COMMENCED);
        entry.phase == UpgradePhase::Upgrading
            && (condition.is_some_and(|condition| condition.status == ConditionStatus::True)
                || requested.is_some_and(|update| update.version == entry.version))
    };
    entries(upgrade).find(is_begun)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        wish: ScheduleWish,
    }

    fn wish(arguments: &str) -> ScheduleWish {
        let arguments = ["a"].into_iter().chain(arguments.split(' '));
        Program::try_parse_from(arguments).unwrap().wish
    }

    fn version(channel: &str, requested: &str) -> ClusterVersion {
        serde_json::from_value(json!({
            "metadata": { "name": "version" },
            "spec": {
                "clusterID": "a", "channel": channel,
                "desiredUpdate": { "version": requested },
            },
        }))
        .unwrap()
    }

    fn present(phase: &str, commenced: &str) -> UpgradeConfig {
        serde_json::from_value(json!({
            "metadata": { "name": "managed-upgrade-config", "uid": "u", "resourceVersion": "7" },
            "spec": {
                "type": "ARO", "upgradeAt": "2027-01-15T08:00:00Z", "PDBForceDrainTimeout": 60,
                "desired": { "version": "4.16.4", "channel": "stable-4.16" },
            },
            "status": { "history": [{
                "version": "4.16.4", "phase": phase,
                "conditions": [{ "type": "UpgradeCommenced", "status": commenced }],
            }] },
        }))
        .unwrap()
    }

    #[test]
    fn new_upgrade_has_the_channel_of_the_cluster_and_starts_when_it_is_asked_to() {
        let cluster = version("stable-4.16", "");
        let wanted = wish("--to 4.16.4 --after 2h --capacity-reservation");
        let decided = wanted.decide(None, &cluster, NOW).unwrap();
        let ScheduleDecision::Create(object) = decided.change else {
            panic!("{decided:?}");
        };
        let expected = json!({
            "type": "OSD", "upgradeAt": "2027-01-15T10:00:00Z", "PDBForceDrainTimeout": 60,
            "capacityReservation": true,
            "desired": { "version": "4.16.4", "channel": "stable-4.16" },
        });
        assert_eq!(object["spec"], expected);
        assert_eq!(
            decided.message,
            "Scheduled an upgrade to 4.16.4 at 2027-01-15T10:00:00Z\n"
        );
        let why = wanted.decide(None, &version("", ""), NOW).unwrap_err();
        assert!(why.to_string().contains("--channel"), "{why}");
        let past = wish("--to 4.16.4 --at 2027-01-15T07:59:59Z");
        let why = past.decide(None, &cluster, NOW).unwrap_err();
        assert_eq!(why.to_string(), "--at 2027-01-15T07:59:59Z is in the past");
    }

    #[test]
    fn change_keeps_the_list_of_steps_and_is_guarded_by_the_version_that_was_read() {
        let cluster = version("stable-4.16", "");
        let pending = present("Pending", "False");
        let same = wish("--to 4.16.4").decide(Some(&pending), &cluster, NOW);
        assert_eq!(same.unwrap().change, ScheduleDecision::Nothing);
        let other = wish("--to 4.16.5 --channel fast-4.16");
        let decided = other.decide(Some(&pending), &cluster, NOW).unwrap();
        let expected = json!({
            "metadata": { "resourceVersion": "7" },
            "spec": {
                "type": "ARO", "upgradeAt": "2027-01-15T08:00:00Z", "PDBForceDrainTimeout": 60,
                "capacityReservation": false,
                "desired": { "version": "4.16.5", "channel": "fast-4.16", "image": null },
            },
        });
        assert_eq!(decided.change, ScheduleDecision::Change(expected));
        let warning = "the upgrade to 4.16.4, which is Pending, is given up";
        assert_eq!(decided.warnings, [warning]);
    }

    #[test]
    fn upgrade_that_has_changed_the_cluster_is_neither_changed_nor_withdrawn() {
        let cluster = version("stable-4.16", "");
        let commenced = present("Upgrading", "True");
        let open = present("Upgrading", "False");
        let other = wish("--to 4.16.5");
        let why = other.decide(Some(&commenced), &cluster, NOW).unwrap_err();
        let why = why.to_string();
        assert!(why.contains("4.16.4 has changed the cluster"), "{why}");
        assert!(cancel(&commenced, &cluster).is_err());
        // ClusterVersion knows it before the condition does.
        assert!(cancel(&open, &version("stable-4.16", "4.16.4")).is_err());
        assert!(cancel(&open, &cluster).is_ok());
        assert!(cancel(&present("Upgraded", "True"), &cluster).is_ok());
        let again = wish("--to 4.16.4 --after 1h");
        let failed = present("Failed", "False");
        let why = again.decide(Some(&failed), &cluster, NOW).unwrap_err();
        assert!(why.to_string().contains("is Failed already"), "{why}");
    }
}
