//! The command line of `mcd-os`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// Acts on the operating system of the host it runs on.
///
/// Exit codes: 0 done, 1 failed, 2 usage, 3 refused (nothing was changed), 4 needs reboot.
#[derive(Debug, Parser)]
#[command(name = "mcd-os", version)]
pub struct Cli {
    /// Writes what became of it to this file, as JSON, also on failure.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Pulls an OS image into the host's repository and holds it there; nothing becomes bootable
    Fetch {
        /// Pull spec, without transport.
        image: String,
    },
    /// Finds out whether a plan could be applied, on a deployment that is made and thrown away
    Rehearse {
        /// Directory with plan.json and blobs.
        #[arg(value_name = "PLAN_DIR")]
        plan: String,
    },
    /// Applies a plan; what was begun before is continued
    Apply {
        /// Directory with plan.json and blobs.
        #[arg(value_name = "PLAN_DIR")]
        plan: String,
        /// Leaves a target booted that cannot be proved, for people to look at.
        #[arg(long)]
        stay: bool,
    },
    /// Takes back what is under way
    Rollback,
    /// Shows the deployments of this host and what is under way
    Deployments {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// What runs at boot: compares the booted deployment with the journal
    Guard(Guard),
    /// Has the repository bring each object to disk by itself, as beside etcd
    SyncEachObject,
    /// Checks the host against the configuration it is recorded to be in
    Verify,
}

/// Arguments of the guard.
#[derive(Debug, Args)]
pub struct Guard {
    /// Proves the booted target by its checks, or goes back.
    #[arg(long, conflicts_with = "install")]
    pub prove: bool,
    /// Installs the units that run the guard at boot.
    #[arg(long)]
    pub install: bool,
    /// Seconds that the checks may take to hold.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    deadline: u64,
}

impl Guard {
    /// How long the checks may take to hold.
    pub const fn deadline(&self) -> Duration {
        Duration::from_secs(self.deadline)
    }
}

impl Verb {
    /// Whether `/sysroot` and `/boot` have to be writable for it.
    pub const fn writes_deployments(&self) -> bool {
        match self {
            Self::Fetch { .. }
            | Self::Rehearse { .. }
            | Self::Apply { .. }
            | Self::Rollback
            | Self::SyncEachObject => true,
            Self::Guard(guard) => !guard.install,
            Self::Deployments { .. } | Self::Verify => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_is_understood_as_the_daemon_writes_it() {
        for line in [
            "mcd-os --report /run/slipway/fetch-a.json fetch quay.io/os@sha256:1",
            "mcd-os rehearse /var/lib/slipway/plans/a",
            "mcd-os apply /var/lib/slipway/plans/a --stay",
            "mcd-os rollback",
            "mcd-os deployments --json",
            "mcd-os guard",
            "mcd-os guard --prove --deadline 60",
            "mcd-os guard --install",
            "mcd-os sync-each-object",
            "mcd-os verify",
        ] {
            Cli::try_parse_from(line.split(' ')).unwrap();
        }
        assert!(Cli::try_parse_from(["mcd-os", "guard", "--prove", "--install"]).is_err());
    }
}
