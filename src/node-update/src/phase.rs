//! The node's state machine: one `match (phase, event)`, drawn in `docs/state-machine.md`.
//!
//! A phase holds all that is known of the update under way. Beside it are the [`Facts`], all
//! inputs. The machine takes events and returns commands; it runs none. Everything a node shows
//! outwardly (state, reason, what it waits for, how long) is a function of the phase: [`outward`].
//!
//! - [`table`]: the `match`
//! - [`starting`], [`preparing`], [`changing`], [`judging`], [`resting`]: the transitions that need
//!   more than a line
//! - [`ahead`]: those of a node at rest, by what it fetches before its turn
//! - [`entry`]: how each phase is entered
//! - [`state`]: the phases' data
//! - [`step`]: a transition
//! - [`failures`]: what failed on the way

use crate::plan::Target;
use api::machineconfiguration::PhaseName;

mod ahead;
mod changing;
mod command;
mod entry;
mod event;
mod failures;
mod judging;
pub mod outward;
mod preparing;
mod resting;
mod starting;
mod state;
mod step;
mod table;
#[cfg(test)]
mod tests;

pub use command::Command;
pub use event::{Event, NextTarget, Observation, OpenJournal, Outline, Stage};
pub use failures::{Failures, Kind, LostDrains};
pub use state::{
    Ahead, Applying, Degraded, Draining, Fetch, Fetching, Finishing, Held, Idle, Rebooting,
    RollBack, RollingBack, Starting, Unreconcilable, Verifying, Wait,
};

/// Where the node is between two targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The host is read: booted deployment, journal.
    Starting(Starting),
    /// The desired target is verified and the node in service.
    Idle(Idle),
    /// The plan is made, the image fetched and the deployment rehearsed, while the node is in
    /// service.
    Fetching(Fetching),
    /// Cordoned; pods are evicted.
    Draining(Draining),
    /// The stored plan is executed or reverted.
    Applying(Applying),
    /// The boot loader names the target; the host goes down.
    Rebooting(Rebooting),
    /// The host is checked against the target's expectations.
    Verifying(Verifying),
    /// Verified; the node returns to service.
    Finishing(Finishing),
    /// The target failed; the host returns to the origin.
    RollingBack(RollingBack),
    /// In the origin and in service; the target that failed is not tried again.
    Held(Held),
    /// An attempt failed, or an administrator works on the host; it is tried again. The host is
    /// read then for what is left to do.
    Degraded(Degraded),
    /// The target is rejected; nothing was changed.
    Unreconcilable(Unreconcilable),
}

/// The inputs that outlast a phase.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The newest target that the Node named. There is no queue: only this one counts.
    pub desired: Option<Target>,
    /// The last target that was verified on the host, by this process; nothing before the first.
    pub current: Option<Target>,
    /// What the Node says it may fetch before its turn; nothing if the Node does not say.
    pub next: Option<NextTarget>,
}

impl Facts {
    /// Whether `target` is desired. Without a target the host stays what it is.
    fn wants(&self, target: &Target) -> bool {
        self.desired
            .as_ref()
            .is_none_or(|desired| desired == target)
    }
}

/// What runs on the host: an update starts from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Verified since the host was last read.
    Verified(Target),
    /// Named by the host's record, and not verified since it was read.
    Read(Target),
}

impl Origin {
    /// The target, verified or not.
    pub const fn target(&self) -> &Target {
        match self {
            Self::Verified(target) | Self::Read(target) => target,
        }
    }
}

/// An event that cannot happen in a phase: a fault of the program, never of the input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {event} cannot happen in phase {phase}")]
pub struct Unexpected {
    pub phase: PhaseName,
    pub event: String,
}

impl Unexpected {
    fn of(phase: &Phase, event: &Event) -> Self {
        Self {
            phase: phase.name(),
            event: format!("{event:?}"),
        }
    }
}

/// A node's phase and facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    facts: Facts,
    phase: Phase,
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// A daemon that has just started. Its first command is [`Command::Observe`].
    pub const fn new() -> Self {
        Self {
            facts: Facts {
                desired: None,
                current: None,
                next: None,
            },
            phase: Phase::Starting(Starting {
                is_released: false,
                failures: None,
            }),
        }
    }

    /// The phase the node is in.
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// What was verified on the running host.
    pub const fn current(&self) -> Option<&Target> {
        self.facts.current.as_ref()
    }

    pub const fn desired(&self) -> Option<&Target> {
        self.facts.desired.as_ref()
    }

    /// Takes an event and returns what to do.
    ///
    /// # Errors
    /// [`Unexpected`] for a pair that cannot be; the machine is unchanged then.
    pub fn step(&mut self, event: Event) -> Result<Vec<Command>, Unexpected> {
        let mut facts = self.facts.clone();
        match (&self.phase, &event) {
            (_, Event::Desired(target)) if facts.desired.as_ref() == Some(target) => {
                return Ok(vec![]);
            }
            (_, Event::Desired(target)) => facts.desired = Some(target.clone()),
            (_, Event::Next(next)) => facts.next.clone_from(next),
            (Phase::Verifying(verifying), Event::Verified) => {
                facts.current = Some(verifying.to.clone());
            }
            _ => {}
        }
        let (phase, commands) = table::next(self.phase.clone(), event, &facts)?;
        *self = Self { facts, phase };
        Ok(commands)
    }
}
