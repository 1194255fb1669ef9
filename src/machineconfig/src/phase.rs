//! The node's state machine: one `match (phase, event)`, drawn in `docs/state-machine.md`.
//!
//! The machine holds what the daemon knows of its node, takes events, and returns commands; it runs none. Everything the node shows
//! outwardly (state, reason, what it waits for) is a function of it.

use std::fmt;
use std::time::Duration;

use crate::plan::{Route, Target};

pub mod outward;
#[cfg(test)]
mod tests;

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
    },
    /// Back in `current` and in service; the target is not tried again.
    Held {
        /// What failed.
        target: Target,
        /// Why.
        cause: String,
    },
    /// Something broke; it is tried again. The host is in its old state.
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

/// What of a plan the machine needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outline {
    /// Live or through a reboot.
    pub route: Route,
    /// Whether pods must leave first.
    pub drain: bool,
}

/// What the journal on the host says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// The stored plan's target.
    pub to: Target,
    /// How far it came.
    pub stage: Stage,
}

/// How far a stored plan came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// Started; the boot loader still names the origin, or the route is live.
    Applying,
    /// The boot loader names the target, since this boot.
    Switched {
        /// Boot in which it was switched.
        boot_id: String,
    },
    /// The target booted and is being proved on the host.
    Booted,
    /// The boot loader names the origin again; a reboot completes the way back.
    RollingBack {
        /// Why.
        cause: String,
    },
}

/// What was read on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The booted deployment's record.
    pub at: Target,
    /// This boot.
    pub boot_id: String,
    /// The stored plan, if one is open.
    pub journal: Option<Journal>,
    /// The target that failed here and is not to be tried again, with the cause.
    pub held: Option<(Target, String)>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The node's turn: `desiredConfig` (and image) as read from the Node.
    Desired(Target),
    /// The host was read.
    Observed(Observation),
    /// The plan was made and stored.
    Planned(Outline),
    /// The target is refused: by the plan, the image or the rehearsal. Nothing was touched.
    Refused(Vec<String>),
    /// Image present, deployment rehearsed.
    Prepared,
    /// An attempt to prepare failed and goes on being retried.
    StillTrying(String),
    /// A pod or budget refuses.
    Blocked(String),
    /// Every pod that has to leave is gone.
    Drained,
    /// The stored plan is through and the boot loader switched.
    Switched {
        /// The boot in which it was.
        boot_id: String,
    },
    /// The stored plan is through on the running system.
    Applied,
    /// What was begun is undone: the host is in `current` again, in this boot.
    TakenBack,
    /// Checks do not hold yet.
    Unmet(String),
    /// The running host was verified against the target.
    Proved,
    /// The host found the target bad and goes back.
    Disproved(String),
    /// The node is in service again.
    GivenBack,
    /// The command under way failed; the host is in its old state or its journal says otherwise.
    Failed(String),
    /// It is time to try again.
    Retry,
    /// An administrator wants a held target tried again.
    Release,
}

/// What to do. Each is answered by one of the events named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Read the host. → `Observed`, `Failed`
    Observe,
    /// Stop the plan, fetch or drain under way and forget its answer.
    Cancel,
    /// Read both configurations, judge, plan, store. → `Planned`, `Refused`, `Failed`
    Plan {
        /// Where from.
        from: Target,
        /// Where to.
        to: Target,
    },
    /// Fetch and rehearse the stored plan. → `Prepared`, `Refused`, `StillTrying`, `Failed`
    Prepare,
    /// Cordon, then evict. → `Drained`, `Blocked`, `Failed`
    Drain,
    /// Execute the stored plan, or finish it. → `Switched`, `Applied`, `Failed`
    Apply,
    /// Reboot by logind. → `Failed`, or the end of this process
    Reboot,
    /// Undo the stored plan; after the switch, switch back. → `TakenBack`, `Failed`
    TakeBack,
    /// Check the running host. → `Proved`, `Unmet`, `Disproved`, `Failed`
    Prove {
        /// Against what.
        to: Target,
    },
    /// Uncordon if the cordon is ours. → `GivenBack`, `Failed`
    GiveBack,
    /// The same, while another command answers.
    Uncordon,
    /// Forget that a target failed.
    Forget,
    /// Send `Retry` after this time.
    RetryAfter(Duration),
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

