//! The phases of an upgrade, and what leads from one to the next.

use api::upgrade::UpgradePhase;

/// What happens to an upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseEvent {
    /// It is seen for the first time; whether ClusterVersion asks for the release already.
    Seen {
        is_commenced: bool,
    },
    /// The check in advance was made, with whatever result.
    Checked,
    /// Its source has another one now.
    Changed,
    /// It is valid and its time has come.
    Ready,
    Done,
    /// The window closed before the cluster was changed, and all is cleaned up.
    Expired,
}

/// An event that does not belong to the phase.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} does not belong to phase {phase}")]
pub struct UnexpectedEvent {
    phase: String,
    event: PhaseEvent,
}

/// The phase after an event; `phase` is none where the upgrade has no entry.
///
/// # Errors
/// The two do not belong together.
pub fn next(
    phase: Option<&UpgradePhase>,
    event: PhaseEvent,
) -> Result<UpgradePhase, UnexpectedEvent> {
    use PhaseEvent::{Changed, Checked, Done, Expired, Ready, Seen};
    use UpgradePhase::{Failed, New, Pending, Upgraded, Upgrading};
    match (phase, event) {
        (
            None,
            Seen {
                is_commenced: false,
            },
        )
        | (Some(Pending), Changed) => Ok(New),
        (None, Seen { is_commenced: true }) | (Some(Pending), Ready) => Ok(Upgrading),
        (Some(New), Checked) => Ok(Pending),
        (Some(Upgrading), Done) => Ok(Upgraded),
        (Some(Upgrading), Expired) => Ok(Failed),
        (phase, event) => Err(UnexpectedEvent {
            phase: phase.map_or_else(|| "none".to_owned(), ToString::to_string),
            event,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [PhaseEvent; 7] = [
        PhaseEvent::Seen {
            is_commenced: false,
        },
        PhaseEvent::Seen { is_commenced: true },
        PhaseEvent::Checked,
        PhaseEvent::Changed,
        PhaseEvent::Ready,
        PhaseEvent::Done,
        PhaseEvent::Expired,
    ];

    #[test]
    fn phases_follow_the_table() {
        use UpgradePhase::{Failed, New, Pending, Upgraded, Upgrading};
        type Row = (Option<UpgradePhase>, &'static [(usize, UpgradePhase)]);
        let table: [Row; 6] = [
            (None, &[(0, New), (1, Upgrading)]),
            (Some(New), &[(2, Pending)]),
            (Some(Pending), &[(3, New), (4, Upgrading)]),
            (Some(Upgrading), &[(5, Upgraded), (6, Failed)]),
            (Some(Upgraded), &[]),
            (Some(Failed), &[]),
        ];
        for (phase, allowed) in table {
            for (number, event) in EVENTS.into_iter().enumerate() {
                let expected = allowed.iter().find(|(allowed, _)| *allowed == number);
                let expected = expected.map(|(_, phase)| phase.clone());
                assert_eq!(
                    next(phase.as_ref(), event).ok(),
                    expected,
                    "{phase:?} {event:?}"
                );
            }
        }
    }

    #[test]
    fn unexpected_event_names_both() {
        let error = next(Some(&UpgradePhase::Failed), PhaseEvent::Ready).unwrap_err();
        assert_eq!(error.to_string(), "Ready does not belong to phase Failed");
    }
}
