//! `slipway release sign`: signatures of a release image, in a directory or beside it in its
//! registry.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use images::{ImageLocation, Stores};
use jiff::Timestamp;
use release::claim::Claim;
use signatures::sigstore::SigstoreSigner;
use signatures::{Signer, store};

use crate::access::{AccessArgs, open};
use crate::failure::Several;
use crate::image_signatures::{self, SigningArgs, first_line};
use crate::output::print;
use crate::payload;

/// The `creator` of a statement.
pub(crate) const CREATOR: &str = concat!("slipway ", env!("CARGO_PKG_VERSION"));

/// `slipway release sign`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("by").required(true).multiple(true).args(["key", "sigstore_key"]))]
pub struct SignArgs {
    /// Release image
    pub image: ImageLocation,
    /// OpenPGP secret key, as `gpg --export-secret-keys` writes it
    #[arg(long, value_name = "FILE", requires = "store")]
    pub key: Option<PathBuf>,
    /// File with the OpenPGP key's passphrase in its first line
    #[arg(long, value_name = "FILE", requires = "key")]
    pub passphrase_file: Option<PathBuf>,
    /// Directory of OpenPGP signatures: sha256=<digits>/signature-<n> is added
    #[arg(long, value_name = "DIRECTORY", requires = "key")]
    pub store: Option<PathBuf>,
    /// Sigstore.
    #[command(flatten)]
    pub signing: SigningArgs,
    /// Sign the images of the release beside it, too, each as the release names it
    #[arg(long, requires = "sigstore_key")]
    pub images: bool,
    /// Name that the image is signed under [default: the image as named]
    #[arg(long, value_name = "NAME")]
    pub reference: Option<String>,
    /// Registries.
    #[command(flatten)]
    pub access: AccessArgs,
}

pub(crate) async fn run(arguments: SignArgs) -> anyhow::Result<()> {
    let openpgp = match &arguments.key {
        Some(path) => Some(signer(path, arguments.passphrase_file.as_deref())?),
        None => None,
    };
    let sigstore = arguments.signing.signer()?;
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
    if let (Some(signer), Some(store)) = (openpgp, &arguments.store) {
        let now = Timestamp::now();
        let claim = Claim {
            digest: digest.clone(),
            reference: reference.clone(),
            creator: Some(CREATOR.to_owned()),
            timestamp_secs: Some(now.as_second()),
        };
        let signature = signer.sign(&claim, now);
        let key = arguments.key.as_deref().unwrap_or_else(|| Path::new(""));
        let signature = signature.with_context(|| format!("key {}", key.display()))?;
        let path = store::add(store, &digest, &signature)?;
        print(format!(
            "{} signed as {} by key {}: {}\n",
            digest,
            claim.reference,
            signer.fingerprint(),
            path.display()
        ))?;
    }
    let Some(sigstore) = sigstore else {
        return Ok(());
    };
    let digests = image_signatures::digests(&release.image);
    let lines = image_signatures::sign(
        &stores,
        &sigstore,
        &arguments.image,
        &digests,
        (&reference, CREATOR),
    );
    print(lines.await?)?;
    if arguments.images {
        let images = release.payload.references.tags.iter();
        let images = images.map(|(name, tag)| (name.as_str(), tag.from.as_str()));
        sign_images(&stores, &sigstore, images).await?;
    }
    Ok(())
}

/// Signs images as they are named; each failure has a line, and does not keep others unsigned.
async fn sign_images(
    stores: &Stores,
    signer: &SigstoreSigner,
    images: impl Iterator<Item = (&str, &str)>,
) -> anyhow::Result<()> {
    let mut errors = Vec::new();
    for (name, from) in images {
        let lines = async {
            let location: ImageLocation = from.parse()?;
            if matches!(location, ImageLocation::Layout { .. }) {
                bail!("{from:?} is no image in a registry");
            }
            let image = open(stores, &location).await?;
            let digests = image_signatures::digests(&image);
            let named = (from, CREATOR);
            image_signatures::sign(stores, signer, &location, &digests, named).await
        };
        match lines.await {
            Ok(lines) => print(lines)?,
            Err(error) => errors.push(error.context(format!("image {name}"))),
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Several::new(errors).into())
}

fn signer(key: &Path, passphrase: Option<&Path>) -> anyhow::Result<Signer> {
    let shown = key.display();
    let passphrase = passphrase.map(first_line).transpose()?.unwrap_or_default();
    let bytes = std::fs::read(key).with_context(|| format!("cannot read {shown}"))?;
    Signer::parse(&bytes, &passphrase).with_context(|| format!("key {shown}"))
}
