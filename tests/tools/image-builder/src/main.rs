//! `make images`: see the library.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::Parser;
use image_builder::{Architecture, Options, PackedParts, Packing, build_all, build_keys, push};
use release::verification::SignatureTrust;
use signatures::Keyring;

/// Makes an OCI image of each component.
///
/// Exit codes: 0 done, 1 failed, 2 usage.
#[derive(Debug, Parser)]
struct Arguments {
    /// The checkout
    #[arg(long, default_value = ".")]
    checkout: PathBuf,
    /// What the images are for: linux/amd64 or linux/arm64
    #[arg(long, default_value = "linux/amd64")]
    platform: Architecture,
    /// Directory with the programs, as `make binaries` leaves it; target/slipway, and
    /// target/slipway-arm64 for linux/arm64
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Directory of Debian packages that were fetched
    #[arg(long, default_value = "/var/cache/slipway/debian")]
    packages: PathBuf,
    /// Layout directory that the images are put into; emptied first; target/images, and
    /// target/images-arm64 for linux/arm64
    #[arg(long)]
    out: Option<PathBuf>,
    /// Where the images are pushed to, such as registry.example/slipway
    #[arg(long, value_name = "PREFIX")]
    push: Option<String>,
    /// Public keys of releases, for an image cluster-update-keys: once for each keyring; named by
    /// the file
    #[arg(long, value_name = "FILE", requires = "verification_store")]
    verification_key: Vec<PathBuf>,
    /// Where clusters find signatures: https://…, http://… or file://…
    #[arg(long, value_name = "ADDRESS", requires = "verification_key")]
    verification_store: Vec<String>,
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
    let architecture = arguments.platform;
    let folder = |name: &str| match architecture {
        Architecture::Amd64 => PathBuf::from(format!("target/{name}")),
        Architecture::Arm64 => PathBuf::from(format!("target/{name}-arm64")),
    };
    let options = Options {
        checkout: arguments.checkout,
        architecture,
        programs: arguments.programs.unwrap_or_else(|| folder("slipway")),
        packages: arguments.packages,
        out: arguments.out.unwrap_or_else(|| folder("images")),
        version: None,
        packing: Packing::Small,
        parts: PackedParts::default(),
    };
    let trust = trust(&arguments.verification_key, &arguments.verification_store)?;
    let making = async {
        let mut built = build_all(&options).await?;
        if let Some(trust) = &trust {
            built.push(build_keys(&options, trust).await?);
        }
        anyhow::Ok(built)
    };
    let built = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(making)?;
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

/// Keyrings by the names of their files, and where signatures are; none without keyrings.
fn trust(keys: &[PathBuf], stores: &[String]) -> anyhow::Result<Option<SignatureTrust>> {
    if keys.is_empty() {
        return Ok(None);
    }
    let mut trust = SignatureTrust {
        keyrings: BTreeMap::new(),
        stores: BTreeMap::new(),
    };
    for path in keys {
        let shown = path.display();
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{shown} is no file name"))?;
        Keyring::parse(name, &bytes).with_context(|| format!("key {shown}"))?;
        let other = trust.keyrings.insert(name.to_owned(), bytes);
        ensure!(other.is_none(), "two keys are named {name}");
    }
    for (number, address) in (1..).zip(stores) {
        let address = address.trim_end_matches('/').to_owned();
        trust.stores.insert(format!("{number}"), address);
    }
    Ok(Some(trust))
}
