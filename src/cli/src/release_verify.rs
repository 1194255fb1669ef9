//! `slipway release verify`: signatures held against a release image, without a cluster.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use release::ImageDigest;
use signatures::{Keyring, store, verify};

use crate::access::open;
use crate::cli::VerifyArgs;
use crate::output::{print, warn};

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
