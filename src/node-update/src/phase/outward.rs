//! What a node shows of its phase: label, state, reason, what it waits for, how long. Nothing else
//! sets them.

use std::time::Duration;

use api::machineconfiguration::node_status::FailedIn;
use api::machineconfiguration::{NodeState, PhaseName};

use super::{Ahead, Facts, Failures, Fetch, Kind, Machine, Phase, RollBack, Verifying, Wait};

/// The longest `reason`, in characters: `docs/reference/daemon.md`, "Node annotations".
const REASON_CHARS: usize = 2000;

/// The first wait before a failed update is tried again, doubled each time:
/// `docs/reference/daemon.md`, "Retries".
pub(super) const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The wait before a fetch ahead of the node's turn is tried again: nothing waits for it.
pub(super) const AHEAD_RETRY: Duration = Duration::from_mins(30);
/// The longest such wait: `docs/reference/daemon.md`, "Retries".
const LAST_RETRY: Duration = Duration::from_mins(1);
/// The first and the longest time in service before a node is drained again after a lost drain.
/// Every attempt restarts all pods of the node.
const PAUSES: (Duration, Duration) = (Duration::from_mins(1), Duration::from_hours(1));

impl Phase {
    pub const fn name(&self) -> PhaseName {
        match self {
            Self::Starting(_) => PhaseName::Starting,
            Self::Idle(_) => PhaseName::Idle,
            Self::Fetching(_) => PhaseName::Fetching,
            Self::Draining(_) => PhaseName::Draining,
            Self::Applying(_) => PhaseName::Applying,
            Self::Rebooting(_) => PhaseName::Rebooting,
            Self::Verifying(_) => PhaseName::Verifying,
            Self::Finishing(_) => PhaseName::Finishing,
            Self::RollingBack(_) => PhaseName::RollingBack,
            Self::Held(_) => PhaseName::Held,
            Self::Degraded(_) => PhaseName::Degraded,
            Self::Unreconcilable(_) => PhaseName::Unreconcilable,
        }
    }

    /// What failed before, while an update is under way or waits for its next attempt.
    pub const fn failures(&self) -> Option<&Failures> {
        match self {
            Self::Starting(it) => it.failures.as_ref(),
            Self::Fetching(it) => it.failures.as_ref(),
            Self::Draining(it) => it.failures.as_ref(),
            Self::Applying(it) => it.failures.as_ref(),
            Self::Rebooting(it) => it.failures.as_ref(),
            Self::Verifying(it) => it.failures.as_ref(),
            Self::Finishing(it) => it.failures.as_ref(),
            Self::RollingBack(it) => it.failures.as_ref(),
            Self::Degraded(it) => Some(&it.failures),
            Self::Unreconcilable(it) => Some(&it.failures),
            Self::Idle(_) | Self::Held(_) => None,
        }
    }

    /// The `state` annotation; `None` while a daemon that has just started reads and checks its
    /// host: what stands there stays.
    fn state(&self, facts: &Facts) -> Option<NodeState> {
        let state = match self {
            Self::Starting(_) => return None,
            Self::Idle(_) => NodeState::Done,
            Self::Verifying(it) if it.is_check_at_rest(facts) => return None,
            // What it shows ends here, and a node that was only checked shows nothing new.
            Self::Finishing(it) if it.failures.is_none() => return None,
            Self::Held(_) | Self::Degraded(_) => NodeState::Degraded,
            Self::Unreconcilable(_)
            | Self::Fetching(_)
            | Self::Draining(_)
            | Self::Applying(_)
            | Self::Rebooting(_)
            | Self::Verifying(_)
            | Self::Finishing(_)
            | Self::RollingBack(_) => match self.failures().map(|failures| failures.kind) {
                Some(Kind::Rejection) => NodeState::Unreconcilable,
                Some(Kind::Failure) => NodeState::Degraded,
                None => NodeState::Working,
            },
        };
        Some(state)
    }

    /// The `reason` annotation: empty when all is well, at most 2000 characters.
    pub fn reason(&self) -> String {
        let own = match self {
            Self::Held(it) => Some(format!(
                "{} failed on this node and was rolled back: {}; it is not tried again until desiredConfig names another",
                it.target, it.cause
            )),
            Self::RollingBack(it) => Some(match &it.step {
                RollBack::Draining {
                    blocked: Some(what),
                } => format!("{}; the way back waits for pods: {what}", it.cause),
                RollBack::Draining { blocked: None }
                | RollBack::Reading
                | RollBack::Waiting
                | RollBack::Reverting => it.cause.clone(),
            }),
            Self::Fetching(it) => it.last_error.clone(),
            Self::Draining(it) => it.blocked.clone(),
            Self::Verifying(it) => it.unmet.clone(),
            Self::Starting(_)
            | Self::Idle(_)
            | Self::Applying(_)
            | Self::Rebooting(_)
            | Self::Finishing(_)
            | Self::Degraded(_)
            | Self::Unreconcilable(_) => None,
        };
        let failure = || self.failures().map(|failures| failures.cause.clone());
        let text = own.or_else(failure).unwrap_or_default();
        text.chars().take(REASON_CHARS).collect()
    }

