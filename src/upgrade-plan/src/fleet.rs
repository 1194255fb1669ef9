//! The fleet manager (OCM): which upgrade of the cluster its policies ask for, and which states it
//! takes of one.

use api::upgrade::upgrade_config::LONGEST_FORCE_DRAIN_MINUTES;
use api::upgrade::{DesiredRelease, UpgradeConfigSpec, UpgradeType};
use jiff::Timestamp;
use release::Version;
use serde::Deserialize;

use crate::notice::NoticeState;

/// Part of the address of the agent in the cluster, which has routes of its own.
const AGENT: &str = "ocm-agent.openshift-ocm-agent-operator.svc.cluster.local:8081";

/// Where the fleet manager is, and what is requested of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetSettings {
    /// Its address, without a slash at the end.
    pub base: String,
    pub routes: FleetRoutes,
    /// Steps of the upgrades that its policies ask for.
    pub upgrade_type: UpgradeType,
    /// Whether service logs are written.
    pub has_service_logs: bool,
}

/// What of the fleet manager's policies cannot be used.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A state of a policy has no meaning here.
    #[error("state {0:?} of a policy is unknown")]
    UnknownState(String),
    /// A policy is in such a state.
    #[error("policy {id}")]
    Policy { id: String, source: Box<Self> },
    /// A policy has no time of its next run.
    #[error("policy {id}: next_run {next_run:?} is no time of RFC 3339")]
    NextRun {
        id: String,
        /// What it has in its place.
        next_run: String,
    },
    /// The version of a policy is none.
    #[error("policy {id}: version: {version:?} is no semantic version")]
    Version {
        id: String,
        /// What it has in its place.
        version: String,
    },
    /// The cluster has no usable time for drains.
    #[error(
        "cluster {id}: node_drain_grace_period.value {minutes} is not between 0 and \
         {LONGEST_FORCE_DRAIN_MINUTES} minutes"
    )]
    Grace {
        /// Id of the cluster.
        id: String,
        minutes: f64,
    },
}

/// Routes of the fleet manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FleetRoutes {
    /// Those of the fleet manager itself.
    Manager,
    /// Those of the agent in the cluster, which stands for it.
    Agent,
}

impl FleetRoutes {
    /// By the address.
    pub fn of(base: &str) -> Self {
        if base.contains(AGENT) {
            Self::Agent
        } else {
            Self::Manager
        }
    }
}

/// The cluster, as the fleet manager knows it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct FleetCluster {
    pub id: String,
    #[serde(default)]
    pub version: FleetVersion,
    /// How long a drain may be held.
    #[serde(default)]
    pub node_drain_grace_period: DrainGrace,
}

/// The release of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct FleetVersion {
    /// First part of its channel.
    #[serde(default)]
    pub channel_group: String,
}

/// How long a drain may be held.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct DrainGrace {
    /// Minutes; the unit beside it is not read.
    #[serde(default)]
    pub value: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct UpgradePolicy {
    pub id: String,
    /// Version that it leads to.
    #[serde(default)]
    pub version: String,
    /// When its next run starts.
    #[serde(default)]
    pub next_run: String,
    /// Whether machines are added; only an explicit no is one.
    #[serde(default)]
    pub capacity_reservation: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PolicyState {
    pub value: String,
    #[serde(default)]
    pub description: String,
}

/// How far an upgrade is, for the fleet manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FleetState {
    /// It is not due yet.
    Pending,
    /// It waits for its time.
    Scheduled,
    Started,
    /// It is late, and goes on as soon as it can.
    Delayed,
    /// It goes on without something.
    Skipped,
    Completed,
    Failed,
    Cancelled,
}

impl FleetState {
    /// Reads the state of a policy. The fleet manager has one word for what is late and for what
    /// goes on without something; the description tells them apart.
    ///
    /// # Errors
    /// [`Error::UnknownState`].
    pub fn of(state: &PolicyState) -> Result<Self, Error> {
        Ok(match state.value.to_ascii_lowercase().as_str() {
            "pending" => Self::Pending,
            "scheduled" => Self::Scheduled,
            "started" => Self::Started,
            "delayed" if state.description.contains("retry") => Self::Delayed,
            "delayed" => Self::Skipped,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "cancelled" => Self::Cancelled,
            _ => return Err(Error::UnknownState(state.value.clone())),
        })
    }

    /// Whether a policy in this state asks for its upgrade.
    const fn is_actionable(self) -> bool {
        match self {
            Self::Scheduled | Self::Started | Self::Delayed | Self::Skipped | Self::Failed => true,
            Self::Pending | Self::Completed | Self::Cancelled => false,
        }
    }

    /// Whether an upgrade in this state may be announced to be in another one.
    pub fn takes(self, next: NoticeState) -> bool {
        use NoticeState::{
            Completed, Delayed, DrainForced, Failed, ScaleSkipped, Skipped, Started,
        };
        match self {
            Self::Scheduled => next == Started,
            Self::Started => matches!(
                next,
                ScaleSkipped | Skipped | Delayed | DrainForced | Completed | Failed
            ),
            Self::Delayed => matches!(next, Completed | Failed | Skipped | ScaleSkipped),
            Self::Skipped => matches!(next, Completed | Failed),
            Self::Pending | Self::Completed | Self::Failed | Self::Cancelled => false,
        }
    }
}

