//! `slipway`: release images and updates. As `kubectl-slipway` it is `kubectl slipway`.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _};
use slipway::cli::{PLUGIN, PLUGIN_COMPLETION, SlipwayArgs};
use slipway::failure::{Ending, Usage};

/// Exit code where options contradict each other; clap has the same for its own errors.
const USAGE: u8 = 2;

/// Exit code where a person should look.
const NEEDS_ATTENTION: u8 = 5;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let path = words.next().unwrap_or_default();
    let name = Path::new(&path).file_name();
    if name == Some(PLUGIN_COMPLETION.as_ref()) {
        return complete(words);
    }
    let mut command = SlipwayArgs::command();
    if name == Some(PLUGIN.as_ref()) {
        command = command.bin_name("kubectl slipway");
    }
    let cli = match SlipwayArgs::from_arg_matches(&command.get_matches()) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let error = match run(cli) {
        Ok(Ending::Done) => return ExitCode::SUCCESS,
        Ok(Ending::NeedsAttention) => return ExitCode::from(NEEDS_ATTENTION),
        Err(error) => error,
    };
    slipway::output::report(&error);
    if error.is::<Usage>() {
        return ExitCode::from(USAGE);
    }
    ExitCode::FAILURE
}

/// What may follow, for kubectl.
fn complete(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    match slipway::completion::print_candidates(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            slipway::output::report(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: SlipwayArgs) -> anyhow::Result<Ending> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(slipway::run(cli))
}