/// The first wait before a failed update is tried again, doubled each time: `daemon.md` 2.2.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest such wait: `daemon.md` 2.2.
const LAST_RETRY: Duration = Duration::from_mins(1);

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
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Trouble {
    cause: String,
    tries: u32,
    refused: bool,
}

type Step = (Phase, Vec<Command>);

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

    #[expect(
        clippy::too_many_lines,
        clippy::match_same_arms,
        reason = "one table, in the order of the drawing"
    )]
    fn decide(&mut self, event: Event) -> Result<Step, Unexpected> {
        use {Event as E, Phase as P};
        if let E::Desired(target) = &event {
            if self.desired.as_ref() == Some(target) {
                return Ok((self.phase.clone(), vec![]));
            }
            self.desired = Some(target.clone());
            self.trouble = None;
        }
        let step = match (self.phase.clone(), event) {
            (P::Starting, E::Observed(seen)) => self.resume(seen),
            // The host is read first; the newest target is remembered.
            (P::Starting, E::Desired(_)) => (P::Starting, vec![]),

            (P::Idle, E::Desired(_)) => self.head_for_desired(),

            (P::Fetching { to, .. }, E::Planned(outline)) => {
                let mut commands = vec![];
                if !outline.drain {
                    // An earlier target may have begun to drain.
                    commands.push(Command::Uncordon);
                }
                commands.push(Command::Prepare);
                (
                    P::Fetching {
                        to,
                        last_error: None,
                        outline: Some(outline),
                    },
                    commands,
                )
            }
            (P::Fetching { to, outline, .. }, E::StillTrying(error)) => (
                P::Fetching {
                    to,
                    last_error: Some(error),
                    outline,
                },
                vec![],
            ),
            (
                P::Fetching {
                    to,
                    outline: Some(outline),
                    ..
                },
                E::Prepared,
            ) => {
                if outline.drain {
                    (P::Draining { to, blocked: None }, vec![Command::Drain])
                } else {
                    (P::Applying { to }, vec![Command::Apply])
                }
            }
            (P::Fetching { to, .. }, E::Refused(reasons)) => self.refuse(to, reasons),
            (P::Fetching { .. } | P::Draining { .. }, E::Desired(_)) => {
                let (phase, mut commands) = self.head_for_desired();
                commands.insert(0, Command::Cancel);
                (phase, commands)
            }

            (P::Draining { to, .. }, E::Blocked(what)) => (
                P::Draining {
                    to,
                    blocked: Some(what),
                },
                vec![],
            ),
            (P::Draining { to, .. }, E::Drained) => (P::Applying { to }, vec![Command::Apply]),
            // The host is untouched: it may serve while it waits for the next try.
            (P::Fetching { .. } | P::Draining { .. }, E::Failed(cause)) => {
                self.degrade(cause, &[Command::Uncordon])
            }

            // The stored plan goes on to the switch; what it led to is decided then.
            (phase @ P::Applying { .. }, E::Desired(_)) => (phase, vec![]),
            (P::Applying { to }, E::Switched { boot_id }) => {
                if self.wants(&to) {
                    (P::Rebooting { to, boot_id }, vec![Command::Reboot])
                } else {
                    (P::Applying { to }, vec![Command::TakeBack])
                }
            }
            (P::Applying { to }, E::Applied) => {
                self.at = Some(to.clone());
                (
                    P::Verifying {
                        to: to.clone(),
                        unmet: None,
                    },
                    vec![Command::Prove { to }],
                )
            }
            (P::Applying { .. }, E::TakenBack) => self.head_for_desired(),

            (phase @ (P::Rebooting { .. } | P::Verifying { .. }), E::Desired(_)) => (phase, vec![]),
            (P::Rebooting { to, .. }, E::Failed(cause)) => (
                P::RollingBack { target: to, cause },
                vec![Command::TakeBack],
            ),

            (P::Verifying { to, .. }, E::Unmet(what)) => (
                P::Verifying {
                    to,
                    unmet: Some(what),
                },
                vec![],
            ),
            (P::Verifying { to, .. }, E::Proved) => {
                self.current = Some(to.clone());
                if self.wants(&to) {
                    (P::Finishing { to }, vec![Command::GiveBack])
                } else {
                    let (phase, mut commands) = self.head_for_desired();
                    if self.trouble.is_some() {
                        // Proved in its old state after a failure: it may serve until the next drain.
                        commands.insert(0, Command::Uncordon);
                    }
                    (phase, commands)
                }
            }
            (P::Verifying { to, .. }, E::Disproved(cause)) => {
                (P::RollingBack { target: to, cause }, vec![Command::Observe])
            }

            // Giving back is short; the newest target is taken up right after it.
            (phase @ P::Finishing { .. }, E::Desired(_)) => (phase, vec![]),
            (P::Finishing { to }, E::GivenBack) => {
                if self.wants(&to) {
                    self.trouble = None;
                    (P::Idle, vec![])
                } else {
                    self.head_for_desired()
                }
            }

            (phase @ P::RollingBack { .. }, E::Desired(_)) => (phase, vec![]),
            (P::RollingBack { target, cause }, E::TakenBack) => self.hold(target, cause),
            (P::RollingBack { target, cause }, E::Observed(seen)) => {
                if seen.journal.is_some() {
                    // The host reboots into the origin by itself; the next daemon sees it there.
                    (
                        P::RollingBack { target, cause },
                        vec![Command::RetryAfter(LAST_RETRY)],
                    )
                } else {
                    self.resume(seen)
                }
            }
            (phase @ P::RollingBack { .. }, E::Retry) => (phase, vec![Command::Observe]),

            (P::Held { .. }, E::Desired(_)) => self.head_for_desired(),
            (P::Held { .. }, E::Release) => {
                self.trouble = None;
                let (phase, mut commands) = self.head_for_desired();
                commands.insert(0, Command::Forget);
                (phase, commands)
            }

            (P::Degraded { .. }, E::Desired(_) | E::Retry) => (P::Starting, vec![Command::Observe]),
            (P::Unreconcilable { .. }, E::Desired(_)) => self.head_for_desired(),
            // A refusal may end without a new target: an account appears, room is made.
            (P::Unreconcilable { .. }, E::Retry) => (P::Starting, vec![Command::Observe]),

            // The host may be half way: the next observation reads from its journal what is left to do or undo.
            (
                P::Starting
                | P::Applying { .. }
                | P::Verifying { .. }
                | P::Finishing { .. }
                | P::RollingBack { .. },
                E::Failed(cause),
            ) => self.degrade(cause, &[]),

            // A timer that outlived its phase; uncordoning beside another command, which answers too; nothing held to release.
            (phase, E::Retry | E::GivenBack | E::Release) => (phase, vec![]),
            (phase, event) => {
                return Err(Unexpected {
                    phase: phase.name(),
                    event: format!("{event:?}"),
                });
            }
        };
        Ok(step)
    }

    /// After a start: where the host really is decides, not what was meant.
    #[expect(clippy::match_same_arms, reason = "in the order of the stages")]
    fn resume(&mut self, seen: Observation) -> Step {
        self.at = Some(seen.at.clone());
        if let Some(journal) = seen.journal {
            let to = journal.to;
            return match journal.stage {
                Stage::Applying if self.wants(&to) => {
                    (Phase::Applying { to }, vec![Command::Apply])
                }
                Stage::Applying => (Phase::Applying { to }, vec![Command::TakeBack]),
                Stage::Switched { boot_id } if boot_id != seen.boot_id => {
                    // The guard has not judged this boot yet.
                    (
                        Phase::Verifying {
                            to: to.clone(),
                            unmet: None,
                        },
                        vec![Command::Prove { to }],
                    )
                }
                Stage::Switched { boot_id } if self.wants(&to) => {
                    (Phase::Rebooting { to, boot_id }, vec![Command::Reboot])
                }
                Stage::Switched { .. } => (Phase::Applying { to }, vec![Command::TakeBack]),
                Stage::Booted => (
                    Phase::Verifying {
                        to: to.clone(),
                        unmet: None,
                    },
                    vec![Command::Prove { to }],
                ),
                Stage::RollingBack { cause } => (
                    Phase::RollingBack { target: to, cause },
                    vec![Command::RetryAfter(LAST_RETRY)],
                ),
            };
        }
        if let Some((target, cause)) = seen.held
            && self.wants(&target)
            && target != seen.at
        {
            return self.hold(target, cause);
        }
        (
            Phase::Verifying {
                to: seen.at.clone(),
                unmet: None,
            },
            vec![Command::Prove { to: seen.at }],
        )
    }

    /// Sets out from where the host is to the newest target; there already, it is given back.
    fn head_for_desired(&mut self) -> Step {
        let Some(from) = self.at.clone() else {
            return (Phase::Starting, vec![Command::Observe]);
        };
        let Some(to) = self.desired.clone() else {
            return (Phase::Idle, vec![]);
        };
        if to == from {
            return if self.current.as_ref() == Some(&to) {
                (Phase::Finishing { to }, vec![Command::GiveBack])
            } else {
                (
                    Phase::Verifying {
                        to: to.clone(),
                        unmet: None,
                    },
                    vec![Command::Prove { to }],
                )
            };
        }
        (
            Phase::Fetching {
                to: to.clone(),
                last_error: None,
                outline: None,
            },
            vec![Command::Plan { from, to }],
        )
    }

    /// Whether `target` is what is wanted. Without a target the host stays what it is.
    fn wants(&self, target: &Target) -> bool {
        self.desired
            .as_ref()
            .is_none_or(|desired| desired == target)
    }

    fn hold(&mut self, target: Target, cause: String) -> Step {
        if !self.wants(&target) {
            return self.head_for_desired();
        }
        self.trouble = Some(Trouble {
            cause: cause.clone(),
            tries: 1,
            refused: false,
        });
        (Phase::Held { target, cause }, vec![Command::Uncordon])
    }

    fn degrade(&mut self, cause: String, first: &[Command]) -> Step {
        let tries = self.count_trouble(&cause, false);
        let mut commands = first.to_vec();
        commands.push(Command::RetryAfter(retry_after(tries)));
        (Phase::Degraded { cause, tries }, commands)
    }

    fn refuse(&mut self, target: Target, reasons: Vec<String>) -> Step {
        let tries = self.count_trouble(&reasons.join("; "), true);
        (
            Phase::Unreconcilable { target, reasons },
            vec![Command::Uncordon, Command::RetryAfter(retry_after(tries))],
        )
    }

    fn count_trouble(&mut self, cause: &str, refused: bool) -> u32 {
        let tries = self
            .trouble
            .as_ref()
            .map_or(0, |trouble| trouble.tries)
            .saturating_add(1);
        self.trouble = Some(Trouble {
            cause: cause.to_owned(),
            tries,
            refused,
        });
        tries
    }
}

fn retry_after(tries: u32) -> Duration {
    let doublings = tries.saturating_sub(1).min(16);
    FIRST_RETRY.saturating_mul(1 << doublings).min(LAST_RETRY)
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.image {
            Some(image) => write!(f, "{} / Image: {image}", self.config),
            None => f.write_str(&self.config),
        }
    }
}
