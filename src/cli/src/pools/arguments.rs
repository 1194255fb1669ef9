//! Options of `slipway pool`, `slipway node` and `slipway watch`.

use clap::Args;

use crate::access::AccessArgs;
use crate::kubeconfig::ClusterArgs;
use crate::stopping::{NodeVerb, PoolVerb, ReasonArgs};

/// `slipway pool`.
#[derive(Debug, Args)]
pub struct PoolArgs {
    /// One MachineConfigPool [default: all]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Stop it, or let it go on [default: show it]
    #[arg(value_name = "VERB", value_enum)]
    pub verb: Option<PoolVerb>,
    /// Why it is stopped.
    #[command(flatten)]
    pub reason: ReasonArgs,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// `slipway node`.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// The Node
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Put it on hold, or release it [default: show it]
    #[arg(value_name = "VERB", value_enum, conflicts_with_all = ["try_drain", "plan_to"])]
    pub verb: Option<NodeVerb>,
    /// Why it is on hold.
    #[command(flatten)]
    pub reason: ReasonArgs,
    /// Ask the API server which pods it would let a drain evict now; no pod is evicted
    #[arg(long)]
    pub try_drain: bool,
    /// Print what the node would do to reach this MachineConfig from the one that it runs; of
    /// pool/NAME the one that the pool wants
    #[arg(long, value_name = "CONFIG", conflicts_with = "try_drain")]
    pub plan_to: Option<String>,
    /// With --plan-to: what changes in the OS image, its kernel and packages, and what is fetched;
    /// all layers of both images are read here
    #[arg(long, requires = "plan_to")]
    pub packages: bool,
    /// Registries.
    #[command(flatten)]
    pub access: AccessArgs,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// `slipway watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// One MachineConfigPool [default: all]
    #[arg(value_name = "POOL")]
    pub pool: Option<String>,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
