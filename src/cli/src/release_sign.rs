//! `slipway release sign`: a signature of a release image, in a directory of signatures.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::Args;
use images::ImageLocation;
use jiff::Timestamp;
use release::claim::Claim;
use signatures::{Signer, store};

use crate::access::AccessArgs;
use crate::output::print;
use crate::payload;

/// The `creator` of a statement.
const CREATOR: &str = concat!("slipway ", env!("CARGO_PKG_VERSION"));

/// `slipway release sign`.
#[derive(Debug, Args)]
pub struct SignArgs {
    /// Release image
    pub image: ImageLocation,
    /// OpenPGP secret key, as `gpg --export-secret-keys` writes it
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// File with the key's passphrase in its first line
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// Directory of signatures: sha256=<digits>/signature-<n> is added
    #[arg(long, value_name = "DIRECTORY")]
    pub store: PathBuf,
    /// Name that the image is signed under [default: the image as named]
    #[arg(long, value_name = "NAME")]
    pub reference: Option<String>,
    /// Registries.
    #[command(flatten)]
    pub access: AccessArgs,
}

pub(crate) async fn run(arguments: SignArgs) -> anyhow::Result<()> {
    let signer = signer(&arguments)?;
    let reference = match (&arguments.reference, &arguments.image) {
        (Some(reference), _) => reference.clone(),
        (None, image @ ImageLocation::Registry(_)) => image.to_string(),
        (None, image @ ImageLocation::Layout { .. }) => {
            return Err(anyhow!(
                "image {image} has no name in a registry: --reference names one"
            ));
        }
    };
    let stores = arguments.access.stores()?;
    // Read whole: what is no release is not signed as one.
    let release = payload::read(&stores, &arguments.image).await?;
    let digest = release.image.outer_digest().clone();
    let now = Timestamp::now();
    let claim = Claim {
        digest: digest.clone(),
        reference,
        creator: Some(CREATOR.to_owned()),
        timestamp_secs: Some(now.as_second()),
    };
    let signature = signer
        .sign(&claim, now)
        .with_context(|| format!("key {}", arguments.key.display()))?;
    let path = store::add(&arguments.store, &digest, &signature)?;
    print(format!(
        "{} signed as {} by key {}: {}\n",
        digest,
        claim.reference,
        signer.fingerprint(),
        path.display()
    ))
}

fn signer(arguments: &SignArgs) -> anyhow::Result<Signer> {
    let read = |path: &std::path::Path| {
        std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let passphrase = match &arguments.passphrase_file {
        Some(path) => {
            let text = String::from_utf8(read(path)?);
            let text = text.with_context(|| format!("{} is not UTF-8", path.display()))?;
            text.lines().next().unwrap_or_default().to_owned()
        }
        None => String::new(),
    };
    Signer::parse(&read(&arguments.key)?, &passphrase)
        .with_context(|| format!("key {}", arguments.key.display()))
}
