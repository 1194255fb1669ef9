//! The version operator: applies a release to a cluster and reports how far it is.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::process::ExitCode;

use anyhow::Context as _;
use chassis::logs::Log;
use clap::{Parser, Subcommand};
use cvo::cli::VersionOperatorArgs;
use cvo::process;
use cvo::version::{BUILD, VERSION};

/// Applies a release to a cluster.
///
/// Exit codes: 0 done, 1 failed, 2 usage.
#[derive(Debug, Parser)]
#[command(name = "cvo", version = VERSION)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs until SIGTERM or SIGINT
    Start(Box<VersionOperatorArgs>),
    /// Prints version and build
    Version,
}

fn main() -> ExitCode {
    chassis::report::abort_on_panic();
    // Before there is another thread.
    chassis::memory::share_heap();
    let Err(error) = run(Cli::parse()) else {
        return ExitCode::SUCCESS;
    };
    #[expect(clippy::print_stderr, reason = "the process's last word")]
    {
        eprintln!("cvo: {}", chassis::report::Chain(error.as_ref()));
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
            let random = RandomState::new().build_hasher().finish();
            let options = arguments.validate(operator::client::identity, random)?;
            operator::runtime()
                .context("cannot start the runtime")?
                .block_on(process::start(options, log))
        }
    }
}
