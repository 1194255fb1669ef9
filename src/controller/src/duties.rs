//! Which of the program's duties a process has. They share nothing but the cluster's objects, so
//! that two processes can divide them, each under a lease of its own.

use crate::work::Work;

/// Duties of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Duties {
    /// All of them
    #[default]
    All,
    /// Renders the pools, and moves their nodes
    Pools,
    /// What the cluster has once: the release's images, its ClusterOperator, settings, certificates
    Cluster,
}

impl Duties {
    /// Whether pools are rendered, and nodes moved.
    pub const fn has_pools(self) -> bool {
        matches!(self, Self::All | Self::Pools)
    }

    /// Whether what the cluster has once is looked after.
    pub const fn has_cluster(self) -> bool {
        matches!(self, Self::All | Self::Cluster)
    }

    /// Name of the lease; upstream's, so that the two never lead at once.
    pub const fn lease(self) -> &'static str {
        match self {
            Self::All | Self::Pools => "machine-config-controller",
            Self::Cluster => "machine-config",
        }
    }

    /// Who speaks in events; upstream's.
    pub const fn speaker(self) -> &'static str {
        match self {
            Self::All | Self::Pools => "machineconfigcontroller",
            Self::Cluster => "machineconfigoperator",
        }
    }

    /// What the names of the process's own metrics begin with.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::All | Self::Pools => "mcc",
            Self::Cluster => "mco",
        }
    }

    /// Whether the work is one of them.
    pub(crate) const fn cover(self, work: &Work) -> bool {
        match work {
            Work::Settings | Work::Certificates | Work::Release => self.has_cluster(),
            Work::NewNodes
            | Work::NodeObjects
            | Work::Unused
            | Work::Generated
            | Work::Build(_)
            | Work::Pool(_) => self.has_pools(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_work_is_done_by_exactly_one_of_two_processes() {
        let pool = Work::Pool("worker".to_owned());
        let all = [
            (Work::NewNodes, Duties::Pools),
            (Work::NodeObjects, Duties::Pools),
            (Work::Unused, Duties::Pools),
            (Work::Generated, Duties::Pools),
            (pool, Duties::Pools),
            (Work::Build("worker".to_owned()), Duties::Pools),
            (Work::Settings, Duties::Cluster),
            (Work::Certificates, Duties::Cluster),
            (Work::Release, Duties::Cluster),
        ];
        for (work, duties) in all {
            assert!(Duties::All.cover(&work), "{work}");
            for one in [Duties::Pools, Duties::Cluster] {
                assert_eq!(one.cover(&work), one == duties, "{work}");
            }
        }
        // One that does all never works beside one that moves nodes.
        assert_eq!(Duties::All.lease(), Duties::Pools.lease());
        assert_ne!(Duties::Cluster.lease(), Duties::Pools.lease());
    }
}
