//! What a node's daemon says about itself.

use std::fmt;

/// Value of [`super::annotation::STATE`].
///
/// Source: the annotation's values in OpenShift's machine-config daemon. `Rebooting` is not a state
/// but a [`super::annotation::POST_CONFIG_ACTION`].
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
    /// Every state.
    pub const ALL: [Self; 4] = [
        Self::Done,
        Self::Working,
        Self::Degraded,
        Self::Unreconcilable,
    ];

    /// The state that an annotation's value is; readers of a Node use [`super::NodeStatus::state`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
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
    fn every_state_is_parsed_as_it_is_printed() {
        for state in NodeState::ALL {
            assert_eq!(NodeState::parse(state.as_str()), Some(state));
        }
        for unknown in ["", "done", "Rebooting"] {
            assert_eq!(NodeState::parse(unknown), None);
        }
    }
}
