//! The controller: renders the configuration of each pool and moves its nodes to it.

use std::process::ExitCode;

use anyhow::Context as _;
use chassis::logs::Log;
use chassis::program::{self, BUILD, VERSION};
use clap::Parser;
use controller::cli::{self, ControllerArgs, RenderArgs};
use controller::process;

/// Renders machine configurations and rolls them out.
///
/// Exit codes: 0 done, 1 failed, 2 usage.
#[derive(Debug, Parser)]
#[command(name = "mcc", version = VERSION)]
enum Command {
    /// Runs until SIGTERM or SIGINT
    Start(Box<ControllerArgs>),
    /// Renders every pool as the environment's release would, for a rehearsal
    Render(Box<RenderArgs>),
    /// Prints version and build
    Version,
}

fn main() -> ExitCode {
    program::main(run)
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Version => {
            program::print(format_args!("{VERSION} {BUILD}"));
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
