//! What lies beside an image in its repository: signatures, as cosign lays them out.
//!
//! One manifest has them as its layers, the annotations of each with it. It is found by a tag of
//! the image's digest, `sha256-<hex>.sig`; and as a referrer of the image, where the registry lists
//! these. Source: cosign's signature specification; OCI distribution specification, "Listing
//! Referrers".

use std::collections::BTreeMap;
use std::io;

use oci_client::Reference;
use oci_client::manifest::{ImageIndexEntry, OciImageIndex};
use oci_spec::image::{Descriptor, ImageManifest, MediaType};
use release::ImageDigest;
use serde_json::{Value, json};

use crate::blob::Blob;
use crate::copy::put;
use crate::document::{canonical, is_list, parse};
use crate::error::Error;
use crate::location::ImageLocation;
use crate::store::Stores;

/// Types of manifests that refer to an image: signatures of the form that is read here, and others.
const SIGNATURES: &str = "application/vnd.dev.cosign.artifact.sig.v1+json";
const BUNDLES: &str = "application/vnd.dev.sigstore.bundle";

/// Largest attachment that is read. A signed statement has some hundred bytes.
const MAX_BYTES: u64 = 64 << 10;

/// Most attachments of a manifest, and most manifests, that are read.
const MOST: usize = 32;

/// Where attachments are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// The tag of the image's digest.
    Tag,
    /// The registry's list of referrers, or the tag that has it in a registry without.
    Referrers,
}

/// A blob beside an image, and the annotations of its descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub content: Vec<u8>,
    pub annotations: BTreeMap<String, String>,
}

/// What lies beside an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attachments {
    pub found: Vec<Attachment>,
    /// What is there and was not read, and why.
    pub unread: Vec<String>,
}

/// Where an attachment was put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The tag that has it.
    pub tag: ImageLocation,
    /// Whether the registry lists it as a referrer, too.
    pub is_referrer: bool,
}

/// The tag beside an image of this digest; none in a layout directory.
pub fn tag(image: &ImageLocation, digest: &ImageDigest) -> Option<ImageLocation> {
    let ImageLocation::Registry(reference) = image else {
        return None;
    };
    let tag = format!("sha256-{}.sig", digest.hex());
    Some(ImageLocation::Registry(with_tag(reference, tag)))
}

fn with_tag(reference: &Reference, tag: String) -> Reference {
    let (registry, repository) = (reference.registry(), reference.repository());
    Reference::with_tag(registry.to_owned(), repository.to_owned(), tag)
}

