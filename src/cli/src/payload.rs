//! A release image, read.

use anyhow::{Context as _, anyhow};
use images::content::{self, Layers};
use images::{Image, ImageLocation, Stores};
use release::payload::{Files, Payload};
use release::{METADATA_FILE, REFERENCES_FILE, RELEASE_MANIFESTS};

use crate::access::open;

/// Largest file of manifests that is read. The largest of OpenShift's releases are CRDs of some 0.5
/// MB.
pub(crate) const FILE_MAX_BYTES: u64 = 16 << 20;

/// The error for an image whose content does not match its digest.
const TAMPERED: &str =
    "the release image failed content verification and may have been tampered with";

pub(crate) struct Release {
    pub(crate) image: Image,
    pub(crate) files: Files,
    pub(crate) payload: Payload,
}

/// Reads a release image whole.
///
/// # Errors
/// It is not there, it is damaged, or it is no release.
pub(crate) async fn read(stores: &Stores, location: &ImageLocation) -> anyhow::Result<Release> {
    let (image, files) = read_files(stores, location).await?;
    let payload = Payload::parse(&files).with_context(|| format!("image {location}"))?;
    Ok(Release {
        image,
        files,
        payload,
    })
}

/// Reads the files of a release image.
///
/// # Errors
/// It is not there, it is damaged, or it has no files of a release.
pub(crate) async fn read_files(
    stores: &Stores,
    location: &ImageLocation,
) -> anyhow::Result<(Image, Files)> {
    let files = async {
        let image = open(stores, location).await?;
        let layers = Layers::Uppermost;
        let files =
            content::directory(stores, &image, RELEASE_MANIFESTS, layers, FILE_MAX_BYTES).await?;
        Ok((image, files))
    };
    let (image, files) = files.await.map_err(|error: images::Error| {
        let is_mismatch = error.is_mismatch();
        let error = anyhow::Error::new(error);
        if is_mismatch {
            error.context(TAMPERED)
        } else {
            error
        }
    })?;
    if ![METADATA_FILE, REFERENCES_FILE]
        .iter()
        .any(|file| files.contains_key(*file))
    {
        return Err(anyhow!(
            "image {location} is no release: it has no {RELEASE_MANIFESTS}/{METADATA_FILE}"
        ));
    }
    Ok((image, files))
}
