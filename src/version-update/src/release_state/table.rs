//! The table: one `match (state, event)`.

use super::command::{ReleaseCommands, ReleaseWait};
use super::{ReleaseEvent, ReleaseState, Step, UnexpectedReleaseEvent, requested};

/// The transition of an event in a state.
///
/// # Errors
/// [`UnexpectedReleaseEvent`] for a pair that cannot be.
pub(super) fn next(
    state: ReleaseState,
    event: ReleaseEvent,
) -> Result<Step, UnexpectedReleaseEvent> {
    use {ReleaseEvent as E, ReleaseState as S, ReleaseWait as W};
    let name = state.name();
    Ok(match (state, event) {
        // The applied release goes on, whether or not another one is on its way.
        (state, E::Loaded(seen)) => state.with_applied(|it| it.loaded(seen)),
        (state, E::Unreadable) => (state, ReleaseCommands::wait(W::Readable)),
        (state, E::Ended(end)) if !matches!(state, S::Starting(_)) => {
            state.with_applied(|it| it.ended(&end))
        }

        // It is not read yet whose signatures count.
        (state @ S::Starting(_), E::SpecRead(_)) => (state, ReleaseCommands::wait(W::Change)),
        // Only the newest request counts.
        (S::Alone(it), E::SpecRead(spec)) => requested::turn(it, None, spec),
        (
            S::Requested(it, request) | S::Retrieving(it, request) | S::Checking(it, request, _),
            E::SpecRead(spec),
        ) => requested::turn(it, Some(request), spec),

        (S::Retrieving(it, request), E::Retrieved(on_disk)) => {
            requested::retrieved(it, request, on_disk)
        }
        (S::Retrieving(it, request), E::NotRetrieved(why)) => {
            let refusal = request.not_retrieved(&why);
            requested::refuse(it, request, refusal)
        }
        (S::Checking(it, request, on_disk), E::Checked(checkup)) => {
            match request.judge(&on_disk, &checkup) {
                Ok(accepted) => requested::switch(&request, on_disk, checkup.implied, accepted),
                Err(refusal) => requested::refuse(it, request, refusal),
            }
        }
        (S::Checking(it, request, _), E::NotLoaded(why)) => {
            let refusal = request.not_loaded(&why);
            requested::refuse(it, request, refusal)
        }

        (_, event) => {
            return Err(UnexpectedReleaseEvent {
                state: name,
                event: format!("{event:?}"),
            });
        }
    })
}
