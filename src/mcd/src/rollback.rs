//! `mcd rollback`: an administrator's way back on this host, without a cluster.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args as ClapArgs;

use crate::local_helper::{Helper, exit_code, reboot};
use crate::protocol::{HelperOutcome, Verb};

/// Reverts what is pending on this host, or else leads to its previous deployment
///
/// The previous deployment has its own configuration, and the target that is left is not tried
/// again until it is released. Exit codes: 0 done, 1 failed, 2 usage, 3 refused (nothing was
/// changed), 4 needs reboot.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Reboots into it, where that is needed.
    #[arg(short, long)]
    reboot: bool,
}

/// Rolls the host back.
///
/// # Errors
/// Where the helper is not to be had; what the helper says goes to standard error, and its exit
/// code is returned.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let helper = Helper::find()?;
    let is_under_way = helper.view()?.journal.is_some();
    let verb = if is_under_way {
        Verb::Rollback
    } else {
        Verb::BootPrevious
    };
    let code = helper.act(&verb)?.code;
    let code = code.with_context(|| format!("mcd-os {} was killed", verb.name()))?;
    let needs_reboot = HelperOutcome::of_exit_code(code) == Some(HelperOutcome::NeedsReboot);
    if needs_reboot && args.reboot {
        return reboot("the boot loader names the previous OS, but the host does not reboot");
    }
    exit_code(code)
}
