//! The config server: serves new machines their Ignition configuration.

use std::process::ExitCode;

use anyhow::Context as _;
use chassis::logs::Log;
use chassis::program;
use clap::Parser;
use config_server::cli::ConfigServerArgs;
use config_server::process;

/// Answers new machines with the Ignition configuration of their pool.
///
/// Exit codes: 0 done, 1 failed, 2 usage.
#[derive(Debug, Parser)]
#[command(name = "mcs", version)]
enum Command {
    /// Runs until SIGTERM or SIGINT
    Start(Box<ConfigServerArgs>),
    /// Prints the version
    Version,
}

fn main() -> ExitCode {
    program::main(run)
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Version => program::print(env!("CARGO_PKG_VERSION")),
        Command::Start(arguments) => {
            let log = Log::init(arguments.log.to_settings()).context("cannot log")?;
            let options = arguments.validate()?;
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(process::WORKERS)
                .enable_all()
                .build()
                .context("cannot start the runtime")?
                .block_on(process::start(options, log))?;
        }
    }
    Ok(())
}