/// What an announced state is called there; none for those that are no state of a policy.
pub const fn word(state: NoticeState) -> Option<&'static str> {
    match state {
        NoticeState::Started => Some("started"),
        NoticeState::Delayed
        | NoticeState::DrainForced
        | NoticeState::ScaleSkipped
        | NoticeState::Skipped => Some("delayed"),
        NoticeState::Completed => Some("completed"),
        NoticeState::Failed => Some("failed"),
        NoticeState::ControlPlaneStarted
        | NoticeState::ControlPlaneFinished
        | NoticeState::WorkersFinished
        | NoticeState::PreHealthCheck
        | NoticeState::HealthCheck
        | NoticeState::CleanedUp => None,
    }
}

/// Policies with the time of their next run, earliest first. Those without a version ask for
/// nothing.
///
/// # Errors
/// [`Error::NextRun`].
pub fn by_time(policies: Vec<UpgradePolicy>) -> Result<Vec<(Timestamp, UpgradePolicy)>, Error> {
    let mut timed = Vec::new();
    for policy in policies
        .into_iter()
        .filter(|policy| !policy.version.is_empty())
    {
        let time = policy.next_run.parse().map_err(|_| Error::NextRun {
            id: policy.id.clone(),
            next_run: policy.next_run.clone(),
        })?;
        timed.push((time, policy));
    }
    timed.sort_by(|(one, a), (other, b)| (one, &a.id).cmp(&(other, &b.id)));
    Ok(timed)
}

/// Whether a policy in this state asks for its upgrade.
///
/// # Errors
/// [`Error::Policy`]: the state is unknown.
pub fn is_asked_for(policy: &UpgradePolicy, state: &PolicyState) -> Result<bool, Error> {
    let state = FleetState::of(state).map_err(|error| Error::Policy {
        id: policy.id.clone(),
        source: Box::new(error),
    })?;
    Ok(state.is_actionable())
}

/// The UpgradeConfig that a policy asks for.
///
/// # Errors
/// [`Error::Version`], [`Error::Grace`].
pub fn to_spec(
    policy: &UpgradePolicy,
    cluster: &FleetCluster,
    r#type: &UpgradeType,
) -> Result<UpgradeConfigSpec, Error> {
    let version: Version = policy.version.parse().map_err(|_| Error::Version {
        id: policy.id.clone(),
        version: policy.version.clone(),
    })?;
    let grace = cluster.node_drain_grace_period.value;
    if !(0.0..=f64::from(LONGEST_FORCE_DRAIN_MINUTES)).contains(&grace) {
        return Err(Error::Grace {
            id: cluster.id.clone(),
            minutes: grace,
        });
    }
    #[expect(clippy::cast_possible_truncation, reason = "its range was checked")]
    let grace = grace as i32;
    Ok(UpgradeConfigSpec {
        r#type: r#type.clone(),
        upgrade_at: policy.next_run.clone(),
        pdb_force_drain_timeout: grace,
        capacity_reservation: policy.capacity_reservation != Some(false),
        desired: DesiredRelease {
            version: policy.version.clone(),
            channel: channel(&cluster.version.channel_group, &version),
            image: String::new(),
        },
    })
}

/// Channel of a release. Those of `eus` exist for even minor versions only.
fn channel(group: &str, version: &Version) -> String {
    let group = if group.is_empty() { "stable" } else { group };
    let (major, minor) = version.minor();
    let minor = if group == "eus" && minor % 2 == 1 {
        minor + 1
    } else {
        minor
    };
    format!("{group}-{major}.{minor}")
}

