//! `make release`: see the library.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use image_builder::push;
use release::PullSpec;
use release_builder::assembly::{ReleaseOptions, make};
use release_builder::release_image::SigningKey;

/// Makes a release of Slipway in a directory.
///
/// Exit codes: 0 done, 1 failed, 2 usage.
#[derive(Debug, Parser)]
struct Arguments {
    /// Version of the release, as Cargo.toml names it
    #[arg(long)]
    version: String,
    /// Repository below which the images are published, such as registry.example/slipway
    #[arg(long, value_name = "REPOSITORY")]
    registry: String,
    /// The checkout
    #[arg(long, default_value = ".")]
    checkout: PathBuf,
    /// Directory with the programs, as `make binaries` leaves it
    #[arg(long, default_value = "target/slipway")]
    programs: PathBuf,
    /// Directory of Debian packages that were fetched
    #[arg(long, default_value = "/var/cache/slipway/debian")]
    packages: PathBuf,
    /// Directory that the release is put into; one of a former run is replaced
    #[arg(long, default_value = "target/release-files")]
    out: PathBuf,
    /// Image of the hosts' OS: with it a release image is made
    #[arg(long, value_name = "IMAGE")]
    os: Option<PullSpec>,
    /// OpenPGP secret key that signs the release image and the checksums
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// File with the key's passphrase in its first line
    #[arg(long, value_name = "FILE", requires = "key")]
    passphrase_file: Option<PathBuf>,
    /// Where clusters find signatures: https://…, http://… or file://…; the release image carries
    /// the public key then
    #[arg(long, value_name = "ADDRESS", requires = "key")]
    verification_store: Vec<String>,
    /// Push the images
    #[arg(long)]
    push: bool,
    /// Read and push in registries without TLS or with an unknown certificate
    #[arg(long)]
    insecure: bool,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nowhere is left to report that standard error is closed.
            drop(writeln!(std::io::stderr(), "release-builder: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    let passphrase = arguments.passphrase_file;
    let options = ReleaseOptions {
        checkout: arguments.checkout,
        programs: arguments.programs,
        packages: arguments.packages,
        out: arguments.out,
        version: arguments.version,
        registry: arguments.registry.trim_end_matches('/').to_owned(),
        os: arguments.os,
        key: arguments.key.map(|file| SigningKey { file, passphrase }),
        is_insecure: arguments.insecure,
        stores: arguments.verification_store,
    };
    let images = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(make(&options))?;
    let mut out = std::io::stdout().lock();
    for image in &images {
        writeln!(out, "{} {}", image.name, image.digest)?;
    }
    if arguments.push {
        let layout = options.out.join("images");
        for image in &images {
            let pull_spec = push::push(&layout, image, &options.registry, arguments.insecure)?;
            writeln!(out, "pushed {pull_spec}")?;
        }
    }
    writeln!(
        out,
        "release {}: {}",
        options.version,
        options.out.display()
    )?;
    Ok(())
}
