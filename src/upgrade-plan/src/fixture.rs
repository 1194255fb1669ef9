//! Objects of tests.

use api::config::{ClusterVersion, HistoryEntry, HistoryState, Release};
use api::upgrade::{
    DesiredRelease, UpgradeConfigSpec, UpgradeHistoryEntry, UpgradePhase, UpgradeType,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::config::OperatorConfig;

/// The time of all tests: minutes count from here.
pub const START: Timestamp = Timestamp::constant(1_800_000_000, 0);

/// So many minutes after the start.
pub fn at(minutes: i64) -> Timestamp {
    START + SignedDuration::from_mins(minutes)
}

/// A release of the ClusterVersion's history, completed at this minute.
pub fn history(version: &str, state: &str, minute: i64) -> HistoryEntry {
    HistoryEntry {
        state: HistoryState::from(state.to_owned()),
        started_time: Time(at(minute - 5)),
        completion_time: Some(Time(at(minute))),
        version: version.to_owned(),
        image: format!("q/r@sha256:{version}"),
        verified: true,
        accepted_risks: String::new(),
    }
}

/// A cluster that runs a version of stable-4.16, with two updates available.
pub fn cluster_version(running: &str) -> ClusterVersion {
    let mut version = ClusterVersion::default();
    "stable-4.16".clone_into(&mut version.spec.channel);
    "6f5d7f3e-0000-4000-8000-000000000001".clone_into(&mut version.spec.cluster_id);
    let mut status = api::config::ClusterVersionStatus::default();
    running.clone_into(&mut status.desired.version);
    status.history = vec![history(running, "Completed", -100)];
    status.available_updates = Some(vec![release("4.16.4"), release("4.16.5")]);
    version.status = Some(status);
    version
}

/// A release with an image of its own.
pub fn release(version: &str) -> Release {
    Release {
        version: version.to_owned(),
        image: format!("q/r@sha256:{version}"),
        ..Release::default()
    }
}

/// An upgrade to 4.16.4 at the start.
pub fn spec() -> UpgradeConfigSpec {
    UpgradeConfigSpec {
        r#type: UpgradeType::Osd,
        upgrade_at: START.to_string(),
        pdb_force_drain_timeout: 60,
        capacity_reservation: false,
        desired: DesiredRelease {
            version: "4.16.4".to_owned(),
            channel: "stable-4.16".to_owned(),
            image: String::new(),
        },
    }
}

/// Its entry, begun at the start.
pub fn entry(phase: UpgradePhase) -> UpgradeHistoryEntry {
    UpgradeHistoryEntry {
        version: "4.16.4".to_owned(),
        preceding_version: "4.16.3".to_owned(),
        phase,
        start_time: Some(Time(START)),
        complete_time: None,
        worker_start_time: None,
        worker_complete_time: None,
        conditions: Vec::new(),
    }
}

/// Settings with these lines and the defaults.
#[expect(clippy::unwrap_used, reason = "it is for tests")]
pub fn config(lines: &str) -> OperatorConfig {
    OperatorConfig::parse(&format!("{{nodeDrain: {{timeOut: 45}}, {lines}}}")).unwrap()
}