    /// What the node waits for, for people: a line of a table.
    pub fn waits_for(&self) -> String {
        match self {
            Self::Starting(_) => "the host's state".to_owned(),
            Self::Idle(_) => String::new(),
            Self::Fetching(it) => match (&it.last_error, &it.step) {
                (Some(error), _) => format!("a retry: {error}"),
                (None, Fetch::Returning) => "uncordon".to_owned(),
                (None, Fetch::Joining) => "the fetch that began before its turn".to_owned(),
                (None, Fetch::Planning) => "the plan".to_owned(),
                (None, Fetch::Preparing(outline)) => match &outline.image {
                    Some(image) => format!("image {image} and rehearsal"),
                    None => "rehearsal".to_owned(),
                },
            },
            Self::Draining(it) => match &it.blocked {
                Some(what) => what.clone(),
                None => "pods to leave".to_owned(),
            },
            Self::Applying(it) => format!("{} to be applied", it.to.config),
            Self::Rebooting(_) => "the host to come back".to_owned(),
            Self::Verifying(it) => match &it.unmet {
                Some(what) => format!("checks: {what}"),
                None => "checks".to_owned(),
            },
            Self::Finishing(_) => "uncordon".to_owned(),
            Self::RollingBack(it) => match &it.step {
                RollBack::Draining {
                    blocked: Some(what),
                } => what.clone(),
                RollBack::Draining { blocked: None }
                | RollBack::Reading
                | RollBack::Waiting
                | RollBack::Reverting => "the way back".to_owned(),
            },
            Self::Held(_) | Self::Unreconcilable(_) => "another desiredConfig".to_owned(),
            Self::Degraded(it) => format!("a retry (after try {})", it.failures.tries),
        }
    }

    /// How long the phase waits before it sends `Retry`, where it does: in Held, once an uncordon
    /// failed.
    pub fn delay(&self) -> Option<Duration> {
        match self {
            Self::Degraded(it) => Some(match it.wait {
                Wait::Retry => retry_after(it.failures.tries),
                Wait::InService => doubled(PAUSES, it.failures.drains.count()),
                Wait::Uncordon => LAST_RETRY,
            }),
            Self::Unreconcilable(it) => Some(retry_after(it.failures.tries)),
            Self::Held(_) => Some(LAST_RETRY),
            Self::Idle(it) => match &it.ahead {
                Ahead::Waiting(next) => Some(next.after),
                Ahead::Failed { .. } => Some(AHEAD_RETRY),
                Ahead::Nothing | Ahead::Fetching(_) | Ahead::Fetched(_) => None,
            },
            Self::RollingBack(it) => (it.step == RollBack::Waiting).then_some(LAST_RETRY),
            Self::Starting(_)
            | Self::Fetching(_)
            | Self::Draining(_)
            | Self::Applying(_)
            | Self::Rebooting(_)
            | Self::Verifying(_)
            | Self::Finishing(_) => None,
        }
    }
}

impl Verifying {
    /// Whether a daemon that has just started checks a node in service: nothing is under way.
    fn is_check_at_rest(&self, facts: &Facts) -> bool {
        facts.current.is_none() && facts.wants(&self.to)
    }
}

impl Machine {
    /// The `state` annotation; `None` where what stands there stays: before the host was read and
    /// checked.
    pub fn state(&self) -> Option<NodeState> {
        self.phase.state(&self.facts)
    }

    /// What failed, and in which phase: beside a `state` that says so.
    pub fn failed_in(&self) -> Option<FailedIn> {
        let has_failed = self.state().is_some_and(NodeState::is_failed);
        self.phase.failed_in().filter(|_| has_failed)
    }
}

fn retry_after(tries: u32) -> Duration {
    doubled((FIRST_RETRY, LAST_RETRY), tries)
}

/// The first wait at the first try, doubled with each further one, up to the longest.
fn doubled((first, longest): (Duration, Duration), tries: u32) -> Duration {
    let doublings = tries.saturating_sub(1).min(16);
    first.saturating_mul(1 << doublings).min(longest)
}
