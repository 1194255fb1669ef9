//! `slipway`: release images and updates. As `kubectl-slipway` it is `kubectl slipway`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _};
use slipway::cli::{PLUGIN, SlipwayArgs};
use slipway::failure::{Ending, Usage};

/// Exit code where options contradict each other; clap has the same for its own errors.
const USAGE: u8 = 2;

/// Exit code where a person should look.
const NEEDS_ATTENTION: u8 = 5;

fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    let mut command = SlipwayArgs::command();
    if Path::new(&name).file_name() == Some(PLUGIN.as_ref()) {
        command = command.bin_name("kubectl slipway");
    }
    let cli = match SlipwayArgs::from_arg_matches(&command.get_matches()) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let error = match run(cli) {
        Ok(Ending::Done) => return ExitCode::SUCCESS,
        Ok(Ending::NeedsAttention) => return ExitCode::from(NEEDS_ATTENTION),
        Err(error) => error,
    };
    slipway::output::report(&error);
    if error.is::<Usage>() {
        return ExitCode::from(USAGE);
    }
    ExitCode::FAILURE
}

fn run(cli: SlipwayArgs) -> anyhow::Result<Ending> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(slipway::run(cli))
}
