//! What a node's daemon says about itself.

use std::fmt;

/// Value of [`super::annotation::STATE`].
///
/// Source: the annotation's values in OpenShift's machine-config daemon. `Rebooting` is not a state but a
/// [`super::annotation::POST_CONFIG_ACTION`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeState {
    /// The current configuration is in force and verified.
    Done,
    /// An update is under way, from preparing to verifying.
    Working,
    /// An update failed; the daemon tries again or waits for another target.
    Degraded,
    /// The target asks for a change that cannot be made on a running node; nothing was changed.
    Unreconcilable,
}

impl NodeState {
    /// Reads the annotation's value. Absent means `Done`, as clients of the original assume. A value nobody here writes counts as
    /// `Working`: neither finished nor failed, so that it is neither trusted nor retargeted.
    pub fn read(annotation: Option<&str>) -> Self {
        match annotation {
            None | Some("Done") => Self::Done,
            Some("Degraded") => Self::Degraded,
            Some("Unreconcilable") => Self::Unreconcilable,
            Some(_) => Self::Working,
        }
    }

    /// The annotation's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "Done",
            Self::Working => "Working",
            Self::Degraded => "Degraded",
            Self::Unreconcilable => "Unreconcilable",
        }
    }

    /// Whether an update failed on the node: `Degraded` or `Unreconcilable`.
    pub const fn is_failed(self) -> bool {
        matches!(self, Self::Degraded | Self::Unreconcilable)
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::NodeState;

    #[test]
    fn printing_and_reading_give_back_the_same() {
        for state in [
            NodeState::Done,
            NodeState::Working,
            NodeState::Degraded,
            NodeState::Unreconcilable,
        ] {
            assert_eq!(NodeState::read(Some(state.as_str())), state);
        }
    }

    #[test]
    fn absent_is_done_and_unknown_is_not() {
        assert_eq!(NodeState::read(None), NodeState::Done);
        for unknown in ["", "done", "Rebooting"] {
            assert_eq!(NodeState::read(Some(unknown)), NodeState::Working);
        }
    }
}
