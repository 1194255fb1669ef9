//! Options of `slipway pool`, `slipway node` and `slipway watch`.

use clap::Args;

use crate::kubeconfig::ClusterArgs;

/// `slipway pool`.
#[derive(Debug, Args)]
pub struct PoolArgs {
    /// One MachineConfigPool [default: all]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
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
    /// Ask the API server which pods it would let a drain evict now; no pod is evicted
    #[arg(long)]
    pub try_drain: bool,
    /// Print what the node would do to reach this MachineConfig from the one that it runs
    #[arg(long, value_name = "CONFIG", conflicts_with = "try_drain")]
    pub plan_to: Option<String>,
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
