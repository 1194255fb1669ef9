//! `slipway release verify`: signatures held against a release image, without a cluster.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use images::ImageLocation;
use jiff::Timestamp;
use release::ImageDigest;
use signatures::sigstore::SignedImage;
use signatures::{Keyring, store, verify};

use crate::access::{AccessArgs, open};
use crate::image_signatures;
use crate::output::{print, warn};

/// `slipway release verify`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("by").required(true).multiple(true).args(["key", "policy"]))]
pub struct VerifyArgs {
    /// Release image
    pub image: ImageLocation,
    /// OpenPGP public keys; each file is a keyring, and each keyring needs a signature
    #[arg(long, value_name = "FILE", requires = "store")]
    pub key: Vec<PathBuf>,
    /// Directory of OpenPGP signatures
    #[arg(long, value_name = "DIRECTORY", requires = "key")]
    pub store: Option<PathBuf>,
    /// ClusterImagePolicy, in YAML or JSON, that signatures beside the image have to fulfil
    #[arg(long, value_name = "FILE")]
    pub policy: Vec<PathBuf>,
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
    let policies = image_signatures::policies(&arguments.policy)?;
    if let Some(store) = &arguments.store {
        openpgp(&arguments, &digest, &keyrings, store)?;
    }
    if policies.is_empty() {
        return Ok(());
    }
    let stores = arguments.access.stores()?;
    let signed = image_signatures::verify(&stores, &policies, &arguments.image, &digest).await?;
    if signed.is_empty() {
        return Err(anyhow!(
            "no policy of --policy is about {}: its scopes leave it out",
            arguments.image
        ));
    }
    for image in signed {
        let SignedImage {
            policy,
            place,
            reference,
        } = image;
        print(format!(
            "{digest} signed as {reference} by ClusterImagePolicy {policy}: {place}\n"
        ))?;
    }
    Ok(())
}

/// Holds the signatures of a directory against the image.
fn openpgp(
    arguments: &VerifyArgs,
    digest: &ImageDigest,
    keyrings: &[Keyring],
    store: &Path,
) -> anyhow::Result<()> {
    let signatures = store::read(store, digest)?;
    let reference = arguments.reference.as_deref();
    match verify(digest, reference, keyrings, &signatures, Timestamp::now()) {
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
