//! The table: one `match (phase, event)`.

use super::entry::{cancel, set_out};
use super::step::{Step, stay, wait};
use super::{Command, Degraded, Event, Facts, Phase, RollBack, Starting, Unexpected};

/// The transition of an event in a phase. An event that names the desired target again does not get
/// here.
///
/// # Errors
/// [`Unexpected`] for a pair that cannot be.
pub(super) fn next(phase: Phase, event: Event, facts: &Facts) -> Result<Step, Unexpected> {
    use {Event as E, Phase as P};
    let step = match (phase, event) {
        // The work under way ends first; the newest target is remembered.
        (phase, E::Desired(_)) if phase.ends_first() => stay(phase.without_failures()),

        (P::Starting(it), E::Observed(seen)) => it.observed(seen, facts),
        (P::Starting(it), E::Release) => it.release(),
        (P::Starting(it), E::Failed(cause)) => Degraded::after_start(it, cause),

        (P::Idle(it), E::Desired(_)) => it.leave(facts),
        (P::Idle(it), E::Next(_)) => it.look_ahead(facts),
        (P::Idle(it), E::Retry) => it.fetch_ahead(),
        // What a fetch said last may come after its end.
        (P::Idle(it), E::StillTrying(_)) => stay(P::Idle(it)),
        (P::Idle(it), E::Fetched) if it.is_fetching() => it.fetched(),
        (P::Idle(it), E::NotFetched(cause)) if it.is_fetching() => it.not_fetched(cause),

        (P::Idle(it), E::Drifted(what)) => it.drifted(what),
        (P::Degraded(it), E::Drifted(what)) => it.drifted(what),
        (P::Degraded(it), E::Restored) => it.restored(),

        (P::Fetching(it), E::InService) if it.is_returning() => it.begin_plan(),
        (P::Fetching(it), E::Fetched | E::NotFetched(_)) if it.is_joining() => it.begin_plan(),
        (P::Fetching(it), E::Failed(cause)) if it.is_returning() => it.still_out(cause),
        (P::Fetching(it), E::Planned(outline)) => it.planned(outline),
        (P::Fetching(it), E::StillTrying(error)) => it.still_trying(error),
        (P::Fetching(it), E::Prepared) if it.is_preparing() => it.prepared(),
        (P::Fetching(it), E::Rejected(reasons)) => it.rejected(reasons),
        (P::Fetching(it), E::Desired(_)) => it.retargeted(facts),
        (P::Fetching(it), E::Failed(cause)) => it.failed(cause),
        (P::Draining(it), E::Blocked(what)) => it.blocked(what),
        (P::Draining(it), E::Overdue(what)) => it.overdue(what),
        (P::Draining(it), E::Drained) => it.drained(),
        (P::Draining(it), E::Desired(_)) => cancel(it.origin, facts),
        (P::Draining(it), E::Failed(cause)) => it.failed(cause),

        (P::Applying(it), E::Switched { boot_id }) => it.switched(boot_id, facts),
        (P::Applying(it), E::Applied) => it.applied(),
        // What is in force now is read, not remembered.
        (P::Applying(it), E::Reverted) => Starting::begin(it.failures, false),
        (P::Applying(it), E::Failed(cause)) => it.failed(cause, facts),
        (P::Rebooting(it), E::Failed(cause)) => it.failed(cause),

        (P::Verifying(it), E::Unmet(what)) => it.unmet(what),
        (P::Verifying(it), E::Verified) => it.verified(facts),
        (P::Verifying(it), E::VerificationFailed(cause)) => it.failed(cause),
        (P::Verifying(it), E::Failed(cause)) => it.not_verified(cause),
        (P::Finishing(it), E::InService) => it.in_service(facts),
        (P::Finishing(it), E::Failed(cause)) => it.failed(cause),

        (P::RollingBack(it), E::Observed(seen)) if it.step == RollBack::Reading => {
            it.read(seen, facts)
        }
        (P::RollingBack(it), E::Retry) if it.step == RollBack::Waiting => it.go_on(),
        (P::RollingBack(it), E::Blocked(what) | E::Overdue(what)) if it.is_draining() => {
            it.blocked(what)
        }
        (P::RollingBack(it), E::Drained) if it.is_draining() => it.go_on(),
        (P::RollingBack(it), E::Reverted) if it.step == RollBack::Reverting => it.reverted(facts),
        (P::RollingBack(it), E::Failed(cause)) => it.failed(cause),

        // A target that is left is tried again when it is desired again.
        (P::Held(it), E::Desired(to)) if to != it.target => it.leave(facts),
        (P::Held(it), E::Desired(_)) => stay(P::Held(it)),
        (P::Held(it), E::Release) => it.leave(facts),
        (P::Held(it), E::StillCordoned(_)) => wait(P::Held(it)),
        (P::Held(it), E::Retry) => (P::Held(it), vec![Command::Uncordon]),

        (P::Degraded(it), E::Desired(_)) => it.retargeted(),
        (P::Degraded(it), E::Retry) => it.start(),
        (P::Degraded(it), E::StillCordoned(_)) => it.still_cordoned(),
        (P::Unreconcilable(it), E::Desired(_)) => set_out(it.origin, None, facts),
        (P::Unreconcilable(it), E::Retry) => Starting::begin(Some(it.failures), false),

        // What may be fetched is read at rest. A timer that outlived its phase; an uncordon beside
        // another command, which answers too and after which the node returns to service or is
        // drained; nothing held to release; a manual change beside work that checks for such
        // itself, or of a node that waits for another target.
        (
            phase,
            E::Next(_)
            | E::Retry
            | E::InService
            | E::StillCordoned(_)
            | E::Release
            | E::Drifted(_)
            | E::Restored,
        ) => stay(phase),
        (phase, event) => return Err(Unexpected::of(&phase, &event)),
    };
    Ok(step)
}
