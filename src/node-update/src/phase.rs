//! The node's state machine: one `match (phase, event)`, drawn in `docs/state-machine.md`.
//!
//! The machine holds what the daemon knows of its node, takes events, and returns commands; it runs none. Everything the node shows
//! outwardly (state, reason, what it waits for) is a function of it.

use std::fmt;

use crate::plan::Target;

mod command;
mod event;
pub mod outward;
mod table;
#[cfg(test)]
mod tests;

pub use command::Command;
pub use event::{Event, Journal, Observation, Outline, Stage};

/// Where the node is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The host is being read: booted deployment, journal, annotations.
    Starting,
    /// Verified in `current`; nothing to do.
    Idle,
    /// The plan is made, the image pulled and the deployment rehearsed, while the node works.
    Fetching {
        /// Where it goes.
        to: Target,
        /// The last error, while it is being retried.
        last_error: Option<String>,
        /// The plan's outline, once it is made.
        outline: Option<Outline>,
    },
    /// Cordoned; pods are being evicted.
    Draining {
        /// Where it goes.
        to: Target,
        /// What refuses to go, for people: pod and budget.
        blocked: Option<String>,
    },
    /// The stored plan is being executed or finished.
    Applying {
        /// Where it goes.
        to: Target,
    },
    /// The boot loader names the target; the host goes down.
    Rebooting {
        /// Where it goes.
        to: Target,
        /// The boot that ends. A different one means the host is back.
        boot_id: String,
    },
    /// The host is checked against the target's expectations.
    Verifying {
        /// What it is checked against.
        to: Target,
        /// What does not hold yet, for people.
        unmet: Option<String>,
    },
    /// Verified; the node is given back.
    Finishing {
        /// What it reached.
        to: Target,
    },
    /// The target failed; the host goes back to `current`.
    RollingBack {
        /// What failed.
        target: Target,
        /// Why.
        cause: String,
        /// What refuses to go before it reboots, for people: pod and budget.
        blocked: Option<String>,
    },
    /// Back in `current` and in service; the target is not tried again.
    Held {
        /// What failed.
        target: Target,
        /// Why.
        cause: String,
    },
    /// Something broke, or a person is at work on the host; it is tried again. What is left to do or undo is read from the host then.
    Degraded {
        /// Why.
        cause: String,
        /// How often it was tried.
        tries: u32,
    },
    /// The target is refused; nothing was touched.
    Unreconcilable {
        /// What is refused.
        target: Target,
        /// Why, one sentence each.
        reasons: Vec<String>,
    },
}

/// An event that cannot happen in a phase: a fault of the program, never of the input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {event} cannot happen in phase {phase}")]
pub struct Unexpected {
    /// Name of the phase.
    pub phase: &'static str,
    /// The event, in full.
    pub event: String,
}

/// What the daemon knows of its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// What was verified on the running host; nothing before the first proof.
    current: Option<Target>,
    /// What the running host's record names; nothing before it was read.
    at: Option<Target>,
    /// The newest target. There is no queue: only this one counts.
    desired: Option<Target>,
    /// Failed tries since the node last was well or got another target, and the last cause: it stays visible until the node is well.
    trouble: Option<Trouble>,
    /// An administrator let go what is held, before the host was read.
    released: bool,
    /// Whether the newest plan drains the node, and no failure was counted for that.
    drains: bool,
    /// Whether `current` was proved before the host was last read, and not since: it is to be left.
    is_unproved: bool,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Trouble {
    cause: String,
    tries: u32,
    refused: bool,
    /// How often pods left for nothing: failures after a drain.
    drained: u32,
    /// Whether the next try waits in service for the last of them.
    pauses: bool,
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
            current: None,
            at: None,
            desired: None,
            trouble: None,
            released: false,
            drains: false,
            is_unproved: false,
            phase: Phase::Starting,
        }
    }

    /// The phase the node is in.
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// What was verified on the running host.
    pub const fn current(&self) -> Option<&Target> {
        self.current.as_ref()
    }

    /// The newest target.
    pub const fn desired(&self) -> Option<&Target> {
        self.desired.as_ref()
    }

    /// Takes an event and returns what to do.
    ///
    /// # Errors
    /// [`Unexpected`] for a pair that cannot be; the machine is unchanged then.
    pub fn step(&mut self, event: Event) -> Result<Vec<Command>, Unexpected> {
        let mut next = self.clone();
        let (phase, commands) = next.decide(event)?;
        next.phase = phase;
        *self = next;
        Ok(commands)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.image {
            Some(image) => write!(f, "{} / Image: {image}", self.config),
            None => f.write_str(&self.config),
        }
    }
}
