//! `mcd`: the node daemon, and an administrator's hand on one host.

use std::process::ExitCode;

use chassis::logs::{Log, Settings};
use chassis::report::{Chain, abort_on_panic};
use clap::{Parser, Subcommand};
use mcd::daemon::{self, cli::StartArgs};
use mcd::{first_boot, host_check, host_remove, pivot, rollback, status};

/// Keeps a node's operating system and configuration as the cluster asks.
#[derive(Debug, Parser)]
#[command(name = "mcd", version)]
struct Cli {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Watches this node and keeps it in the configuration that its Node asks for
    Start(Box<StartArgs>),
    #[command(name = "firstboot-complete-machineconfig")]
    FirstBoot(first_boot::Args),
    HostCheck(host_check::Args),
    HostRemove(host_remove::Args),
    Pivot(pivot::Args),
    Rollback(rollback::Args),
    Status(status::Args),
}

fn main() -> ExitCode {
    abort_on_panic();
    let command = Cli::parse().command;
    // The administrator's verbs print what they have to say themselves.
    let settings = if let Verb::Start(arguments) = &command {
        arguments.log.to_settings()
    } else {
        Settings::of_verbosity(1)
    };
    let Ok(log) = Log::init(settings) else {
        return ExitCode::FAILURE;
    };
    let result = match command {
        Verb::Start(arguments) => start(*arguments, log).map(|()| ExitCode::SUCCESS),
        Verb::FirstBoot(arguments) => first_boot::run(&arguments),
        Verb::HostCheck(arguments) => host_check::run(&arguments),
        Verb::HostRemove(arguments) => host_remove::run(&arguments),
        Verb::Pivot(arguments) => pivot::run(&arguments),
        Verb::Rollback(arguments) => rollback::run(&arguments),
        Verb::Status(arguments) => status::run(&arguments),
    };
    result.unwrap_or_else(|error| {
        tracing::error!(error = %Chain(error.as_ref()), "mcd ends");
        ExitCode::FAILURE
    })
}

fn start(arguments: StartArgs, log: Log) -> anyhow::Result<()> {
    let options = arguments.validate()?;
    // One thread does all; a second only looks up names, and needs no more than this to do it.
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .thread_stack_size(256 << 10)
        .build()?
        .block_on(daemon::run(options, log))
}
