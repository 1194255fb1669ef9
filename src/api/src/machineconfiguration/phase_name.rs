//! Names of the phases of a node's update.

use std::fmt;

/// Name of a phase of the node's state machine: in the drawing (`docs/state-machine.md`), the value
/// of [`super::annotation::PHASE`] and the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PhaseName {
    /// The daemon reads its host.
    Starting,
    /// The node runs its target.
    Idle,
    /// The target is planned, fetched and rehearsed while the node is in service.
    Fetching,
    /// Pods leave.
    Draining,
    /// The plan is executed.
    Applying,
    /// The host goes down and comes up.
    Rebooting,
    /// The host is checked against the target.
    Verifying,
    /// The node returns to service.
    Finishing,
    /// The host returns to its origin.
    RollingBack,
    /// The target failed and was rolled back; it is not tried again until it is released.
    Held,
    /// A failure waits for its next attempt.
    Degraded,
    /// The target is rejected.
    Unreconcilable,
}

impl PhaseName {
    /// Every name, in the order of the drawing.
    pub const ALL: [Self; 12] = [
        Self::Starting,
        Self::Idle,
        Self::Fetching,
        Self::Draining,
        Self::Applying,
        Self::Rebooting,
        Self::Verifying,
        Self::Finishing,
        Self::RollingBack,
        Self::Held,
        Self::Degraded,
        Self::Unreconcilable,
    ];

    /// The annotation's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::Idle => "Idle",
            Self::Fetching => "Fetching",
            Self::Draining => "Draining",
            Self::Applying => "Applying",
            Self::Rebooting => "Rebooting",
            Self::Verifying => "Verifying",
            Self::Finishing => "Finishing",
            Self::RollingBack => "RollingBack",
            Self::Held => "Held",
            Self::Degraded => "Degraded",
            Self::Unreconcilable => "Unreconcilable",
        }
    }

    /// The name that an annotation's value is.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == text)
    }

    /// Whether the drain is over: the host is changed, verified, or rolled back.
    pub const fn is_past_drain(self) -> bool {
        matches!(
            self,
            Self::Applying
                | Self::Rebooting
                | Self::Verifying
                | Self::Finishing
                | Self::RollingBack
        )
    }

    /// Whether the configuration was applied to its end: what fails from here on may be its fault.
    pub const fn is_past_apply(self) -> bool {
        matches!(
            self,
            Self::Verifying | Self::Finishing | Self::RollingBack | Self::Held
        )
    }
}

impl fmt::Display for PhaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::PhaseName;

    #[test]
    fn every_name_is_parsed_as_it_is_printed() {
        for name in PhaseName::ALL {
            assert_eq!(PhaseName::parse(name.as_str()), Some(name));
        }
        for unknown in ["", "idle", "Rebooted"] {
            assert_eq!(PhaseName::parse(unknown), None);
        }
    }
}
