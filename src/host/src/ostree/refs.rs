//! Refs that keep fetched images in the repository while they are needed.

use std::collections::BTreeSet;

use node_update::pull::by_digest;
use ostree_ext::container::store;
use ostree_ext::container::{ImageReference, Transport};
use ostree_ext::gio::Cancellable;
use ostree_ext::{ostree, refescape};

use super::{Error, ErrorContext as _, FetchCause, Result};

/// Prefix of refs; the rest is the kept image's pull spec, escaped.
const PREFIX: &str = "slipway/image";

/// The ref that keeps an image.
pub(super) fn name(image: &str) -> Result<String> {
    refescape::prefix_escape_for_ref(PREFIX, image).map_err(|_| Error::PullSpec {
        image: image.to_owned(),
    })
}

/// The commit of a fetched image.
pub(super) fn commit_of(repo: &ostree::Repo, image: &str) -> Result<Option<String>> {
    let commit = repo
        .resolve_rev(&name(image)?, true)
        .during(|| format!("find {image}"))?;
    Ok(commit.map(Into::into))
}

/// Keeps a commit as an image's.
pub(super) fn keep(repo: &ostree::Repo, image: &str, commit: &str) -> Result<()> {
    repo.set_ref_immediate(None, &name(image)?, Some(commit), Cancellable::NONE)
        .during(|| format!("keep {image}"))
}

pub(super) fn kept(repo: &ostree::Repo) -> Result<BTreeSet<String>> {
    let flags = ostree::RepoListRefsExtFlags::empty();
    let refs = repo
        .list_refs_ext(Some(PREFIX), flags, Cancellable::NONE)
        .during(|| "list the kept images".to_owned())?;
    // A ref below the prefix that Slipway did not write is ignored.
    let unescape = |name: String| refescape::unprefix_unescape_ref(PREFIX, &name).ok();
    Ok(refs.into_keys().filter_map(unescape).collect())
}

/// Drops kept images that are not in `needed`, and returns their number. Their objects stay until
/// the next prune.
pub(super) fn drop_others(repo: &ostree::Repo, needed: &BTreeSet<String>) -> Result<usize> {
    let unneeded: Vec<String> = kept(repo)?
        .into_iter()
        .filter(|image| !needed.contains(image))
        .collect();
    for image in &unneeded {
        repo.set_ref_immediate(None, &name(image)?, None, Cancellable::NONE)
            .during(|| format!("drop {image}"))?;
        store::remove_image(repo, &reference(image)).map_err(|error| fetch_error(image, error))?;
    }
    if !unneeded.is_empty() {
        store::gc_image_layers(repo).map_err(|error| fetch_error("old layers", error))?;
    }
    Ok(unneeded.len())
}

/// Removes the refs of all kept images. What a deployment was made from stays.
pub(super) fn drop_refs(repo: &ostree::Repo) -> Result<()> {
    for image in kept(repo)? {
        repo.set_ref_immediate(None, &name(&image)?, None, Cancellable::NONE)
            .during(|| format!("drop {image}"))?;
    }
    Ok(())
}

/// An image in the library's form, by its digest where it has one.
pub(super) fn reference(image: &str) -> ImageReference {
    ImageReference {
        transport: Transport::Registry,
        name: by_digest(image).into_owned(),
    }
}

pub(super) fn fetch_error(
    image: &str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    let source = source.into();
    Error::Fetch {
        image: image.to_owned(),
        cause: FetchCause::of(&*source),
        source,
    }
}
