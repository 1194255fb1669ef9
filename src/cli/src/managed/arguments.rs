//! Verbs and options of `slipway managed`.

use clap::{Args, Subcommand};

use crate::decide::managed::request::ScheduleWish;
use crate::kubeconfig::ClusterArgs;

/// `slipway managed`.
#[derive(Debug, Args)]
pub struct ManagedArgs {
    /// What is done.
    #[command(subcommand)]
    pub verb: ManagedVerb,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// What is done about an upgrade on a date.
#[derive(Debug, Subcommand)]
pub enum ManagedVerb {
    /// Its steps, the next window, what each gate says now, and when it ends
    Plan,
    /// Ask for an upgrade on a date, or change the one that was asked for
    Schedule {
        /// What is asked for.
        #[command(flatten)]
        wish: ScheduleWish,
        /// Have the API server check the change, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Withdraw it, unless it has changed the cluster
    Cancel {
        /// Have the API server check the change, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// How far it is, and what it waits for
    Status,
}

impl ManagedArgs {
    /// Whether nothing is to be changed.
    pub(crate) const fn is_dry(&self) -> bool {
        match &self.verb {
            ManagedVerb::Schedule { dry_run, .. } | ManagedVerb::Cancel { dry_run } => *dry_run,
            ManagedVerb::Plan | ManagedVerb::Status => false,
        }
    }
}
