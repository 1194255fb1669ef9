//! An image copied from place to place, byte for byte: with its digest, and of a list all images.

use oci_spec::image::{Descriptor, ImageIndex, ImageManifest, MediaType};
use release::ImageDigest;
use serde_json::Value;

use crate::document::{digest_of, is_list, parse};
use crate::error::Error;
use crate::location::ImageLocation;
use crate::store::Stores;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageCopy {
    /// Digest of the image, or of the list.
    pub digest: ImageDigest,
    /// Digests of the images of a list.
    pub images: Vec<ImageDigest>,
    /// Whether nothing was to be done: the place names the same image already.
    pub was_there: bool,
}

/// Copies an image, and of a list all of its images. What the place has already is not read again,
/// so that a copy that was interrupted goes on where it ended.
///
/// # Errors
/// [`Error`]: the image is not there or damaged, or the place does not take it.
pub async fn copy(
    stores: &Stores,
    from: &ImageLocation,
    to: &ImageLocation,
) -> Result<ImageCopy, Error> {
    let bytes = stores.manifest(from).await?;
    let digest = ImageDigest::of(&bytes);
    let mut images = Vec::new();
    if is_list(from, &bytes)? {
        let index: ImageIndex = parse(from, "manifest", &bytes)?;
        for descriptor in index.manifests() {
            images.push(digest_of(from, descriptor)?);
        }
    }
    let there = match stores.digest(to).await {
        Ok(there) => Some(there),
        // Registries refuse to say of a repository that is not made yet whether it is there. One
        // that refuses the copy too says so when it is put there.
        Err(error) if error.is_missing_or_refused() => None,
        Err(error) => return Err(error),
    };
    if there.as_ref() == Some(&digest) {
        return Ok(ImageCopy {
            digest,
            images,
            was_there: true,
        });
    }
    let from = from.with_digest(&digest);
    let document: Value = parse(&from, "manifest", &bytes)?;
    if is_list(&from, &bytes)? {
        for child in &images {
            let (from, to) = (from.with_digest(child), to.with_digest(child));
            let bytes = stores.manifest(&from).await?;
            put(stores, &from, &bytes, &to).await?;
        }
        let media_type = media_type(&document, &MediaType::ImageIndex);
        stores.put_manifest(to, &bytes, &media_type).await?;
    } else {
        put(stores, &from, &bytes, to).await?;
    }
    Ok(ImageCopy {
        digest,
        images,
        was_there: false,
    })
}

/// Puts the image of a manifest: its blobs first, so that it is whole or not there.
pub(crate) async fn put(
    stores: &Stores,
    from: &ImageLocation,
    bytes: &[u8],
    to: &ImageLocation,
) -> Result<(), Error> {
    let document: Value = parse(from, "manifest", bytes)?;
    let manifest: ImageManifest = parse(from, "manifest", bytes)?;
    let blobs = manifest.layers().iter().chain([manifest.config()]);
    for descriptor in blobs.filter(|blob| !is_elsewhere(blob)) {
        let digest = digest_of(from, descriptor)?;
        if !stores.has_blob(to, &digest).await? {
            let blob = stores.blob(from, descriptor).await?;
            stores.put_blob(to, &blob).await?;
        }
    }
    let media_type = media_type(&document, &MediaType::ImageManifest);
    stores.put_manifest(to, bytes, &media_type).await
}

/// Whether a layer is kept by its vendor's servers, and by no registry.
fn is_elsewhere(descriptor: &Descriptor) -> bool {
    let kind = descriptor.media_type().to_string();
    kind.contains(".foreign.") || kind.contains(".nondistributable.")
}

fn media_type(document: &Value, otherwise: &MediaType) -> String {
    let written = document.get("mediaType").and_then(Value::as_str);
    written.map_or_else(|| otherwise.to_string(), ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;
    use crate::Credentials;
    use crate::blob::Blob;
    use crate::layout::Layout;

    /// A layout with an image of one layer and a list of it.
    fn source(directory: &std::path::Path) -> (ImageLocation, ImageDigest) {
        let layout = Layout::new(directory, "source".to_owned());
        let blob = |text: &str| {
            let blob = Blob::of(text.as_bytes()).unwrap();
            layout.put_blob(&blob).unwrap();
            json!({"digest": blob.digest().as_str(), "size": text.len()})
        };
        let with = |mut descriptor: Value, media_type: &str| {
            descriptor["mediaType"] = json!(media_type);
            descriptor
        };
        let configuration = with(blob("{}"), "application/vnd.oci.image.config.v1+json");
        let layer = with(blob("layer"), "application/vnd.oci.image.layer.v1.tar");
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MediaType::ImageManifest.to_string(),
            "config": configuration, "layers": [layer]
        });
        let manifest = with(
            blob(&manifest.to_string()),
            MediaType::ImageManifest.as_ref(),
        );
        let list = json!({ "schemaVersion": 2, "manifests": [manifest] }).to_string();
        let list = Blob::of(list.as_bytes()).unwrap();
        layout
            .put_manifest(Some("list"), &list, MediaType::ImageIndex)
            .unwrap();
        let location = format!("oci:{}:list", directory.display());
        (location.parse().unwrap(), list.digest().clone())
    }

    #[tokio::test]
    async fn a_list_is_copied_with_its_images_and_only_once() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (location, digest) = source(from.path());
        let target: ImageLocation = format!("oci:{}:copy", to.path().display()).parse().unwrap();
        let stores = Stores::new(Credentials::default(), false);
        let first = copy(&stores, &location, &target).await.unwrap();
        assert_eq!((&first.digest, first.was_there), (&digest, false));
        let blobs = |directory: &std::path::Path| {
            let blobs = std::fs::read_dir(directory.join("blobs/sha256")).unwrap();
            let mut names: Vec<_> = blobs.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(blobs(to.path()), blobs(from.path()));
        assert!(copy(&stores, &location, &target).await.unwrap().was_there);
    }

    #[tokio::test]
    async fn a_damaged_image_is_not_copied() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (location, _) = source(from.path());
        let layer = Blob::of(b"layer").unwrap();
        let path = from.path().join("blobs/sha256").join(layer.digest().hex());
        let mut file = std::fs::File::create(path).unwrap();
        file.write_all(b"other").unwrap();
        let target: ImageLocation = format!("oci:{}:copy", to.path().display()).parse().unwrap();
        let stores = Stores::new(Credentials::default(), false);
        let error = copy(&stores, &location, &target).await.unwrap_err();
        assert!(error.is_mismatch(), "{error}");
        assert!(stores.digest(&target).await.is_err());
    }
}
