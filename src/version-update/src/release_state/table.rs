//! The table: one `match (state, event)`.

use super::command::{ReleaseCommands, ReleaseWait};
use super::{ReleaseEvent, ReleaseState, Step, UnexpectedReleaseEvent, asked};

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

        // Whose signatures count is not known yet.
        (state @ S::Starting(_), E::Asked(_)) => (state, ReleaseCommands::wait(W::Change)),
        // Only the newest request counts.
        (S::Alone(it), E::Asked(asked)) => asked::turn(it, None, asked),
        (
            S::Requested(it, request) | S::Retrieving(it, request) | S::Checking(it, request, _),
            E::Asked(asked),
        ) => asked::turn(it, Some(request), asked),

        (S::Retrieving(it, request), E::Retrieved(on_disk)) => {
            asked::retrieved(it, request, on_disk)
        }
        (S::Retrieving(it, request), E::NotRetrieved(why)) => {
            let refusal = request.not_retrieved(&why);
            asked::refuse(it, request, refusal)
        }
        (S::Checking(it, request, on_disk), E::Checked(checkup)) => {
            match request.judge(&on_disk, &checkup) {
                Ok(accepted) => asked::switch(&request, on_disk, checkup.implied, accepted),
                Err(refusal) => asked::refuse(it, request, refusal),
            }
        }
        (S::Checking(it, request, _), E::NotLoaded(why)) => {
            let refusal = request.not_loaded(&why);
            asked::refuse(it, request, refusal)
        }

        (_, event) => {
            return Err(UnexpectedReleaseEvent {
                state: name,
                event: format!("{event:?}"),
            });
        }
    })
}
