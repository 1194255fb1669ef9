//! A transition: the next phase, and what to do.

use super::{Command, Phase};

/// The next phase, and what to do.
pub(super) type Step = (Phase, Vec<Command>);

/// The same phase, and nothing to do.
pub(super) const fn stay(phase: Phase) -> Step {
    (phase, vec![])
}

/// A phase that waits for its [`Phase::delay`].
pub(super) fn wait(phase: Phase) -> Step {
    let delay = phase.delay().map(Command::RetryAfter);
    (phase, delay.into_iter().collect())
}

/// A step that begins with another command.
pub(super) fn prepend(command: Command, (phase, mut commands): Step) -> Step {
    commands.insert(0, command);
    (phase, commands)
}
