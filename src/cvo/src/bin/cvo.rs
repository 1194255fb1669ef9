//! The version operator: applies a release to a cluster and reports how far it is.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::process::ExitCode;

use anyhow::Context as _;
use chassis::logs::Log;
use chassis::program::{self, BUILD, VERSION};
use clap::Parser;
use cvo::cli::VersionOperatorArgs;
use cvo::process;

/// Applies a release to a cluster.
///
/// Exit codes: 0 done, 1 failed, 2 usage.
#[derive(Debug, Parser)]
#[command(name = "cvo", version = VERSION)]
enum Command {
    /// Runs until SIGTERM or SIGINT
    Start(Box<VersionOperatorArgs>),
    /// Prints version and build
    Version,
}

fn main() -> ExitCode {
    // Before there is another thread.
    chassis::memory::share_heap();
    program::main(run)
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Version => program::print(format_args!("{VERSION} {BUILD}")),
        Command::Start(arguments) => {
            let log = Log::init(arguments.log.to_settings()).context("cannot log")?;
            let random = RandomState::new().build_hasher().finish();
            let options = arguments.validate(operator::client::identity, random)?;
            operator::runtime()
                .context("cannot start the runtime")?
                .block_on(process::start(options, log))?;
        }
    }
    Ok(())
}
