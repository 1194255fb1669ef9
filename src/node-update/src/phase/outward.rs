//! What a node shows: functions of the machine, and nothing else sets them.

use super::{Machine, Phase};

/// The `state` annotation: `docs/reference/daemon.md`, "Node annotations".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Verified in `currentConfig`, nothing to do.
    Done,
    /// On its way.
    Working,
    /// Something broke, or a target failed; a person should look.
    Degraded,
    /// The target is refused; nothing was touched.
    Unreconcilable,
}

impl State {
    /// The annotation's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "Done",
            Self::Working => "Working",
            Self::Degraded => "Degraded",
            Self::Unreconcilable => "Unreconcilable",
        }
    }
}

/// The longest `reason`, in characters: `docs/reference/daemon.md`, "Node annotations".
const REASON_CHARS: usize = 2000;

impl Phase {
    /// The phase's name, as in the drawing.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::Idle => "Idle",
            Self::Fetching { .. } => "Fetching",
            Self::Draining { .. } => "Draining",
            Self::Applying { .. } => "Applying",
            Self::Rebooting { .. } => "Rebooting",
            Self::Verifying { .. } => "Verifying",
            Self::Finishing { .. } => "Finishing",
            Self::RollingBack { .. } => "RollingBack",
            Self::Held { .. } => "Held",
            Self::Degraded { .. } => "Degraded",
            Self::Unreconcilable { .. } => "Unreconcilable",
        }
    }
}

impl Machine {
    /// The `state` annotation; `None` while a daemon that has just started reads and checks its host: what stands there stays.
    ///
    /// Once something failed, it stays visible until the node is well or gets another target, so that a retry does not flap.
    pub fn state(&self) -> Option<State> {
        let state = match &self.phase {
            Phase::Starting => return None,
            Phase::Idle => State::Done,
            // A daemon that starts on a node in service only checks it: nothing is under way.
            Phase::Verifying { to, .. } if self.current.is_none() && self.wants(to) => return None,
            // What it shows ends here, and a node that was only checked shows nothing new.
            Phase::Finishing { .. } if self.trouble.is_none() => return None,
            Phase::Held { .. } | Phase::Degraded { .. } => State::Degraded,
            Phase::Unreconcilable { .. } => State::Unreconcilable,
            Phase::Fetching { .. }
            | Phase::Draining { .. }
            | Phase::Applying { .. }
            | Phase::Rebooting { .. }
            | Phase::Verifying { .. }
            | Phase::Finishing { .. }
            | Phase::RollingBack { .. } => match &self.trouble {
                Some(trouble) if trouble.refused => State::Unreconcilable,
                Some(_) => State::Degraded,
                None => State::Working,
            },
        };
        Some(state)
    }

    /// The `reason` annotation: empty when all is well, at most 2000 characters.
    pub fn reason(&self) -> String {
        let text = match &self.phase {
            Phase::Idle => String::new(),
            Phase::Held { target, cause } => format!(
                "{target} failed on this node and was rolled back: {cause}; it is not tried again until \
                 desiredConfig names another"
            ),
            Phase::RollingBack {
                cause,
                blocked: Some(what),
                ..
            } => format!("{cause}; the way back waits for pods: {what}"),
            Phase::Degraded { cause: text, .. }
            | Phase::RollingBack { cause: text, .. }
            | Phase::Fetching {
                last_error: Some(text),
                ..
            }
            | Phase::Draining {
                blocked: Some(text),
                ..
            }
            | Phase::Verifying {
                unmet: Some(text), ..
            } => text.clone(),
            Phase::Unreconcilable { reasons, .. } => reasons.join("; "),
            Phase::Starting
            | Phase::Fetching { .. }
            | Phase::Draining { .. }
            | Phase::Applying { .. }
            | Phase::Rebooting { .. }
            | Phase::Verifying { .. }
            | Phase::Finishing { .. } => self
                .trouble
                .as_ref()
                .map_or_else(String::new, |trouble| trouble.cause.clone()),
        };
        text.chars().take(REASON_CHARS).collect()
    }

    /// What the node waits for, for people: a line of a table.
    pub fn waits_for(&self) -> String {
        match &self.phase {
            Phase::Starting => "the host's state".to_owned(),
            Phase::Idle => String::new(),
            Phase::Fetching {
                last_error: Some(error),
                ..
            } => format!("a retry: {error}"),
            Phase::Fetching { outline: None, .. } => "the plan".to_owned(),
            Phase::Fetching {
                outline: Some(outline),
                ..
            } => match &outline.image {
                Some(image) => format!("image {image} and rehearsal"),
                None => "rehearsal".to_owned(),
            },
            Phase::Draining {
                blocked: Some(what),
                ..
            }
            | Phase::RollingBack {
                blocked: Some(what),
                ..
            } => what.clone(),
            Phase::Draining { .. } => "pods to leave".to_owned(),
            Phase::Applying { to } => format!("{} to be applied", to.config),
            Phase::Rebooting { .. } => "the host to come back".to_owned(),
            Phase::Verifying {
                unmet: Some(what), ..
            } => format!("checks: {what}"),
            Phase::Verifying { .. } => "checks".to_owned(),
            Phase::Finishing { .. } => "uncordon".to_owned(),
            Phase::RollingBack { .. } => "the way back".to_owned(),
            Phase::Held { .. } | Phase::Unreconcilable { .. } => "another desiredConfig".to_owned(),
            Phase::Degraded { tries, .. } => format!("a retry (after try {tries})"),
        }
    }
}
