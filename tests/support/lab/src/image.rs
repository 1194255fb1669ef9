//! Container images: of commits, in both forms that a node can run and as plain as can be; and one
//! for pods.
//!
//! Each is an OCI layout in the cache, for [`crate::registry::Registry::push`].
//!
//! - `native`: an ostree commit as layers, with `ostree.bootable`
//! - `repository`: an image with a repository at `/srv/repo`, as before OpenShift 4.12
//! - `rootfs`: the files alone, which no node takes; what others are measured against
//! - `busybox`: a shell and its tools, which waits; also what holds a pod's namespaces
//! - `extensions`: packages of extensions and of another kernel
//! - `layout`: an OCI layout of one layer

mod busybox;
mod extensions;
mod layout;
mod native;
mod repository;
mod rootfs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

pub use self::busybox::{busybox, busybox_of};
pub use self::extensions::{EXTENSION, KERNEL_TYPE, extensions, offers};
use crate::cache::{self, Recipe};
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
        Self::native_with_labels(commit, &BTreeMap::new())
    }

    /// The same with labels besides.
    ///
    /// # Errors
    ///
    /// As [`Self::native`].
    pub fn native_with_labels(commit: &Commit, labels: &BTreeMap<String, String>) -> Result<Self> {
        let recipe = Recipe::default().with("native", include_str!("image/native.rs"));
        let recipe = labels.iter().fold(recipe, |recipe, (key, value)| {
            recipe.with(&format!("label {key}"), value)
        });
        Self::make(commit, recipe, |commit, layout| {
            native::write(commit, labels, layout)
        })
    }

    /// The older form: one layer, with an archive repository at `/srv/repo`.
    ///
    /// # Errors
    ///
    /// The commit's repository cannot be read.
    pub fn with_repository(commit: &Commit) -> Result<Self> {
        let recipe = Recipe::default()
            .with("repository", include_str!("image/repository.rs"))
            .with("layout", include_str!("image/layout.rs"));
        Self::make(commit, recipe, repository::write)
    }

    /// The commit's files as one layer, and nothing else.
    ///
    /// # Errors
    ///
    /// The commit's repository cannot be read.
    pub fn rootfs(commit: &Commit) -> Result<Self> {
        let recipe = Recipe::default()
            .with("rootfs", include_str!("image/rootfs.rs"))
            .with("layout", include_str!("image/layout.rs"));
        Self::make(commit, recipe, rootfs::write)
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
