//! Verbs and options of `slipway upgrade`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use release::Version;

use crate::decide::upgrade::request::UpgradeWish;
use crate::decide::upgrade::status::StatusDetails;
use crate::kubeconfig::ClusterArgs;
use crate::stopping::ReasonArgs;

/// `slipway upgrade`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
pub struct UpgradeArgs {
    /// What else is done.
    #[command(subcommand)]
    pub verb: Option<UpgradeVerb>,
    /// Update to this version
    #[arg(long, value_name = "VERSION")]
    pub to: Option<String>,
    /// Update to this release image
    #[arg(long, value_name = "IMAGE")]
    pub to_image: Option<String>,
    /// Update to the newest release
    #[arg(long)]
    pub to_latest: bool,
    /// Change to the same release for several architectures
    #[arg(long)]
    pub to_multi_arch: bool,
    /// Take the request for an update back
    #[arg(long)]
    pub clear: bool,
    /// Waive the cluster's own checks of signature and preconditions
    #[arg(long)]
    pub force: bool,
    /// Take an image that is not one of the updates
    #[arg(long)]
    pub allow_explicit_upgrade: bool,
    /// Go on although the cluster is failing or is being updated
    #[arg(long)]
    pub allow_upgrade_with_warnings: bool,
    /// Take a conditional update that is not recommended
    #[arg(long)]
    pub allow_not_recommended: bool,
    /// Show conditional updates that are not recommended, too
    #[arg(long)]
    pub include_not_recommended: bool,
    /// An update of the control plane alone.
    #[command(flatten)]
    pub control_plane_only: ControlPlaneOnlyArgs,
    /// Have the API server check the change, and change nothing
    #[arg(long, global = true)]
    pub dry_run: bool,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// What is done about updates.
#[derive(Debug, Subcommand)]
pub enum UpgradeVerb {
    /// How far an update is
    Status {
        /// Which details are shown
        #[arg(long, value_name = "DETAILS", value_enum, default_value_t = StatusDetails::None)]
        details: StatusDetails,
        /// File with alerts, as Prometheus answers them [default: the cluster's]
        #[arg(long, value_name = "FILE")]
        alerts: Option<PathBuf>,
    },
    /// Which updates there are, and what speaks against them
    Recommend {
        /// One update
        #[arg(long, value_name = "VERSION")]
        version: Option<Version>,
        /// All updates, not only the newest
        #[arg(long)]
        show_outdated_releases: bool,
        /// Issues that are accepted
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        accept: Vec<String>,
        /// Print errors only
        #[arg(long)]
        quiet: bool,
        /// File with alerts, as Prometheus answers them [default: the cluster's]
        #[arg(long, value_name = "FILE")]
        alerts: Option<PathBuf>,
    },
    /// Change the channel; without a name, clear it
    Channel {
        /// The channel
        channel: Option<String>,
        /// Take a channel that does not hold the present release
        #[arg(long)]
        allow_explicit_channel: bool,
    },
    /// Accept risks of conditional updates; NAME- takes one back
    Accept {
        /// Names of risks
        #[arg(value_name = "NAME", value_delimiter = ',')]
        risks: Vec<String>,
        /// Accept these only
        #[arg(long)]
        replace: bool,
        /// Accept none
        #[arg(long)]
        clear: bool,
    },
    /// When operators and nodes were updated, of the last update
    Timeline {
        /// Write the picture to this file, or to standard output
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
        svg: Option<PathBuf>,
    },
    /// Check a release before it is requested, without a change: all that fails is shown at once.
    /// Without --to and --to-image, show what was found last
    Preflight(PreflightArgs),
    /// Stop the cluster: no node, no run level of a release and no step of a managed upgrade
    /// begins; what has begun is finished
    Stop(ReasonArgs),
    /// Let a stopped cluster go on
    Go,
    /// Return to the release before
    Rollback {
        /// Return over a minor version; the release before must list the present one as a source
        #[arg(long)]
        allow_minor: bool,
    },
}

/// `slipway upgrade --control-plane-only`.
#[derive(Debug, Args)]
pub struct ControlPlaneOnlyArgs {
    /// Update the control plane alone over two minor releases, to --to, and then each other node
    /// once. Run again, it goes on where it was; with --clear it ends and resumes the pools
    #[arg(long, conflicts_with_all = [
        "to_image", "to_latest", "to_multi_arch", "force", "allow_explicit_upgrade",
        "allow_upgrade_with_warnings", "include_not_recommended"
    ])]
    pub control_plane_only: bool,
    /// Release of the minor release between [default: the newest from which --to is reached]
    #[arg(long, value_name = "VERSION", requires = "control_plane_only")]
    pub through: Option<Version>,
    /// Do what can be done now, and do not wait; a later run goes on
    #[arg(long, requires = "control_plane_only")]
    pub no_wait: bool,
    /// Seconds to wait for the end; a later run goes on
    #[arg(long, value_name = "SECONDS", requires = "control_plane_only", default_value_t = 86_400,
          value_parser = clap::value_parser!(u64).range(1..=2_592_000))]
    pub wait_secs: u64,
    /// Update service with the graph [default: spec.upstream of ClusterVersion]
    #[arg(
        long,
        value_name = "ADDRESS",
        requires = "control_plane_only",
        conflicts_with = "through"
    )]
    pub upstream: Option<String>,
    /// Authorities in PEM that its certificate is checked against [default: the system's]
    #[arg(
        long,
        value_name = "FILE",
        requires = "control_plane_only",
        conflicts_with = "through"
    )]
    pub certificate_authority: Option<PathBuf>,
    /// Architecture of the graph [default: multi for a cluster of several, else amd64]
    #[arg(
        long,
        value_name = "ARCH",
        requires = "control_plane_only",
        conflicts_with = "through"
    )]
    pub arch: Option<String>,
}

/// `slipway upgrade preflight`.
#[derive(Debug, Args)]
pub struct PreflightArgs {
    /// Check this version: one that is offered, or was applied before
    #[arg(long, value_name = "VERSION")]
    pub to: Option<String>,
    /// Check this release image, by its digest
    #[arg(long, value_name = "IMAGE")]
    pub to_image: Option<String>,
    /// Remove the request and what was found
    #[arg(long)]
    pub clear: bool,
    /// Seconds to wait for the end; the check itself goes on
    #[arg(long, value_name = "SECONDS", default_value_t = 1200,
          value_parser = clap::value_parser!(u64).range(..=604_800))]
    pub timeout_secs: u64,
}

impl UpgradeArgs {
    pub(crate) fn wish(&self) -> UpgradeWish {
        UpgradeWish {
            to: self.to.clone(),
            to_image: self.to_image.clone(),
            to_latest: self.to_latest,
            to_multi_arch: self.to_multi_arch,
            clear: self.clear,
            force: self.force,
            allow_explicit_upgrade: self.allow_explicit_upgrade,
            allow_upgrade_with_warnings: self.allow_upgrade_with_warnings,
            allow_not_recommended: self.allow_not_recommended,
        }
    }
}
