//! What failed on the way to the desired target.

use api::machineconfiguration::PhaseName;
use api::machineconfiguration::node_status::FailedIn;

use super::Phase;
use crate::plan::Target;

/// Failures since the node was in order, or since it got another target. The last one stays visible
/// while the next attempt runs, so that a retry does not flap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures {
    /// The newest cause, for people.
    pub cause: String,
    pub kind: Kind,
    /// The phase and the target in which it failed; none where no target was under way.
    pub failed_in: Option<FailedIn>,
    /// How many there were; at least one.
    pub tries: u32,
    /// Drains that led to nothing.
    pub drains: LostDrains,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Failure,
    Rejection,
}

/// Drains after which the update failed. Each restarts all pods of the node, so the node stays in
/// service for a while before the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LostDrains {
    /// No drain was lost.
    #[default]
    None,
    /// Once the node is in its old state again, it has to stay in service.
    PauseDue {
        /// How many drains were lost.
        count: u32,
    },
    /// The node stays in service, or has stayed, for the last of them.
    Paused {
        /// How many drains were lost.
        count: u32,
    },
}

impl Failures {
    /// One more failure.
    pub(super) fn add(
        before: Option<Self>,
        cause: String,
        kind: Kind,
        failed_in: Option<FailedIn>,
    ) -> Self {
        let (tries, drains) = before.map_or((0, LostDrains::None), |before| {
            (before.tries, before.drains)
        });
        Self {
            cause,
            kind,
            failed_in,
            tries: tries.saturating_add(1),
            drains,
        }
    }

    /// The newest failure came after a drain.
    pub(super) const fn lose_drain(&mut self) {
        self.drains = LostDrains::PauseDue {
            count: self.drains.count().saturating_add(1),
        };
    }

    /// Begins the pause, where one is due.
    pub(super) const fn begin_pause(&mut self) -> bool {
        let LostDrains::PauseDue { count } = self.drains else {
            return false;
        };
        self.drains = LostDrains::Paused { count };
        true
    }

    /// The pause did not begin: the node is still cordoned.
    pub(super) const fn owe_pause(&mut self) {
        self.drains = LostDrains::PauseDue {
            count: self.drains.count(),
        };
    }
}

/// A failure on the way to `to`.
pub(super) fn failed_in(phase: PhaseName, to: &Target) -> FailedIn {
    FailedIn {
        phase,
        target: to.clone(),
    }
}

impl LostDrains {
    pub const fn count(self) -> u32 {
        match self {
            Self::None => 0,
            Self::PauseDue { count } | Self::Paused { count } => count,
        }
    }
}

impl Phase {
    /// The failure that is shown: the newest, or that of a target that was rolled back.
    pub(super) fn failed_in(&self) -> Option<FailedIn> {
        match self {
            Self::Held(it) => Some(failed_in(PhaseName::Held, &it.target)),
            Self::Starting(_)
            | Self::Idle(_)
            | Self::Fetching(_)
            | Self::Draining(_)
            | Self::Applying(_)
            | Self::Rebooting(_)
            | Self::Verifying(_)
            | Self::Finishing(_)
            | Self::RollingBack(_)
            | Self::Degraded(_)
            | Self::Unreconcilable(_) => self.failures()?.failed_in.clone(),
        }
    }

    /// Whether the work under way ends before another target is taken up.
    pub(super) const fn ends_first(&self) -> bool {
        matches!(
            self,
            Self::Starting(_)
                | Self::Applying(_)
                | Self::Rebooting(_)
                | Self::Verifying(_)
                | Self::Finishing(_)
                | Self::RollingBack(_)
        )
    }

    /// The phase with another target desired, which has no failures yet.
    pub(super) fn without_failures(mut self) -> Self {
        match &mut self {
            Self::Starting(it) => it.failures = None,
            Self::Fetching(it) => it.failures = None,
            Self::Draining(it) => it.failures = None,
            Self::Applying(it) => it.failures = None,
            Self::Rebooting(it) => it.failures = None,
            Self::Verifying(it) => it.failures = None,
            Self::Finishing(it) => it.failures = None,
            Self::RollingBack(it) => it.failures = None,
            // Without failures they would not be; another target leaves them.
            Self::Idle(_) | Self::Held(_) | Self::Degraded(_) | Self::Unreconcilable(_) => {}
        }
        self
    }
}
