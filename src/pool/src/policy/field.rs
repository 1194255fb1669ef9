//! The value of a field, or why the policy cannot be followed.

use api::IntOrString;
use jiff::SignedDuration;

use super::Amount;
use crate::selector::InvalidRequirement;

/// Why a policy cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {fault}")]
pub struct InvalidPolicy {
    /// Path of the field.
    pub field: String,
    /// What is wrong with its value.
    pub fault: PolicyFault,
}

/// What is wrong with the value of a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFault {
    /// A number that counts no nodes.
    #[error("{0} is not a number of nodes")]
    NoNodes(i64),
    /// A number that counts no canaries.
    #[error("{0} is not a number of canaries")]
    NoCanaries(i64),
    /// A text that is no share.
    #[error("{0:?} is neither a number nor a percentage from \"0%\" to \"100%\"")]
    NoAmount(String),
    /// A text that is no duration.
    #[error("{0:?} is no duration such as 30m or 1h30m")]
    NoDuration(String),
    /// A text that is no time.
    #[error("{0:?} is no time such as 2026-01-31T22:00:00Z")]
    NoTime(String),
    /// A text that is no order.
    #[error("{0:?} is none of zone, oldest, newest, fewestBlockedPods and label:<key>")]
    NoOrder(String),
    /// A value that is no number of bytes.
    #[error("{0} is no quantity of bytes such as 20M or 16Mi")]
    NoBytes(IntOrString),
    /// A limit that no registry bears.
    #[error("{0} is less than 64Ki, below which registries disconnect")]
    TooSlow(IntOrString),
    /// A name that is needed once.
    #[error("{0:?} is empty or stands twice")]
    Name(String),
    /// Canaries by number and by labels.
    #[error("it is set together with spec.canaries.nodeSelector")]
    CountAndSelector,
    /// A selector that cannot be read.
    #[error(transparent)]
    Selector(#[from] InvalidRequirement),
    /// Canaries that are the whole pool.
    #[error("it selects all nodes; a canary needs others that follow")]
    AllAreCanaries,
    #[error("a wave has at least one node")]
    EmptyWave,
    /// A limit under which no node pulls.
    #[error("at least one node pulls at a time")]
    NoPulls,
    /// Queries between steps, without steps.
    #[error("it needs canaries or waves that the others follow")]
    NoSteps,
    /// A text that must say something.
    #[error("it is empty")]
    Empty,
    /// No time for a drain.
    #[error("a drain takes some time; it must be more than 0")]
    NoDrainTime,
    /// What the parser of windows says of one of its members.
    #[error("{0}")]
    Window(String),
}

impl Amount {
    pub(super) fn parse(amount: &IntOrString) -> Result<Self, PolicyFault> {
        match amount {
            IntOrString::Int(number) => usize::try_from(*number)
                .map(Self::Nodes)
                .map_err(|_| PolicyFault::NoNodes(*number)),
            IntOrString::String(text) => {
                let percent = text.strip_suffix('%').and_then(|text| text.parse().ok());
                let percent = percent.filter(|percent| *percent <= 100);
                let percent = percent.map(Self::Percent);
                percent.ok_or_else(|| PolicyFault::NoAmount(text.clone()))
            }
        }
    }
}

/// A duration as Kubernetes writes it.
pub(super) fn duration(text: &str) -> Result<SignedDuration, PolicyFault> {
    let parsed: Option<SignedDuration> = text.parse().ok();
    parsed
        .filter(|duration| !duration.is_negative())
        .ok_or_else(|| PolicyFault::NoDuration(text.to_owned()))
}
