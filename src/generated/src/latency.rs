//! How often workers report to their cluster.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LatencyProfile {
    /// Every 10 seconds.
    Default,
    /// Every 20 seconds.
    MediumUpdateAverageReaction,
    LowUpdateSlowReaction,
}

impl LatencyProfile {
    pub(crate) const ALL: [Self; 3] = [
        Self::Default,
        Self::MediumUpdateAverageReaction,
        Self::LowUpdateSlowReaction,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "Default",
            Self::MediumUpdateAverageReaction => "MediumUpdateAverageReaction",
            Self::LowUpdateSlowReaction => "LowUpdateSlowReaction",
        }
    }

    /// `nodeStatusUpdateFrequency` of the kubelet.
    ///
    /// Source: OpenShift documentation, "Worker latency profiles".
    pub(crate) const fn frequency(self) -> &'static str {
        match self {
            Self::Default => "10s",
            Self::MediumUpdateAverageReaction => "20s",
            Self::LowUpdateSlowReaction => "1m0s",
        }
    }

    /// Whether a cluster may change to another profile at once: the control plane must know the
    /// slower reports before they are slower, so the longest step is made in two.
    pub fn may_become(self, other: Self) -> bool {
        let (low, high) = (self.min(other), self.max(other));
        (low, high) != (Self::Default, Self::LowUpdateSlowReaction)
    }
}

/// What the object asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeAsks {
    /// Of workers; nothing where it does not say.
    pub profile: Option<LatencyProfile>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_step_between_profiles_is_refused_in_both_directions() {
        use LatencyProfile::{Default, LowUpdateSlowReaction, MediumUpdateAverageReaction};
        let table = [
            (Default, LowUpdateSlowReaction, false),
            (LowUpdateSlowReaction, Default, false),
            (Default, MediumUpdateAverageReaction, true),
            (LowUpdateSlowReaction, MediumUpdateAverageReaction, true),
            (Default, Default, true),
        ];
        for (from, to, expected) in table {
            assert_eq!(from.may_become(to), expected, "{from:?} {to:?}");
        }
    }
}
