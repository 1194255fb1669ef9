//! `mcd-os`: acts on the host it runs on, one shot at a time.

use std::process::ExitCode;

use clap::Parser as _;
use mcd::os::{Cli, run};

fn main() -> ExitCode {
    run(&Cli::parse())
}
