//! Refs by which fetched images are held until nobody needs them.

use std::collections::BTreeSet;

use ostree_ext::container::store;
use ostree_ext::container::{ImageReference, Transport};
use ostree_ext::gio::Cancellable;
use ostree_ext::{ostree, refescape};

use super::{Doing as _, Error, Result};

/// Below this a ref names the image it holds, escaped.
const PREFIX: &str = "slipway/image";

/// The ref that holds an image.
pub(super) fn name(image: &str) -> Result<String> {
    refescape::prefix_escape_for_ref(PREFIX, image).map_err(|_| Error::PullSpec {
        image: image.to_owned(),
    })
}

/// The commit of a fetched image.
pub(super) fn commit_of(repo: &ostree::Repo, image: &str) -> Result<Option<String>> {
    let commit = repo
        .resolve_rev(&name(image)?, true)
        .doing(|| format!("find {image}"))?;
    Ok(commit.map(Into::into))
}

/// Holds a commit as an image's.
pub(super) fn hold(repo: &ostree::Repo, image: &str, commit: &str) -> Result<()> {
    repo.set_ref_immediate(None, &name(image)?, Some(commit), Cancellable::NONE)
        .doing(|| format!("hold {image}"))
}

/// Images that are held.
pub(super) fn held(repo: &ostree::Repo) -> Result<BTreeSet<String>> {
    let flags = ostree::RepoListRefsExtFlags::empty();
    let refs = repo
        .list_refs_ext(Some(PREFIX), flags, Cancellable::NONE)
        .doing(|| "list the images that are held".to_owned())?;
    // A ref below our prefix that we did not write names nothing of ours.
    let unescape = |name: String| refescape::unprefix_unescape_ref(PREFIX, &name).ok();
    Ok(refs.into_keys().filter_map(unescape).collect())
}

/// Lets go of held images but `needed`; says how many. Their objects stay until the next prune.
pub(super) fn release_others(repo: &ostree::Repo, needed: &BTreeSet<String>) -> Result<usize> {
    let unneeded: Vec<String> = held(repo)?
        .into_iter()
        .filter(|image| !needed.contains(image))
        .collect();
    for image in &unneeded {
        repo.set_ref_immediate(None, &name(image)?, None, Cancellable::NONE)
            .doing(|| format!("let go of {image}"))?;
        store::remove_image(repo, &reference(image)).map_err(|error| fetch_error(image, error))?;
    }
    if !unneeded.is_empty() {
        store::gc_image_layers(repo).map_err(|error| fetch_error("old layers", error))?;
    }
    Ok(unneeded.len())
}

/// An image as the library names it.
pub(super) fn reference(image: &str) -> ImageReference {
    ImageReference {
        transport: Transport::Registry,
        name: image.to_owned(),
    }
}

pub(super) fn fetch_error(
    image: &str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::Fetch {
        image: image.to_owned(),
        source: source.into(),
    }
}
