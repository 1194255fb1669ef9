//! The update service: answers which releases a cluster may be updated to.

use std::process::ExitCode;

use anyhow::Context as _;
use chassis::logs::Log;
use chassis::program;
use clap::Parser;
use update_service::cli::UpdateServiceArgs;
use update_service::process;
use update_service::settings::ServiceSettings;

/// Answers which releases a cluster may be updated to.
///
/// Exit codes: 0 done, 1 failed, 2 usage.
#[derive(Debug, Parser)]
#[command(name = "update-service", version)]
enum Command {
    /// Runs until SIGTERM or SIGINT
    Start(UpdateServiceArgs),
    /// Prints the version
    Version,
}

fn main() -> ExitCode {
    chassis::memory::share_heap();
    program::main(run)
}

fn runtime(workers: usize) -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(workers).enable_all().build();
    runtime.context("cannot start the runtime")
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Version => program::print(env!("CARGO_PKG_VERSION")),
        Command::Start(arguments) => {
            let log = Log::init(arguments.log.to_settings()).context("cannot log")?;
            let path = arguments.config.display();
            let text = std::fs::read_to_string(&arguments.config)
                .with_context(|| format!("cannot read {path}"))?;
            let settings = ServiceSettings::parse(&text).with_context(|| format!("file {path}"))?;
            // Both live longer than what runs on them.
            let (clients, status) = (runtime(process::WORKERS)?, runtime(1)?);
            clients.block_on(process::start(settings, log, status.handle()))?;
        }
    }
    Ok(())
}
