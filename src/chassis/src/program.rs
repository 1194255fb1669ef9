//! A program from its command line to its exit code, and which build it is.

use std::error::Error;
use std::fmt::Display;
use std::process::ExitCode;

use clap::Parser;

use crate::report::{Chain, abort_on_panic};

/// Version of the release, compared as an opaque string: `SLIPWAY_VERSION` at the time of building,
/// else the package's version.
pub const VERSION: &str = match option_env!("SLIPWAY_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Name of the build, as a rendered configuration carries it: `SLIPWAY_COMMIT` at the time of
/// building, else the version.
pub const BUILD: &str = match option_env!("SLIPWAY_COMMIT") {
    Some(commit) => commit,
    None => VERSION,
};

/// Reads the command line and runs it. Exits with 0; with 1 after an error, which is printed after
/// the program's name; with 2 where the command line is invalid. A panic ends the process.
pub fn main<C: Parser, E: AsRef<dyn Error + Send + Sync>>(
    run: impl FnOnce(C) -> Result<(), E>,
) -> ExitCode {
    abort_on_panic();
    let Err(error) = run(C::parse()) else {
        return ExitCode::SUCCESS;
    };
    #[expect(clippy::print_stderr, reason = "the process's last word")]
    {
        eprintln!("{}: {}", C::command().get_name(), Chain(error.as_ref()));
    }
    ExitCode::FAILURE
}

/// Prints the response to a command on standard output, for example a version.
pub fn print(line: impl Display) {
    #[expect(clippy::print_stdout, reason = "the command's output")]
    {
        println!("{line}");
    }
}
