//! The managed upgrade operator: upgrades a cluster on a date.

use std::process::ExitCode;

use anyhow::Context as _;
use chassis::logs::Log;
use chassis::program::{self, BUILD, VERSION};
use clap::Parser;
use managed_upgrade::cli::UpgradeOperatorArgs;
use managed_upgrade::process;

/// Upgrades a cluster on a date, by steps whose gates fail closed.
///
/// Exit codes: 0 done, 1 failed, 2 usage.
#[derive(Debug, Parser)]
#[command(name = "muo", version = VERSION)]
enum Command {
    /// Runs until SIGTERM or SIGINT
    Start(Box<UpgradeOperatorArgs>),
    /// Prints version and build
    Version,
}

fn main() -> ExitCode {
    chassis::memory::share_heap();
    program::main(run)
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Version => program::print(format_args!("{VERSION} {BUILD}")),
        Command::Start(arguments) => {
            let log = Log::init(arguments.log.to_settings()).context("cannot log")?;
            let options = arguments.validate(operator::client::identity)?;
            operator::runtime()
                .context("cannot start the runtime")?
                .block_on(process::start(options, log))?;
        }
    }
    Ok(())
}
