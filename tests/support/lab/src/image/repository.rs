//! The image form with a repository inside, written by hand: nothing makes it any more.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::{LABEL_COMMIT, into_blob};
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
    let layer = into_blob(layout, "application/vnd.oci.image.layer.v1.tar", &tar)?;

    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": { "Labels": { LABEL_COMMIT: commit.checksum, "version": commit.version } },
        "rootfs": { "type": "layers", "diff_ids": [layer.get("digest")] },
    });
    let config = blob(layout, "application/vnd.oci.image.config.v1+json", &config)?;
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": media_type,
        "config": config,
        "layers": [layer],
    });
    let manifest = blob(layout, media_type, &manifest)?;
    write_json(
        &layout.join("index.json"),
        &json!({ "schemaVersion": 2, "manifests": [manifest] }),
    )?;
    write_json(
        &layout.join("oci-layout"),
        &json!({ "imageLayoutVersion": "1.0.0" }),
    )
}

fn blob(layout: &Path, media_type: &str, content: &Value) -> Result<Value> {
    let file = layout.join("blob.json");
    write_json(&file, content)?;
    into_blob(layout, media_type, &file)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the cache takes only what is complete"
)]
fn write_json(path: &Path, content: &Value) -> Result<()> {
    Ok(fs::write(path, content.to_string())?)
}
