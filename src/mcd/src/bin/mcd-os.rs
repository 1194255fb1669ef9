//! `mcd-os`: acts on the host it runs on, one shot at a time.

use std::process::ExitCode;

use clap::Parser as _;
use mcd::os::{Cli, run};

fn main() -> ExitCode {
    // As a release does. The suites run a build that would unwind.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
    run(&Cli::parse())
}
