//! An OCI layout of one layer, written by hand.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::LABEL_COMMIT;
use crate::program::{command, run};
use crate::tree::Commit;

/// What an image of a commit says of itself.
pub(super) fn labels(commit: &Commit) -> Value {
    json!({ "Labels": { LABEL_COMMIT: commit.checksum, "version": commit.version } })
}

/// Makes a layout of a file that is its layer; the file becomes a blob. `settings` is `config` of
/// the image's configuration. `diff_id` is the digest of the layer as it is when unpacked; none
/// where it is not packed.
pub(super) fn write(
    layout: &Path,
    settings: &Value,
    layer: (&Path, &str),
    diff_id: Option<String>,
) -> Result<()> {
    let (file, media_type) = layer;
    let digest = digest(file)?;
    let layer = into_blob(layout, media_type, file, &digest)?;
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": settings,
        // buildah adds to the history of what it builds from, and compares it with the layers.
        "history": [{ "created_by": "lab" }],
        "rootfs": { "type": "layers", "diff_ids": [diff_id.unwrap_or(digest)] },
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

/// The same of the files in `root`, which goes: root's, and none newer than another.
pub(super) fn write_files(layout: &Path, settings: &Value, root: &Path) -> Result<()> {
    let tar = layout.join("layer.tar");
    run(command("tar")
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .args(["--mtime=@0", "--create"])
        .arg(format!("--file={}", tar.display()))
        .arg(format!("--directory={}", root.display()))
        .arg("."))?;
    fs::remove_dir_all(root)?;
    let layer = (tar.as_path(), "application/vnd.oci.image.layer.v1.tar");
    write(layout, settings, layer, None)
}

/// `sha256:` and the digest of a file's content.
pub(super) fn digest(file: &Path) -> Result<String> {
    // By a program: ours is ten times slower in a build for tests.
    let printed = run(command("sha256sum").arg("--binary").arg(file))?;
    let digest = printed.split(' ').next().unwrap_or_default();
    Ok(format!("sha256:{digest}"))
}

fn blob(layout: &Path, media_type: &str, content: &Value) -> Result<Value> {
    let file = layout.join("blob.json");
    write_json(&file, content)?;
    let digest = digest(&file)?;
    into_blob(layout, media_type, &file, &digest)
}

/// Moves a file to where a layout has the blob of its content; its descriptor.
fn into_blob(layout: &Path, media_type: &str, file: &Path, digest: &str) -> Result<Value> {
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let size = fs::metadata(file)?.len();
    let name = digest.strip_prefix("sha256:");
    fs::rename(file, blobs.join(name.context("not a SHA-256 digest")?))?;
    Ok(json!({ "mediaType": media_type, "digest": digest, "size": size }))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the cache takes only what is complete"
)]
fn write_json(path: &Path, content: &Value) -> Result<()> {
    Ok(fs::write(path, content.to_string())?)
}
