//! What forbids a step, each by object and field.

use std::fmt;

use api::config::control_plane_only::CONTROL_PLANE_ONLY;
use api::machineconfiguration::label::REQUIRED_FOR_UPGRADE;
use jiff::Timestamp;
use pool::kubelet_skew::KubeletSkew;
use release::Version;

/// One thing that forbids a step. Each sentence is whole: none has a source.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CpoObstacle {
    #[error("ClusterVersion version: {why}; --control-plane-only --clear removes it")]
    Record { why: String },
    #[error(
        "ClusterVersion version: annotation {CONTROL_PLANE_ONLY}: an update to {to} is under way \
         since {since}{}; go on with that one, or end it by --control-plane-only --clear",
        requester(.by)
    )]
    AnotherRecord {
        to: String,
        since: Timestamp,
        by: String,
    },
    #[error("ClusterVersion version: status.history is empty")]
    NoHistory,
    #[error("ClusterVersion version: status.history[0].version: {why}")]
    HeadVersion { why: String },
    #[error("API server: version {version:?} is no version of Kubernetes")]
    ApiServer { version: String },
    #[error(
        "{to} is one minor release after {from}: that is an ordinary update, `slipway upgrade --to {to}`"
    )]
    OneMinor { from: Version, to: Version },
    #[error("{to} is not two minor releases after {from}")]
    NotTwoMinors { from: Version, to: Version },
    #[error("--through {through} is not of the minor release between {from} and {to}")]
    NotBetween {
        from: Version,
        through: Version,
        to: Version,
    },
    #[error("ClusterVersion version: condition {kind} is {status}: {reason}: {message}")]
    VersionCondition {
        kind: &'static str,
        status: String,
        reason: String,
        message: String,
    },
    #[error("ClusterVersion version: there is no condition {kind}")]
    NoCondition { kind: &'static str },
    #[error("ClusterVersion version: spec.desiredUpdate.version: {version} is requested")]
    Requested { version: String },
    #[error(
        "ClusterVersion version: status.history[0]: {version} is applied, which is not on the way \
         from {from} to {to}"
    )]
    OffPath {
        version: Version,
        from: String,
        to: String,
    },
    #[error("ClusterVersion version: status.history[0]: the update to {version} is not completed")]
    UnderWay { version: Version },
    #[error(
        "ClusterVersion version: spec.channel is empty: no graph says by which release {to} is \
         reached; set a channel, or name one by --through"
    )]
    NoChannel { to: Version },
    #[error(
        "channel {channel}: it does not hold {to}; `slipway upgrade channel` sets one that does"
    )]
    NotInChannel { channel: String, to: Version },
    #[error(
        "ClusterVersion version: status.availableUpdates: no release of {major}.{minor} is offered{}",
        cautions(.conditional)
    )]
    NoFirstHop {
        major: u64,
        minor: u64,
        conditional: Vec<String>,
    },
    #[error("ClusterVersion version: status.availableUpdates: {version} is not offered: {why}")]
    NotOffered { version: Version, why: String },
    #[error(
        "channel {channel}: no release of {offered} leads to {to}{}",
        cautions(.conditional)
    )]
    NoSecondHop {
        channel: String,
        offered: String,
        to: Version,
        conditional: Vec<String>,
    },
    #[error("MachineConfigPool {pool}: condition {kind} is {status}: {reason}: {message}")]
    PoolCondition {
        pool: String,
        kind: String,
        status: String,
        reason: String,
        message: String,
    },
    #[error("MachineConfigPool {pool}: {updated} of {total} nodes are updated: {message}")]
    PoolUpdating {
        pool: String,
        updated: i32,
        total: i32,
        message: String,
    },
    #[error("MachineConfigPool {pool}: status: {why}")]
    PoolStatus { pool: String, why: String },
    #[error(
        "MachineConfigPool {pool}: spec.paused is true: nodes of the control plane must be updated \
         with each hop"
    )]
    ControlPlanePaused { pool: String },
    #[error(
        "MachineConfigPool {pool}: label {REQUIRED_FOR_UPGRADE}: each release waits for the pool, \
         so it cannot be paused"
    )]
    Required { pool: String },
    #[error(
        "MachineConfigPool {pool}: status.certExpirys: {bundle} {}; an update of two releases may \
         keep the pool paused for {days} days",
        expires(.expiry.as_ref())
    )]
    Certificates {
        pool: String,
        bundle: String,
        /// When the last certificate expires; none where no time is there.
        expiry: Option<Timestamp>,
        days: i64,
    },
    #[error("Nodes: status.nodeInfo.kubeletVersion: at the end of hop {hop} {skew}")]
    Kubelets { hop: u8, skew: KubeletSkew },
}

/// All that forbids a step.
#[derive(Debug)]
pub(crate) struct Obstacles(pub(crate) Vec<CpoObstacle>);

impl fmt::Display for Obstacles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the control plane cannot be updated alone:")?;
        self.0
            .iter()
            .try_for_each(|obstacle| write!(f, "\n  * {obstacle}"))
    }
}

impl std::error::Error for Obstacles {}

impl From<CpoObstacle> for Obstacles {
    fn from(obstacle: CpoObstacle) -> Self {
        Self(vec![obstacle])
    }
}

fn requester(user: &str) -> String {
    if user.is_empty() {
        String::new()
    } else {
        format!(", by {user}")
    }
}

/// Updates that are there, and not recommended.
fn cautions(found: &[String]) -> String {
    if found.is_empty() {
        String::new()
    } else {
        format!(
            "; not recommended, and taken by --allow-not-recommended: {}",
            found.join(", ")
        )
    }
}

fn expires(expiry: Option<&Timestamp>) -> String {
    match expiry {
        Some(expiry) => format!("expires at {expiry:.0}"),
        None => "has no time at which it expires".to_owned(),
    }
}
