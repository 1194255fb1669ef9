//! The image form with a repository inside, written by hand: nothing makes it any more.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::layout;
use crate::program::{command, run};
use crate::tree::Commit;

/// Branch of the commit in the repository, the only one.
const BRANCH: &str = "lab/os";

/// Writes the layout into an empty directory.
pub(super) fn write(commit: &Commit, layout: &Path) -> Result<()> {
    let root = layout.join("root");
    let repo = root.join("srv/repo");
    fs::create_dir_all(&repo)?;
    let to = format!("--repo={}", repo.display());
    run(command("ostree").args(["init", "--mode=archive", &to]))?;
    run(command("ostree")
        .args(["pull-local", "--disable-fsync", &to])
        .arg(&commit.repo)
        .arg(&commit.checksum))?;
    run(command("ostree").args(["refs", &to, "--create", BRANCH, &commit.checksum]))?;

    // Not compressed: an archive repository is.
    let tar = layout.join("layer.tar");
    run(command("tar")
        .args(["--sort=name", "--numeric-owner", "--mtime=@0", "--create"])
        .arg(format!("--file={}", tar.display()))
        .arg(format!("--directory={}", root.display()))
        .arg("."))?;
    fs::remove_dir_all(&root)?;
    let layer = (tar.as_path(), "application/vnd.oci.image.layer.v1.tar");
    layout::write(layout, &layout::labels(commit), layer, None)
}
