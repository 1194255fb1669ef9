//! `mcd-os`: acts on the host it runs on, one shot at a time.

use std::process::ExitCode;

use chassis::report::abort_on_panic;
use clap::Parser as _;
use mcd::os::{Cli, run};

fn main() -> ExitCode {
    abort_on_panic();
    run(&Cli::parse())
}
