//! `make images`: see the library.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use image_builder::{Options, Packing, build_all, push};

/// Makes an OCI image of each component.
///
/// Exit codes: 0 done, 1 failed, 2 usage.
#[derive(Debug, Parser)]
struct Arguments {
    /// The checkout
    #[arg(long, default_value = ".")]
    checkout: PathBuf,
    /// Directory with the programs, as `make binaries` leaves it
    #[arg(long, default_value = "target/slipway")]
    programs: PathBuf,
    /// Directory of Debian packages that were fetched
    #[arg(long, default_value = "/var/cache/slipway/debian")]
    packages: PathBuf,
    /// Layout directory that the images are put into; emptied first
    #[arg(long, default_value = "target/images")]
    out: PathBuf,
    /// Where the images are pushed to, such as registry.example/slipway
    #[arg(long, value_name = "PREFIX")]
    push: Option<String>,
    /// Push to a registry without TLS or with an unknown certificate
    #[arg(long, requires = "push")]
    insecure: bool,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nowhere is left to report that standard error is closed.
            drop(writeln!(std::io::stderr(), "image-builder: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    let options = Options {
        checkout: arguments.checkout,
        programs: arguments.programs,
        packages: arguments.packages,
        out: arguments.out,
        version: None,
        packing: Packing::Small,
    };
    let built = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(build_all(&options))?;
    let mut out = std::io::stdout().lock();
    for image in &built {
        writeln!(out, "{} {}", image.name, image.digest)?;
    }
    if let Some(prefix) = &arguments.push {
        for image in &built {
            let pull_spec = push::push(&options.out, image, prefix, arguments.insecure)?;
            writeln!(out, "pushed {pull_spec}")?;
        }
    }
    Ok(())
}
