//! The table: one `match (phase, event)`.

use std::time::Duration;

use super::{Command, Event, Machine, Observation, Phase, Stage, Trouble, Unexpected};
use crate::plan::Target;

/// The first wait before a failed update is tried again, doubled each time: `docs/reference/daemon.md`, "Retries".
pub(super) const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest such wait: `docs/reference/daemon.md`, "Retries".
const LAST_RETRY: Duration = Duration::from_mins(1);
/// The first and the longest wait, in service, before a node is drained again for an update that failed after the drain. Every try
/// costs all pods of the node a restart.
const DRAIN_AGAIN: (Duration, Duration) = (Duration::from_mins(1), Duration::from_hours(1));

pub(super) type Step = (Phase, Vec<Command>);

impl Machine {
    #[expect(
        clippy::too_many_lines,
        clippy::match_same_arms,
        reason = "one table, in the order of the drawing"
    )]
    pub(super) fn decide(&mut self, event: Event) -> Result<Step, Unexpected> {
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
            (P::Starting, E::Release) => {
                self.released = true;
                (P::Starting, vec![])
            }

            (P::Idle, E::Desired(_)) => self.head_for_desired(),

            (P::Fetching { to, .. }, E::Planned(outline)) => {
                self.drains = outline.drain;
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
            (P::Draining { to, .. }, E::Overdue(what)) => {
                self.count_trouble(&what, false);
                (
                    P::Draining {
                        to,
                        blocked: Some(what),
                    },
                    vec![],
                )
            }
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
                verify(to)
            }
            // What is in force now is read, not remembered.
            (P::Applying { .. }, E::TakenBack) => (P::Starting, vec![Command::Observe]),
            (P::Applying { to }, E::Failed(cause)) => {
                let step = self.degrade(cause, &[]);
                if self.wants(&to) {
                    self.count_drain();
                }
                step
            }

            (phase @ (P::Rebooting { .. } | P::Verifying { .. }), E::Desired(_)) => (phase, vec![]),
            (P::Rebooting { to, .. }, E::Failed(cause)) => {
                (roll_back(to, cause), vec![Command::TakeBack])
            }

            (P::Verifying { to, .. }, E::Unmet(what)) => (
                P::Verifying {
                    to,
                    unmet: Some(what),
                },
                vec![],
            ),
            (P::Verifying { to, .. }, E::Proved) => {
                self.current = Some(to.clone());
                self.is_unproved = false;
                if self.wants(&to) {
                    (P::Finishing { to }, vec![Command::GiveBack])
                } else {
                    self.leave_proved()
                }
            }
            (P::Verifying { to, .. }, E::Disproved(cause)) => {
                (roll_back(to, cause), vec![Command::Observe])
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
            (P::RollingBack { target, cause, .. }, E::Blocked(what) | E::Overdue(what)) => (
                P::RollingBack {
                    target,
                    cause,
                    blocked: Some(what),
                },
                vec![],
            ),
            (P::RollingBack { target, cause, .. }, E::Drained) => {
                (roll_back(target, cause), vec![Command::TakeBack])
            }
            (P::RollingBack { target, cause, .. }, E::TakenBack) => self.hold(target, cause),
            // A host that goes back by itself is waited for, see there.
            (P::RollingBack { .. }, E::Observed(seen)) => self.resume(seen),
            // It did not: nobody else may be left to ask for it.
            (phase @ P::RollingBack { .. }, E::Retry) => (phase, vec![Command::TakeBack]),

            // A target that is left is tried again when it is wanted again.
            (P::Held { target, .. }, E::Desired(to)) if to != target => self.leave_held(),
            (phase @ P::Held { .. }, E::Desired(_)) => (phase, vec![]),
            (P::Held { .. }, E::Release) => self.leave_held(),
            // Nothing comes after it that would give the node back.
            (phase @ P::Held { .. }, E::StillCordoned(_)) => {
                (phase, vec![Command::RetryAfter(LAST_RETRY)])
            }
            (phase @ P::Held { .. }, E::Retry) => (phase, vec![Command::Uncordon]),

            (P::Degraded { .. }, E::Desired(_) | E::Retry) => (P::Starting, vec![Command::Observe]),
            // It was to wait in service: it is given back first, and then waits.
            (phase @ P::Degraded { .. }, E::StillCordoned(_)) if self.has_paused() => {
                self.set_pause();
                (phase, vec![Command::RetryAfter(LAST_RETRY)])
            }
            (P::Unreconcilable { .. }, E::Desired(_)) => self.head_for_desired(),
            // A refusal may end without a new target: an account appears, room is made.
            (P::Unreconcilable { .. }, E::Retry) => (P::Starting, vec![Command::Observe]),

            // The host may be half way: the next observation reads from its journal what is left to do or undo.
            (
                P::Starting | P::Verifying { .. } | P::Finishing { .. } | P::RollingBack { .. },
                E::Failed(cause),
            ) => self.degrade(cause, &[]),

            // A timer that outlived its phase; uncordoning beside another command, which answers too, and after which the node is given
            // back or drained; nothing held to release.
            (phase, E::Retry | E::GivenBack | E::StillCordoned(_) | E::Release) => (phase, vec![]),
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
        let released = std::mem::take(&mut self.released);
        if let Some(journal) = seen.journal {
            let to = journal.to;
            return match journal.stage {
                // Neither rebooted for, which would cost pods that nobody evicted, nor taken back from whoever is at it.
                Stage::Applying if journal.by_hand => self.wait_for_a_hand(),
                Stage::Switched { boot_id } if journal.by_hand && boot_id == seen.boot_id => {
                    self.wait_for_a_hand()
                }
                Stage::Applying if self.wants(&to) => {
                    (Phase::Applying { to }, vec![Command::Apply])
                }
                Stage::Applying => (Phase::Applying { to }, vec![Command::TakeBack]),
                Stage::Switched { boot_id } if boot_id != seen.boot_id => {
                    // The guard has not judged this boot yet.
                    verify(to)
                }
                Stage::Switched { boot_id } if self.wants(&to) => {
                    (Phase::Rebooting { to, boot_id }, vec![Command::Reboot])
                }
                Stage::Switched { .. } => (Phase::Applying { to }, vec![Command::TakeBack]),
                Stage::Booted => verify(to),
                Stage::RollingBack { .. } if journal.by_hand => self.wait_for_a_hand(),
                // The host reboots into the origin by itself, in a moment.
                Stage::RollingBack { cause } if !journal.stays => {
                    (roll_back(to, cause), vec![Command::RetryAfter(LAST_RETRY)])
                }
                Stage::Undoing { cause } => {
                    self.count_trouble(&cause, false);
                    (Phase::Applying { to }, vec![Command::TakeBack])
                }
                // Looked at again: a person may have mended what kept it from being proved.
                Stage::Stays { .. } if self.wants(&to) => verify(to),
                // Somebody may have given the node back as it is: what came to it since is evicted, not killed.
                Stage::RollingBack { cause } | Stage::Stays { cause } => {
                    (roll_back(to, cause), vec![Command::Drain])
                }
            };
        }
        let mut commands = vec![];
        if let Some((target, cause)) = seen.held {
            if self.wants(&target) && target != seen.at {
                if released {
                    return self.let_go();
                }
                return self.hold(target, cause);
            }
            // It was left while no daemon ran.
            commands.push(Command::Forget);
        }
        let to = seen.at;
        // What was proved, and is to be left, is not proved again: a file that somebody changed meanwhile is written by what comes next.
        let (phase, next) = if self.current.as_ref() == Some(&to) && !self.wants(&to) {
            self.is_unproved = true;
            self.leave_proved()
        } else {
            verify(to)
        };
        commands.extend(next);
        (phase, commands)
    }

    /// From a state that was proved to another: where pods left for nothing, after a while in service.
    fn leave_proved(&mut self) -> Step {
        if let Some(step) = self.pause() {
            return step;
        }
        let (phase, mut commands) = self.head_for_desired();
        if self.trouble.is_some() {
            // In its old state after a failure: it may serve until the next drain.
            commands.insert(0, Command::Uncordon);
        }
        (phase, commands)
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
            return if self.current.as_ref() == Some(&to) && !self.is_unproved {
                (Phase::Finishing { to }, vec![Command::GiveBack])
            } else {
                verify(to)
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
    pub(super) fn wants(&self, target: &Target) -> bool {
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
            drained: 0,
            pauses: false,
        });
        (Phase::Held { target, cause }, vec![Command::Uncordon])
    }

    /// What still waits to uncordon is given up: the node may be on its way to what lets it be Ready.
    fn leave_held(&mut self) -> Step {
        let (phase, mut commands) = self.let_go();
        commands.insert(0, Command::Cancel);
        (phase, commands)
    }

    fn let_go(&mut self) -> Step {
        self.trouble = None;
        let (phase, mut commands) = self.head_for_desired();
        commands.insert(0, Command::Forget);
        (phase, commands)
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

    /// What a person began on the host stays that person's until the reboot.
    fn wait_for_a_hand(&mut self) -> Step {
        let cause = "the host was changed by hand (mcd pivot) and not rebooted yet: reboot it, or take the change back with \
                     mcd-os rollback";
        self.degrade(cause.to_owned(), &[])
    }

    fn count_trouble(&mut self, cause: &str, refused: bool) -> u32 {
        let before = self.trouble.as_ref();
        let tries = before.map_or(0, |trouble| trouble.tries).saturating_add(1);
        self.trouble = Some(Trouble {
            cause: cause.to_owned(),
            tries,
            refused,
            drained: before.map_or(0, |trouble| trouble.drained),
            pauses: before.is_some_and(|trouble| trouble.pauses),
        });
        tries
    }

    /// An update failed after its drain: before the next drain the node is in service for a while.
    fn count_drain(&mut self) {
        // One drain is lost once, however often what it led to fails to be undone.
        let drained = std::mem::take(&mut self.drains);
        if let Some(trouble) = self.trouble.as_mut().filter(|_| drained) {
            trouble.drained = trouble.drained.saturating_add(1);
            trouble.pauses = true;
        }
    }

    /// Waits in service, once, where pods left for nothing.
    fn pause(&mut self) -> Option<Step> {
        let trouble = self.trouble.as_mut().filter(|trouble| trouble.pauses)?;
        trouble.pauses = false;
        let phase = Phase::Degraded {
            cause: trouble.cause.clone(),
            tries: trouble.tries,
        };
        let wait = doubled(DRAIN_AGAIN, trouble.drained);
        Some((phase, vec![Command::Uncordon, Command::RetryAfter(wait)]))
    }

    fn has_paused(&self) -> bool {
        self.trouble
            .as_ref()
            .is_some_and(|trouble| trouble.drained > 0)
    }

    fn set_pause(&mut self) {
        if let Some(trouble) = &mut self.trouble {
            trouble.pauses = true;
        }
    }
}

/// The host leaves a target for `current`.
fn roll_back(target: Target, cause: String) -> Phase {
    Phase::RollingBack {
        target,
        cause,
        blocked: None,
    }
}

/// The host is checked against what it is or became.
fn verify(to: Target) -> Step {
    let phase = Phase::Verifying {
        to: to.clone(),
        unmet: None,
    };
    (phase, vec![Command::Prove { to }])
}

fn retry_after(tries: u32) -> Duration {
    doubled((FIRST_RETRY, LAST_RETRY), tries)
}

/// The first wait at the first try, doubled with each further one, up to the longest.
fn doubled((first, longest): (Duration, Duration), tries: u32) -> Duration {
    let doublings = tries.saturating_sub(1).min(16);
    first.saturating_mul(1 << doublings).min(longest)
}
