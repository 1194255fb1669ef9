//! Before the turn of a node at rest: the configuration that its Node names next is fetched and
//! rehearsed. The state stays Done; nothing is drained, and nothing that boots changes.

use super::entry::{join, set_out_in_service};
use super::step::{Step, prepend, stay, wait};
use super::{Ahead, Command, Degraded, Facts, Idle, NextTarget, Origin, Phase};

impl Idle {
    /// The Node names something else next, or nothing any more.
    pub(super) fn look_ahead(self, facts: &Facts) -> Step {
        let next = facts.next.as_ref().map(|next| &next.to);
        if next.filter(|to| **to != self.at) == self.ahead.target() {
            return stay(Phase::Idle(self));
        }
        let is_fetching = self.ahead.is_fetching();
        stop_if(is_fetching, Self::begin(self.at, facts))
    }

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
