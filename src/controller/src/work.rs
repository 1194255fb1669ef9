//! What is reconciled alone, and wakes alone.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Initial labels of nodes.
    NewNodes,
    NodeObjects,
    /// Rendered configurations that nothing uses.
    Unused,
    /// The cluster's settings, and their status.
    Settings,
    /// The certificates that the ControllerConfig names in its status.
    Certificates,
    /// MachineConfigs that other objects ask for.
    Generated,
    /// The release's images, and the ClusterOperator.
    Release,
    /// The OS image of the MachineOSConfig of this name.
    Build(String),
    /// The pool of this name.
    Pool(String),
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewNodes => f.write_str("new nodes"),
            Self::NodeObjects => f.write_str("MachineConfigNodes"),
            Self::Unused => f.write_str("unused configurations"),
            Self::Settings => f.write_str("settings"),
            Self::Certificates => f.write_str("certificates"),
            Self::Generated => f.write_str("generated configurations"),
            Self::Release => f.write_str("release"),
            Self::Build(name) => write!(f, "OS image of {name}"),
            Self::Pool(name) => write!(f, "pool {name}"),
        }
    }
}
