//! Container images of commits, in both forms that a node may be told to run.
//!
//! Each is an OCI layout in the cache, for [`crate::registry::Registry::push`].
//!
//! - `native`: an ostree commit as layers, with `ostree.bootable`
//! - `repository`: an image with a repository at `/srv/repo`, as before OpenShift 4.12

mod native;
mod repository;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::cache::{self, Recipe};
use crate::program::{command, run};
use crate::tree::Commit;

/// Label that names the commit inside.
const LABEL_COMMIT: &str = "com.coreos.ostree-commit";

/// An image that no registry has yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// OCI layout with exactly one manifest.
    pub layout: PathBuf,
    /// What is inside.
    pub commit: Commit,
}

impl Image {
    /// The commit as a native container image: its layers are the commit's content, by parts of the
    /// system, so that two commits share those that are equal.
    ///
    /// # Errors
    ///
    /// The commit's repository cannot be read.
    pub fn native(commit: &Commit) -> Result<Self> {
        let recipe = Recipe::default().with("native", include_str!("image/native.rs"));
        Self::make(commit, recipe, native::write)
    }

    /// The older form: one layer, with an archive repository at `/srv/repo`.
    ///
    /// # Errors
    ///
    /// The commit's repository cannot be read.
    pub fn with_repository(commit: &Commit) -> Result<Self> {
        let recipe = Recipe::default().with("repository", include_str!("image/repository.rs"));
        Self::make(commit, recipe, repository::write)
    }

    fn make(
        commit: &Commit,
        recipe: Recipe,
        write: impl FnOnce(&Commit, &Path) -> Result<()>,
    ) -> Result<Self> {
        let recipe = recipe.with("commit", &commit.checksum);
        let layout = cache::folder("image", &recipe, |dir| write(commit, dir))?;
        Ok(Self {
            layout,
            commit: commit.clone(),
        })
    }
}

/// Moves a file to where a layout has the blob of its content; its descriptor.
fn into_blob(layout: &Path, media_type: &str, file: &Path) -> Result<serde_json::Value> {
    // By a program: ours is ten times slower in a build for tests.
    let printed = run(command("sha256sum").arg("--binary").arg(file))?;
    let digest = printed.split(' ').next().unwrap_or_default();
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let size = fs::metadata(file)?.len();
    fs::rename(file, blobs.join(digest))?;
    Ok(serde_json::json!({
        "mediaType": media_type,
        "digest": format!("sha256:{digest}"),
        "size": size,
    }))
}
