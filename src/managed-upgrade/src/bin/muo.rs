//! The managed upgrade operator: upgrades a cluster on a date.

use std::process::ExitCode;

use anyhow::Context as _;
use chassis::logs::Log;
use clap::{Parser, Subcommand};
use managed_upgrade::cli::UpgradeOperatorArgs;
use managed_upgrade::process;
use managed_upgrade::version::{BUILD, VERSION};

/// Upgrades a cluster on a date, by steps whose gates fail closed.
///
/// Exit codes: 0 done, 1 failed, 2 usage.
#[derive(Debug, Parser)]
#[command(name = "muo", version = VERSION)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs until SIGTERM or SIGINT
    Start(Box<UpgradeOperatorArgs>),
    /// Prints version and build
    Version,
}

fn main() -> ExitCode {
    chassis::report::abort_on_panic();
    chassis::memory::share_heap();
    let Err(error) = run(Cli::parse()) else {
        return ExitCode::SUCCESS;
    };
    #[expect(clippy::print_stderr, reason = "the process's last word")]
    {
        eprintln!("muo: {}", chassis::report::Chain(error.as_ref()));
    }
    ExitCode::FAILURE
}

fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Version => {
            #[expect(clippy::print_stdout, reason = "what was asked for")]
            {
                println!("{VERSION} {BUILD}");
            }
            Ok(())
        }
        Command::Start(arguments) => {
            let log = Log::init(arguments.log.to_settings()).context("cannot log")?;
            let options = arguments.validate(operator::client::identity)?;
            operator::runtime()
                .context("cannot start the runtime")?
                .block_on(process::start(options, log))
        }
    }
}
