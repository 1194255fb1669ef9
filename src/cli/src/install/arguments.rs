//! Options of `slipway install` and `slipway uninstall`.

use std::path::PathBuf;

use clap::Args;
use install::component::InstallComponent;
use release::PullSpec;

use crate::access::AccessArgs;
use crate::kubeconfig::ClusterArgs;

/// Options of `slipway install`.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
pub struct InstallArgs {
    /// What is installed besides what is installed already; several by commas or by several options
    /// [default: machine-config]
    #[arg(long = "component", value_name = "NAME", value_delimiter = ',', value_parser = component)]
    pub components: Vec<InstallComponent>,
    /// Release whose version operator is installed, and which that operator applies; by digest
    #[arg(long, value_name = "IMAGE")]
    pub release: Option<PullSpec>,
    /// Objects of a version, as a release brings them [default: share/slipway/manifests.json
    /// beside the program]
    #[arg(long, value_name = "FILE")]
    pub manifests: Option<PathBuf>,
    /// Print the objects, and ask no cluster
    #[arg(long)]
    pub render: bool,
    /// Say what would be applied and what is missing, and apply nothing
    #[arg(long, conflicts_with = "render")]
    pub check: bool,
    /// Do not start a pod on each node that looks at its host
    #[arg(long, conflicts_with = "render")]
    pub skip_host_check: bool,
    /// Take over from OpenShift's operators of the same work; uninstall restores them
    #[arg(long, conflicts_with = "render")]
    pub adopt: bool,
    /// Take fields that other field managers own
    #[arg(long, conflicts_with = "render")]
    pub force_conflicts: bool,
    /// How long the programs may take until they run, in seconds; 0 does not wait
    #[arg(
        long = "timeout",
        value_name = "SECONDS",
        default_value_t = 600,
        conflicts_with = "render"
    )]
    pub timeout_secs: u64,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Where the release is read.
    #[command(flatten)]
    pub registries: AccessArgs,
}

/// Options of `slipway uninstall`.
#[derive(Debug, Clone, Args)]
pub struct UninstallArgs {
    /// Also remove the definitions, and with them all MachineConfigs, pools and other objects of
    /// their kinds
    #[arg(long)]
    pub purge: bool,
    /// Say what would be removed and what stays, and remove nothing
    #[arg(long)]
    pub check: bool,
    /// End although hosts of nodes that are not Ready keep what Slipway has put there
    #[arg(long)]
    pub leave_hosts: bool,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

fn component(name: &str) -> Result<InstallComponent, String> {
    name.parse()
        .map_err(|error: install::component::ComponentError| error.to_string())
}
