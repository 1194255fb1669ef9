//! The host is read: where it is decides, not what was meant.

use api::machineconfiguration::PhaseName;

use super::entry::{force, leave, release};
use super::failures::failed_in;
use super::step::{Step, prepend, stay};
use super::{
    Applying, Command, Degraded, Facts, Failures, Held, Kind, Observation, OpenJournal, Origin,
    Phase, Rebooting, RollBack, RollingBack, Stage, Starting, Verifying,
};

/// Why a node waits for an administrator.
const BY_HAND: &str = "the host was changed by hand (mcd pivot) and not rebooted yet: reboot it, or revert the change with \
                       mcd rollback";

impl Starting {
    pub(super) fn release(self) -> Step {
        stay(Phase::Starting(Self {
            is_released: true,
            ..self
        }))
    }

    pub(super) fn observed(self, seen: Observation, facts: &Facts) -> Step {
        match seen.journal {
            Some(journal) => self.resume(Origin::Read(seen.at), &seen.boot_id, journal, facts),
            None => self.settle(seen, facts),
        }
    }

    /// A plan is under way.
    #[expect(clippy::match_same_arms, reason = "in the order of the stages")]
    fn resume(self, origin: Origin, boot_id: &str, journal: OpenJournal, facts: &Facts) -> Step {
        let is_wanted = facts.wants(&journal.to);
        let (to, failures) = (journal.to, self.failures);
        let back = |failures, cause, step| {
            let rolling_back = RollingBack {
                origin: origin.clone(),
                target: to.clone(),
                cause,
                step,
                failures,
            };
            rolling_back.begin()
        };
        match journal.stage {
            // Neither rebooted for, which would cost pods that were not evicted, nor reverted under
            // the administrator's hands.
            Stage::Applying if journal.by_hand => {
                Degraded::after(failures, BY_HAND.to_owned(), None)
            }
            Stage::Switched { boot_id: switched } if journal.by_hand && switched == boot_id => {
                Degraded::after(failures, BY_HAND.to_owned(), None)
            }
            Stage::Applying if is_wanted => Applying::resume(origin, to, failures, Command::Apply),
            Stage::Applying => Applying::resume(origin, to, failures, Command::Revert),
            // The guard has not judged this boot yet.
            Stage::Switched { boot_id: switched } if switched != boot_id => {
                Verifying::begin(to, failures)
            }
            Stage::Switched { boot_id } if is_wanted => {
                Rebooting::begin(origin, to, boot_id, failures)
            }
            Stage::Switched { .. } => Applying::resume(origin, to, failures, Command::Revert),
            Stage::Booted => Verifying::begin(to, failures),
            Stage::RollingBack { .. } if journal.by_hand => {
                Degraded::after(failures, BY_HAND.to_owned(), None)
            }
            Stage::RollingBack { cause } if !journal.stays => {
                back(failures, cause, RollBack::Waiting)
            }
            Stage::Undoing { cause } => {
                let failed_in = Some(failed_in(PhaseName::Applying, &to));
                let failures = Failures::add(failures, cause, Kind::Failure, failed_in);
                Applying::resume(origin, to, Some(failures), Command::Revert)
            }
            // Checked again: an administrator may have mended what kept it from being verified.
            Stage::Stays { .. } if is_wanted => Verifying::begin(to, failures),
            // It may have been uncordoned: what came to it since is evicted, not killed.
            Stage::RollingBack { cause } | Stage::Stays { cause } => {
                back(failures, cause, RollBack::Draining { blocked: None })
            }
        }
    }

    /// Nothing is under way.
    fn settle(self, seen: Observation, facts: &Facts) -> Step {
        let at = seen.at;
        let is_held = seen.held.is_some();
        if let Some((target, cause)) = seen.held
            && facts.wants(&target)
            && target != at
        {
            let origin = Origin::Read(at);
            return if self.is_released || seen.is_forced {
                release(origin, facts)
            } else {
                Held::begin(origin, target, cause)
            };
        }
        // What was verified and is to be left is not verified again: the next plan begins with a
        // check of what can be changed by hand.
        let step = if seen.is_forced {
            force(Origin::Read(at), self.failures, facts)
        } else if facts.current.as_ref() == Some(&at) && !facts.wants(&at) {
            leave(Origin::Read(at), self.failures, facts)
        } else {
            Verifying::begin(at, self.failures)
        };
        if is_held {
            // It was left while no daemon ran.
            return prepend(Command::Forget, step);
        }
        step
    }
}
