//! The switches by which people stop a pool.
//!
//! A stop begins nothing new, on any of the pool's nodes, until a person ends it. It is no
//! [`Hold`](crate::hold::Hold), which a fault of the pool's objects causes, and no
//! [`NodeHold`](api::machineconfiguration::NodeHold), which keeps one node out.

use std::fmt;

use api::stop::StopSwitch;

/// The switches that are set. One does not end the other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PoolStops {
    /// That of ClusterVersion `version`.
    pub cluster: Option<StopSwitch>,
    /// That of the pool.
    pub pool: Option<StopSwitch>,
}

impl PoolStops {
    /// Whether one is set.
    pub const fn are_set(&self) -> bool {
        self.cluster.is_some() || self.pool.is_some()
    }
}

/// Which switches are set, by whom, since when and why.
impl fmt::Display for PoolStops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cluster = self.cluster.as_ref().map(|it| ("cluster", it));
        let pool = self.pool.as_ref().map(|it| ("pool", it));
        for (number, (what, switch)) in cluster.into_iter().chain(pool).enumerate() {
            let separator = if number == 0 { "" } else { ", and " };
            write!(f, "{separator}the {what} is stopped {switch}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
