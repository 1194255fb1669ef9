//! `slipway release verify`: signatures held against a release image, without a cluster.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use images::ImageLocation;
use jiff::Timestamp;
use release::ImageDigest;
use signatures::{Keyring, store, verify};

use crate::access::{AccessArgs, open};
use crate::output::{print, warn};

/// `slipway release verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Release image
    pub image: ImageLocation,
    /// OpenPGP public keys; each file is a keyring, and each keyring needs a signature
    #[arg(long, value_name = "FILE", required = true)]
    pub key: Vec<PathBuf>,
    /// Directory of signatures
    #[arg(long, value_name = "DIRECTORY")]
    pub store: PathBuf,
    /// Name that the image must be signed under [default: any]
    #[arg(long, value_name = "NAME")]
    pub reference: Option<String>,
    /// Registries.
    #[command(flatten)]
    pub access: AccessArgs,
}

pub(crate) async fn run(arguments: VerifyArgs) -> anyhow::Result<()> {
    let mut keyrings = Vec::new();
    for path in &arguments.key {
        keyrings.push(keyring(path)?);
    }
    let digest = digest(&arguments).await?;
    let signatures = store::read(&arguments.store, &digest)?;
    let reference = arguments.reference.as_deref();
    match verify(&digest, reference, &keyrings, &signatures, Timestamp::now()) {
        Ok(verified) => {
            for (keyring, fingerprint, claim) in verified.by {
                let reference = claim.reference;
                print(format!(
                    "{digest} signed as {reference} by key {fingerprint} of {keyring}\n"
                ))?;
            }
            Ok(())
        }
        Err(error) => {
            for reason in &error.reasons {
                warn(reason);
            }
            Err(error.into())
        }
    }
}

/// The digest that the image is named by, or that it has.
async fn digest(arguments: &VerifyArgs) -> anyhow::Result<ImageDigest> {
    if let Some(digest) = arguments.image.digest()? {
        return Ok(digest);
    }
    let stores = arguments.access.stores()?;
    Ok(open(&stores, &arguments.image)
        .await?
        .outer_digest()
        .clone())
}

fn keyring(path: &Path) -> anyhow::Result<Keyring> {
    let shown = path.display();
    let name = path.file_stem().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| anyhow!("{shown} is no file name"))?;
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    Keyring::parse(name, &bytes).with_context(|| format!("key {shown}"))
}
