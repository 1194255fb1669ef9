//! Before the turn of a node at rest: the configuration that its Node names next is fetched and
//! rehearsed. The state stays Done; nothing is drained, and nothing that boots changes.

use std::time::Duration;

use super::preparing::{join, set_out_in_service};
use super::table::{Step, prepend, stay, wait};
use super::{Command, Degraded, Facts, Idle, Origin, Phase};
use crate::plan::Target;

/// What a node may fetch before its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextTarget {
    /// Where its turn is to lead.
    pub to: Target,
    /// How long it waits first, so that the nodes of a pool do not all fetch at once.
    pub after: Duration,
}

/// How far a node at rest is with what it may fetch before its turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Ahead {
    /// The Node names nothing that does not run already.
    #[default]
    Nothing,
    /// It is fetched after a while.
    Waiting(NextTarget),
    /// It is planned, fetched and rehearsed.
    Fetching(Target),
    /// It is fetched and rehearsed.
    Fetched(Target),
    /// It could not be, and is tried again later.
    Failed {
        /// Where to.
        to: Target,
        /// Why.
        cause: String,
    },
}

impl Ahead {
    /// What is fetched, or was.
    pub const fn target(&self) -> Option<&Target> {
        match self {
            Self::Nothing => None,
            Self::Waiting(next) => Some(&next.to),
            Self::Fetching(to) | Self::Fetched(to) | Self::Failed { to, .. } => Some(to),
        }
    }

    /// Whether a command is under way.
    const fn is_fetching(&self) -> bool {
        matches!(self, Self::Fetching(_))
    }
}

impl Idle {
    /// At rest in `at`, with what the Node names next ahead of it.
    pub(super) fn begin(at: Target, facts: &Facts) -> Step {
        let next = facts.next.as_ref().filter(|next| next.to != at);
        let ahead = next.map_or(Ahead::Nothing, |next| Ahead::Waiting(next.clone()));
        wait(Phase::Idle(Self { at, ahead }))
    }

    /// The Node names something else next, or nothing any more.
    pub(super) fn look_ahead(self, facts: &Facts) -> Step {
        let next = facts.next.as_ref().map(|next| &next.to);
        if next.filter(|to| **to != self.at) == self.ahead.target() {
            return stay(Phase::Idle(self));
        }
        let is_fetching = self.ahead.is_fetching();
        stop_if(is_fetching, Self::begin(self.at, facts))
    }

    /// The wait is over.
    pub(super) fn fetch_ahead(self) -> Step {
        let to = match self.ahead {
            Ahead::Waiting(NextTarget { to, .. }) | Ahead::Failed { to, .. } => to,
            // A wait for what is not named any more.
            Ahead::Nothing | Ahead::Fetching(_) | Ahead::Fetched(_) => {
                return stay(Phase::Idle(self));
            }
        };
        let command = Command::Prefetch {
            from: self.at.clone(),
            to: to.clone(),
        };
        let ahead = Ahead::Fetching(to);
        (Phase::Idle(Self { ahead, ..self }), vec![command])
    }

    pub(super) fn fetched(self) -> Step {
        let ahead = self.ahead.target().cloned().map(Ahead::Fetched);
        let ahead = ahead.unwrap_or_default();
        stay(Phase::Idle(Self { ahead, ..self }))
    }

    pub(super) fn not_fetched(self, cause: String) -> Step {
        let to = self.ahead.target().cloned();
        let ahead = to.map(|to| Ahead::Failed { to, cause });
        let ahead = ahead.unwrap_or_default();
        wait(Phase::Idle(Self { ahead, ..self }))
    }

    pub(super) const fn is_fetching(&self) -> bool {
        self.ahead.is_fetching()
    }

    /// The node's turn. A fetch of the same target that is under way is not restarted.
    pub(super) fn leave(self, facts: &Facts) -> Step {
        let origin = Origin::Verified(self.at);
        match (self.ahead, &facts.desired) {
            (Ahead::Fetching(to), Some(desired)) if to == *desired => join(origin, to),
            (ahead, _) => stop_if(ahead.is_fetching(), set_out_in_service(origin, None, facts)),
        }
    }

    /// Changed by hand: what would be planned starts from something else.
    pub(super) fn drifted(&self, what: String) -> Step {
        stop_if(self.ahead.is_fetching(), Degraded::after(None, what, None))
    }
}

fn stop_if(is_fetching: bool, step: Step) -> Step {
    if is_fetching {
        prepend(Command::Cancel, step)
    } else {
        step
    }
}