/// What lies beside the image of this digest, of this media type.
///
/// # Errors
/// [`Error`]: the registry does not say, or what it has is damaged. That nothing is there is none.
pub async fn read(
    stores: &Stores,
    image: &ImageLocation,
    digest: &ImageDigest,
    beside: Beside,
    media_type: &str,
) -> Result<Attachments, Error> {
    let mut attachments = Attachments::default();
    let manifests = match beside {
        Beside::Tag => tag(image, digest).into_iter().collect(),
        Beside::Referrers => {
            let (places, unread) = referrers(stores, image, digest).await?;
            attachments.unread = unread;
            places
        }
    };
    for location in manifests {
        match stores.manifest(&location).await {
            Ok(bytes) => {
                one(stores, &location, &bytes, media_type, &mut attachments).await?;
            }
            Err(Error::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(attachments)
}

/// Manifests that refer to an image as its signatures; and what else does.
async fn referrers(
    stores: &Stores,
    image: &ImageLocation,
    digest: &ImageDigest,
) -> Result<(Vec<ImageLocation>, Vec<String>), Error> {
    let (mut places, mut unread) = (Vec::new(), Vec::new());
    for entry in listed(stores, image, digest).await? {
        let kind = entry.artifact_type.as_deref().unwrap_or_default();
        if kind.starts_with(BUNDLES) {
            unread.push(format!("{}: {kind} is not read", entry.digest));
        } else if kind == SIGNATURES {
            let digest = entry.digest.parse().map_err(|_| Error::Form {
                image: image.to_string(),
                form: format!("digest {} of a referrer", entry.digest),
            })?;
            places.push(image.with_digest(&digest));
        }
    }
    if places.len() > MOST {
        unread.push(format!("{} more referrers", places.len() - MOST));
        places.truncate(MOST);
    }
    Ok((places, unread))
}

async fn listed(
    stores: &Stores,
    image: &ImageLocation,
    digest: &ImageDigest,
) -> Result<Vec<ImageIndexEntry>, Error> {
    let ImageLocation::Registry(reference) = image.with_digest(digest) else {
        return Ok(Vec::new());
    };
    let list: OciImageIndex = stores.registries().referrers(&reference).await?;
    Ok(list.manifests)
}

async fn one(
    stores: &Stores,
    location: &ImageLocation,
    bytes: &[u8],
    media_type: &str,
    attachments: &mut Attachments,
) -> Result<(), Error> {
    if is_list(location, bytes)? {
        attachments.unread.push(format!("{location}: it is a list"));
        return Ok(());
    }
    let manifest: ImageManifest = parse(location, "manifest", bytes)?;
    for layer in manifest.layers() {
        let kind = layer.media_type().to_string();
        let why = if kind != media_type {
            Some(format!("{kind} is not read"))
        } else if layer.size() > MAX_BYTES {
            Some(format!("it is larger than {MAX_BYTES} bytes"))
        } else if attachments.found.len() >= MOST {
            Some(format!("more than {MOST} are not read"))
        } else {
            None
        };
        if let Some(why) = why {
            let digest = layer.digest();
            attachments
                .unread
                .push(format!("{location}: {digest}: {why}"));
            continue;
        }
        let attachment = Attachment {
            content: content(stores, location, layer).await?,
            annotations: annotations(layer),
        };
        if !attachments.found.contains(&attachment) {
            attachments.found.push(attachment);
        }
    }
    Ok(())
}

async fn content(
    stores: &Stores,
    location: &ImageLocation,
    layer: &Descriptor,
) -> Result<Vec<u8>, Error> {
    let blob = stores.blob(location, layer).await?;
    blob.bytes().map_err(|source| Error::Layer {
        image: location.to_string(),
        layer: layer.digest().to_string(),
        source,
    })
}

fn annotations(layer: &Descriptor) -> BTreeMap<String, String> {
    let annotations = layer.annotations().iter().flatten();
    let annotations = annotations.map(|(key, value)| (key.clone(), value.clone()));
    annotations.collect()
}

/// Puts an attachment beside the image of this digest, to those that are there.
///
/// # Errors
/// [`Error`]: the image is in a layout directory or not there, or the registry does not take it.
pub async fn add(
    stores: &Stores,
    image: &ImageLocation,
    digest: &ImageDigest,
    media_type: &str,
    attachment: &Attachment,
) -> Result<Attached, Error> {
    let unsupported = |form: &str| Error::Form {
        image: image.to_string(),
        form: form.to_owned(),
    };
    let Some(tag) = tag(image, digest) else {
        return Err(unsupported("a signature beside an image of a directory"));
    };
    let subject = stores.manifest(&image.with_digest(digest)).await?;
    let layers = match stores.manifest(&tag).await {
        Ok(bytes) if is_list(&tag, &bytes)? => {
            return Err(unsupported("a list where its signatures are"));
        }
        Ok(bytes) => {
            let manifest: Value = parse(&tag, "manifest", &bytes)?;
            let layers = manifest.get("layers").and_then(Value::as_array);
            layers.cloned().unwrap_or_default()
        }
        Err(error) if error.is_missing_or_refused() => Vec::new(),
        Err(error) => return Err(error),
    };
    let failed = |source| Error::Make {
        what: format!("image {tag}"),
        source,
    };
    let payload = Blob::of(&attachment.content).map_err(failed)?;
    let (configuration, manifest) = manifest(
        (digest, &subject),
        layers,
        &payload,
        (media_type, attachment),
    )
    .map_err(|error| failed(error.into()))?;
    let configuration = Blob::of(&configuration).map_err(failed)?;
    for blob in [&payload, &configuration] {
        stores.put_blob(&tag, blob).await?;
    }
    let media_type = MediaType::ImageManifest.to_string();
    stores.put_manifest(&tag, &manifest, &media_type).await?;
    let own = ImageDigest::of(&manifest);
    // That a registry does not list referrers is no fault: the tag has the signature.
    let listed = listed(stores, image, digest).await.unwrap_or_default();
    let is_referrer = listed.iter().any(|entry| entry.digest == own.as_str());
    Ok(Attached { tag, is_referrer })
}

/// Configuration and manifest of the attachments of an image, with one more.
fn manifest(
    (digest, subject): (&ImageDigest, &[u8]),
    mut layers: Vec<Value>,
    payload: &Blob,
    (media_type, attachment): (&str, &Attachment),
) -> serde_json::Result<(Vec<u8>, Vec<u8>)> {
    layers.push(json!({
        "mediaType": media_type,
        "digest": payload.digest(),
        "size": payload.size(),
        "annotations": attachment.annotations
    }));
    let digests: Vec<&Value> = layers
        .iter()
        .filter_map(|layer| layer.get("digest"))
        .collect();
    let configuration = canonical(&json!({
        "architecture": "",
        "config": {},
        "os": "",
        "rootfs": { "type": "layers", "diff_ids": digests }
    }))?;
    let document: Value = serde_json::from_slice(subject)?;
    let kind = document.get("mediaType").and_then(Value::as_str);
    let otherwise = if document.get("manifests").is_some() {
        MediaType::ImageIndex
    } else {
        MediaType::ImageManifest
    };
    let manifest = canonical(&json!({
        "schemaVersion": 2,
        "mediaType": MediaType::ImageManifest.to_string(),
        "artifactType": SIGNATURES,
        "config": {
            "mediaType": MediaType::ImageConfig.to_string(),
            "digest": ImageDigest::of(&configuration),
            "size": configuration.len()
        },
        "layers": layers,
        "subject": {
            "mediaType": kind.map_or_else(|| otherwise.to_string(), str::to_owned),
            "digest": digest,
            "size": subject.len()
        }
    }))?;
    Ok((configuration, manifest))
}

/// Copies what lies beside an image to beside its copy: the tag, and the referrers that hold
/// signatures, of any form. Returns how many manifests there are.
///
/// A registry that does not list referrers gets the list as a tag, as the specification has it.
///
/// # Errors
/// [`Error`]: the one registry does not say what it has, or the other does not take it.
pub async fn copy(
    stores: &Stores,
    from: &ImageLocation,
    to: &ImageLocation,
    digest: &ImageDigest,
) -> Result<usize, Error> {
    let (Some(tag_from), Some(tag_to)) = (tag(from, digest), tag(to, digest)) else {
        return Ok(0);
    };
    let mut count = 0;
    match crate::copy::copy(stores, &tag_from, &tag_to).await {
        Ok(_) => count += 1,
        Err(Error::Missing { .. }) => {}
        Err(error) => return Err(error),
    }
    let is_signature = |entry: &ImageIndexEntry| {
        let kind = entry.artifact_type.as_deref().unwrap_or_default();
        kind == SIGNATURES || kind.starts_with(BUNDLES)
    };
    let entries = listed(stores, from, digest).await?.into_iter();
    let entries: Vec<ImageIndexEntry> = entries.filter(is_signature).take(MOST).collect();
    for entry in &entries {
        let own: ImageDigest = entry.digest.parse().map_err(|_| Error::Form {
            image: from.to_string(),
            form: format!("digest {} of a referrer", entry.digest),
        })?;
        let (from, to) = (from.with_digest(&own), to.with_digest(&own));
        let bytes = stores.manifest(&from).await?;
        put(stores, &from, &bytes, &to).await?;
        count += 1;
    }
    if !entries.is_empty() {
        list(stores, to, digest, &entries).await?;
    }
    Ok(count)
}

/// Has a registry that lists no referrers have the list as a tag.
async fn list(
    stores: &Stores,
    image: &ImageLocation,
    digest: &ImageDigest,
    entries: &[ImageIndexEntry],
) -> Result<(), Error> {
    let mut all = listed(stores, image, digest).await?;
    let is_listed = |entry: &ImageIndexEntry| all.iter().any(|one| one.digest == entry.digest);
    let missing: Vec<_> = entries
        .iter()
        .filter(|entry| !is_listed(entry))
        .cloned()
        .collect();
    let ImageLocation::Registry(reference) = image else {
        return Ok(());
    };
    if missing.is_empty() {
        return Ok(());
    }
    all.extend(missing);
    let kind = MediaType::ImageIndex.to_string();
    let index = json!({ "schemaVersion": 2, "mediaType": kind, "manifests": all });
    let bytes = canonical(&index).map_err(|source| Error::Make {
        what: format!("the list of what refers to image {image}"),
        source: io::Error::from(source),
    })?;
    let tag = with_tag(reference, format!("sha256-{}", digest.hex()));
    stores
        .put_manifest(&ImageLocation::Registry(tag), &bytes, &kind)
        .await
}

#[cfg(test)]
mod tests;
