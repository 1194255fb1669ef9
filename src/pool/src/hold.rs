//! What keeps a pool from being assigned anything.

use std::fmt;

use api::machineconfiguration::machine_config_pool::PoolConditionReason;

use crate::image::PoolImage;

/// Why no node of a pool is assigned anything, though the pool's own fields allow it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Hold {
    /// The pool's own OS image is not built. A node that was assigned a configuration without it
    /// would lose the one that it has.
    Image(PoolImage),
    /// The pool's configuration is not what was rendered. Nodes would get what another program
    /// wrote.
    ConfigChanged { config: String },
    /// The pool's selector leaves out the base of its nodes' role. They would lose their kubelet.
    MissingBase,
    /// The pool's rollout policy cannot be followed.
    InvalidPolicy {
        /// Name of the policy, field, and what is wrong.
        why: String,
    },
}

impl Hold {
    /// The reason of the pool's condition.
    pub const fn reason(&self) -> PoolConditionReason {
        match self {
            Self::Image(_) => PoolConditionReason::ImageMode,
            Self::ConfigChanged { .. } => PoolConditionReason::RenderedConfigChanged,
            Self::MissingBase => PoolConditionReason::MissingBase,
            Self::InvalidPolicy { .. } => PoolConditionReason::InvalidRolloutPolicy,
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(image) => write!(f, "the pool's OS image is not built: {image}"),
            Self::ConfigChanged { config } => write!(
                f,
                "MachineConfig {config} is not what was rendered: its content does not match its name, and no node is assigned it. Delete it to have it rendered again"
            ),
            Self::MissingBase => f.write_str(
                "spec.machineConfigSelector leaves out the base configurations of the workers: a custom pool has to select the role worker, too",
            ),
            Self::InvalidPolicy { why } => write!(f, "RolloutPolicy {why}"),
        }
    }
}
