//! The config server: answers new machines with their Ignition configuration.

use std::process::ExitCode;

use anyhow::Context as _;
use chassis::logs::Log;
use clap::{Parser, Subcommand};
use config_server::cli::ConfigServerArgs;
use config_server::process;

/// Answers new machines with the Ignition configuration of their pool.
///
/// Exit codes: 0 done, 1 failed, 2 usage.
#[derive(Debug, Parser)]
#[command(name = "mcs", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs until SIGTERM or SIGINT
    Start(Box<ConfigServerArgs>),
    /// Prints the version
    Version,
}

fn main() -> ExitCode {
    chassis::report::abort_on_panic();
    let Err(error) = run(Cli::parse()) else {
        return ExitCode::SUCCESS;
    };
    #[expect(clippy::print_stderr, reason = "the process's last word")]
    {
        eprintln!("mcs: {}", chassis::report::Chain(error.as_ref()));
    }
    ExitCode::FAILURE
}

fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Version => {
            #[expect(clippy::print_stdout, reason = "what was asked for")]
            {
                println!("{}", env!("CARGO_PKG_VERSION"));
            }
            Ok(())
        }
        Command::Start(arguments) => {
            let log = Log::init(arguments.log.to_settings()).context("cannot log")?;
            let options = arguments.validate()?;
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(process::WORKERS)
                .enable_all()
                .build()
                .context("cannot start the runtime")?
                .block_on(process::start(options, log))
        }
    }
}
