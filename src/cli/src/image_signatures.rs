//! Sigstore signatures of images: made by a key, held against policies.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use api::config::ClusterImagePolicy;
use clap::Args;
use images::{ImageLocation, Stores};
use jiff::Timestamp;
use release::claim::Claim;
use release::{ImageDigest, Manifest};
use signatures::sigstore::{
    PulledImage, SignedImage, SigstorePolicy, SigstoreSigner, beside, demanding,
};

/// Names the key's password where no file does, as cosign takes it.
const PASSWORD: &str = "COSIGN_PASSWORD";

const PASSWORD_HELP: &str =
    "File with the key's password in its first line [default: $COSIGN_PASSWORD]";

/// Options of verbs that sign images.
#[derive(Debug, Clone, Args)]
pub struct SigningArgs {
    /// Secret key as cosign keeps it: a signature is put beside the image in its registry
    #[arg(long, value_name = "FILE")]
    pub sigstore_key: Option<PathBuf>,
    /// File with the key's password.
    #[arg(long, value_name = "FILE", requires = "sigstore_key", help = PASSWORD_HELP)]
    pub sigstore_password_file: Option<PathBuf>,
}

impl SigningArgs {
    /// Reads the key, if one is named.
    ///
    /// # Errors
    /// A file cannot be read, is no key, or the password is wrong.
    pub(crate) fn signer(&self) -> anyhow::Result<Option<SigstoreSigner>> {
        let Some(path) = &self.sigstore_key else {
            return Ok(None);
        };
        let password = match &self.sigstore_password_file {
            Some(path) => first_line(path)?,
            None => match std::env::var_os(PASSWORD).unwrap_or_default().into_string() {
                Ok(password) => password,
                Err(_) => bail!("${PASSWORD} is not UTF-8"),
            },
        };
        let signer = SigstoreSigner::parse(&read(path)?, &password);
        signer
            .map(Some)
            .with_context(|| format!("key {}", path.display()))
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The first line of a file of text: a password.
pub(crate) fn first_line(path: &Path) -> anyhow::Result<String> {
    let text = String::from_utf8(read(path)?);
    let text = text.with_context(|| format!("{} is not UTF-8", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Signs images of one repository under a name; of a list the list and each of its images. What
/// the same key has signed under this name is not signed again.
///
/// # Errors
/// An image is not there, or the registry does not take the signature.
pub(crate) async fn sign(
    stores: &Stores,
    signer: &SigstoreSigner,
    image: &ImageLocation,
    digests: &[ImageDigest],
    (reference, creator): (&str, &str),
) -> anyhow::Result<String> {
    let mut lines = String::new();
    for digest in digests {
        let claim = Claim {
            digest: digest.clone(),
            reference: reference.to_owned(),
            creator: Some(creator.to_owned()),
            // Without a time the same claim has the same bytes.
            timestamp_secs: None,
        };
        let signature = signer.sign(&claim)?;
        // What cannot be read is no reason to add nothing: the registry says so below.
        let there = beside::read(stores, image, digest).await;
        let mut there = there.unwrap_or_default().into_iter();
        if there.any(|one| one.payload == signature.payload && signer.has_made(&one)) {
            lines.extend([digest.as_str(), " is signed as ", reference, " already\n"]);
            continue;
        }
        let attached = beside::add(stores, image, digest, &signature)
            .await
            .with_context(|| format!("cannot put a signature beside {image}"))?;
        let referrer = if attached.is_referrer {
            ", and as a referrer"
        } else {
            ""
        };
        let line = format!(
            "{digest} signed as {reference} by key {}: {}{referrer}\n",
            signer.fingerprint(),
            attached.tag
        );
        lines.push_str(&line);
    }
    Ok(lines)
}

/// All digests of an image: its own, and of a list those of its images.
pub(crate) fn digests(image: &images::Image) -> Vec<ImageDigest> {
    let listed = image
        .list()
        .into_iter()
        .flat_map(|list| list.images.clone());
    [image.outer_digest().clone()]
        .into_iter()
        .chain(listed)
        .collect()
}

/// Reads ClusterImagePolicies from files of YAML or JSON.
///
/// # Errors
/// A file is none, has another object, or a policy cannot be used.
pub(crate) fn policies(paths: &[PathBuf]) -> anyhow::Result<Vec<SigstorePolicy>> {
    let mut policies = Vec::new();
    for path in paths {
        let shown = path.display().to_string();
        let manifests = Manifest::parse(&shown, &read(path)?)?;
        if manifests.is_empty() {
            bail!("{shown} has no object");
        }
        for manifest in &manifests {
            let policy = policy(manifest).with_context(|| shown.clone())?;
            let id = &manifest.id;
            policies.push(policy.ok_or_else(|| anyhow!("{shown}: {id} is no ClusterImagePolicy"))?);
        }
    }
    Ok(policies)
}

/// The policy of a manifest; none if it is of another kind.
///
/// # Errors
/// It cannot be used.
pub(crate) fn policy(manifest: &Manifest) -> anyhow::Result<Option<SigstorePolicy>> {
    let id = &manifest.id;
    if (id.group.as_str(), id.kind.as_str()) != ("config.openshift.io", "ClusterImagePolicy") {
        return Ok(None);
    }
    let object: ClusterImagePolicy =
        serde_json::from_value(manifest.object.clone()).with_context(|| id.to_string())?;
    Ok(Some(SigstorePolicy::parse(&object)?))
}

/// Holds what lies beside an image against the policies that are about it; none is about it where
/// the result is empty.
///
/// # Errors
/// One is not fulfilled.
pub(crate) async fn verify(
    stores: &Stores,
    policies: &[SigstorePolicy],
    image: &ImageLocation,
    digest: &ImageDigest,
) -> anyhow::Result<Vec<SignedImage>> {
    let name = image.pull_spec(digest);
    let name = name.map_or_else(|| image.to_string(), |spec| spec.to_string());
    let places = [image.clone()];
    let pulled = PulledImage {
        name: &name,
        digest,
        places: &places,
    };
    let mut signed = Vec::new();
    for policy in demanding(policies, &name) {
        signed.push(pulled.verify(stores, policy, Timestamp::now()).await?);
    }
    Ok(signed)
}