/// The policy of an upgrade: version and time say which it is.
pub fn policy_of<'a>(
    policies: &'a [UpgradePolicy],
    version: &str,
    upgrade_at: &str,
) -> Option<&'a UpgradePolicy> {
    let mut policies = policies.iter();
    policies.find(|policy| policy.version == version && policy.next_run == upgrade_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(id: &str, version: &str, next_run: &str) -> UpgradePolicy {
        UpgradePolicy {
            id: id.to_owned(),
            version: version.to_owned(),
            next_run: next_run.to_owned(),
            capacity_reservation: None,
        }
    }

    fn cluster(group: &str, grace: f64) -> FleetCluster {
        FleetCluster {
            id: "c".to_owned(),
            version: FleetVersion {
                channel_group: group.to_owned(),
            },
            node_drain_grace_period: DrainGrace { value: grace },
        }
    }

    fn state(value: &str, description: &str) -> PolicyState {
        PolicyState {
            value: value.to_owned(),
            description: description.to_owned(),
        }
    }

    #[test]
    fn a_policy_becomes_an_upgrade_config_with_the_channel_of_its_group() {
        let of = |group: &str, version: &str| {
            let policy = policy("p", version, "2027-01-16T02:00:00Z");
            let spec = to_spec(&policy, &cluster(group, 60.0), &UpgradeType::Osd).unwrap();
            (spec.desired.channel, spec.capacity_reservation)
        };
        assert_eq!(of("", "4.16.4"), ("stable-4.16".to_owned(), true));
        assert_eq!(of("candidate", "4.17.0-rc.1").0, "candidate-4.17");
        assert_eq!(of("eus", "4.15.3").0, "eus-4.16");
        assert_eq!(of("eus", "4.16.3").0, "eus-4.16");
        let mut without = policy("p", "4.16.4", "2027-01-16T02:00:00Z");
        without.capacity_reservation = Some(false);
        let spec = to_spec(&without, &cluster("", 75.0), &UpgradeType::Aro).unwrap();
        assert!(!spec.capacity_reservation);
        assert_eq!(spec.pdb_force_drain_timeout, 75);
        assert_eq!(spec.r#type, UpgradeType::Aro);
        assert_eq!(spec.upgrade_at, "2027-01-16T02:00:00Z");
    }

    #[test]
    fn what_a_lying_fleet_manager_says_is_named() {
        let spec = |version: &str, grace: f64| {
            let policy = policy("p", version, "2027-01-16T02:00:00Z");
            let error = to_spec(&policy, &cluster("", grace), &UpgradeType::Osd);
            error.unwrap_err().to_string()
        };
        let expected = "policy p: version: \"latest\" is no semantic version";
        assert_eq!(spec("latest", 1.0), expected);
        for (grace, shown) in [(-1.0, "-1"), (1e9, "1000000000"), (f64::NAN, "NaN")] {
            let expected = format!(
                "cluster c: node_drain_grace_period.value {shown} is not between 0 and 527040 \
                 minutes"
            );
            assert_eq!(spec("4.16.4", grace), expected);
        }
        let error = by_time(vec![policy("p", "4.16.4", "tomorrow")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "policy p: next_run \"tomorrow\" is no time of RFC 3339"
        );
        let error = is_asked_for(&policy("p", "4.16.4", ""), &state("ready", "")).unwrap_err();
        let text = display::Chain(&error).to_string();
        assert_eq!(text, "policy p: state \"ready\" of a policy is unknown");
    }

    #[test]
    fn policies_are_asked_in_the_order_of_their_time() {
        let policies = vec![
            policy("late", "4.16.5", "2027-01-17T02:00:00Z"),
            // Another offset, and earlier.
            policy("early", "4.16.4", "2027-01-17T03:30:00+02:00"),
            policy("empty", "", "2027-01-01T00:00:00Z"),
        ];
        let timed = by_time(policies).unwrap();
        let ids: Vec<&str> = timed.iter().map(|(_, policy)| policy.id.as_str()).collect();
        assert_eq!(ids, ["early", "late"]);
        for (value, expected) in [
            ("scheduled", true),
            ("Started", true),
            ("delayed", true),
            ("failed", true),
            ("pending", false),
            ("COMPLETED", false),
            ("cancelled", false),
        ] {
            let policy = policy("p", "4.16.4", "");
            assert_eq!(
                is_asked_for(&policy, &state(value, "")),
                Ok(expected),
                "{value}"
            );
        }
    }

    #[test]
    fn states_follow_each_other_as_the_fleet_manager_takes_them() {
        use NoticeState::{Completed, Delayed, Failed, ScaleSkipped, Skipped, Started};
        let all = [Started, Delayed, ScaleSkipped, Skipped, Completed, Failed];
        let taken = |value: &str, description: &str| {
            let state = FleetState::of(&state(value, description)).unwrap();
            let taken = all.into_iter().filter(|next| state.takes(*next));
            taken.map(NoticeState::as_str).collect::<Vec<_>>()
        };
        assert_eq!(taken("scheduled", ""), ["StateStarted"]);
        let after_start = taken("started", "");
        assert!(!after_start.contains(&"StateStarted") && after_start.len() == 5);
        let late = taken("delayed", "it will retry");
        assert_eq!(
            late,
            [
                "StateScaleSkipped",
                "StateSkipped",
                "StateCompleted",
                "StateFailed"
            ]
        );
        assert_eq!(
            taken("delayed", "goes on"),
            ["StateCompleted", "StateFailed"]
        );
        for value in ["pending", "completed", "failed", "cancelled"] {
            assert!(taken(value, "").is_empty(), "{value}");
        }
        // The text that we send for a delay is read back as one.
        let text = Delayed.text("4.16.4", "etcd");
        let read = FleetState::of(&state("delayed", &text));
        assert_eq!(read, Ok(FleetState::Delayed));
        let skipped = Skipped.text("4.16.4", "quota");
        assert_eq!(
            FleetState::of(&state("delayed", &skipped)),
            Ok(FleetState::Skipped)
        );
    }

    #[test]
    fn the_agent_is_known_by_its_address() {
        let agent = "http://ocm-agent.openshift-ocm-agent-operator.svc.cluster.local:8081";
        assert_eq!(FleetRoutes::of(agent), FleetRoutes::Agent);
        assert_eq!(FleetRoutes::of("https://api.example"), FleetRoutes::Manager);
    }
}
