//! The controller: renders the configuration of each pool and moves its nodes to it.

use std::process::ExitCode;

use anyhow::Context as _;
use chassis::logs::Log;
use clap::{Parser, Subcommand};
use controller::cli::{self, ControllerArgs, RenderArgs};
use controller::process;
use controller::version::{BUILD, VERSION};

/// Renders machine configurations and rolls them out.
///
/// Exit codes: 0 done, 1 failed, 2 usage.
#[derive(Debug, Parser)]
#[command(name = "mcc", version = VERSION)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs until SIGTERM or SIGINT
    Start(Box<ControllerArgs>),
    /// Renders every pool as the environment's release would, for a rehearsal
    Render(Box<RenderArgs>),
    /// Prints version and build
    Version,
}

fn main() -> ExitCode {
    chassis::report::abort_on_panic();
    let Err(error) = run(Cli::parse()) else {
        return ExitCode::SUCCESS;
    };
    #[expect(clippy::print_stderr, reason = "the process's last word")]
    {
        eprintln!("mcc: {}", chassis::report::Chain(error.as_ref()));
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
        Command::Render(arguments) => {
            let _log = Log::init(arguments.log.to_settings()).context("cannot log")?;
            let options = arguments.validate(cli::variable)?;
            block_on(process::render(options))
        }
        Command::Start(arguments) => {
            let log = Log::init(arguments.log.to_settings()).context("cannot log")?;
            let options = arguments.validate(operator::client::identity)?;
            block_on(process::start(options, log))
        }
    }
}

fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    operator::runtime()
        .context("cannot start the runtime")?
        .block_on(work)
}
