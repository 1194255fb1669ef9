//! A registry behind HTTPS that has one release image, which is nothing but its label.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use lab::control_plane::Process;
use lab::free_address;
use release::digest::ImageDigest;
use serde_json::json;
use testbed::Authority;

const REPOSITORY: &str = "openshift/release";

/// Serves an image of this version from a folder. Its name, and the registry while it runs.
///
/// The authority of the registry is `registry-ca.crt` in the folder.
pub(crate) fn serve(dir: &Path, version: &str) -> Result<(String, Process)> {
    let authority = Authority::make("authority of the registry")?;
    authority.issue(&dir.join("registry"), "registry", "lab")?;
    fs::write(dir.join("registry-ca.crt"), &authority.pem)?;
    let labels = json!({ "io.openshift.release": version });
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": { "Labels": labels },
        "rootfs": { "type": "layers", "diff_ids": [] },
    });
    let config = config.to_string();
    let config_digest = put(dir, &config, "_layers")?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {
            "mediaType": "application/vnd.docker.container.image.v1+json",
            "size": config.len(), "digest": config_digest.as_str(),
        },
        "layers": [],
    });
    let digest = put(dir, &manifest.to_string(), "_manifests/revisions")?;
    let address = free_address()?;
    let settings = json!({
        "version": "0.1",
        "log": { "level": "warn" },
        "storage": { "filesystem": { "rootdirectory": dir.join("registry-data") } },
        "http": {
            "addr": address.to_string(),
            "tls": {
                "certificate": dir.join("registry.crt"), "key": dir.join("registry.key"),
            },
        },
    });
    // JSON is YAML.
    fs::write(dir.join("registry.yaml"), settings.to_string())?;
    let program = Path::new("docker-registry");
    let process = Process::start("registry", program, ["serve", "registry.yaml"], dir)?;
    let digest = digest.as_str();
    Ok((format!("{address}/{REPOSITORY}@{digest}"), process))
}

/// Writes content where the registry keeps it, with a link of this kind in the repository.
fn put(dir: &Path, content: &str, kind: &str) -> Result<ImageDigest> {
    let root = dir.join("registry-data/docker/registry/v2");
    let digest = ImageDigest::of(content.as_bytes());
    let hex = digest.hex();
    let start = hex.get(..2).context("a digest is longer")?;
    let blob = root.join(format!("blobs/sha256/{start}/{hex}"));
    fs::create_dir_all(&blob)?;
    fs::write(blob.join("data"), content)?;
    let link = root.join(format!("repositories/{REPOSITORY}/{kind}/sha256/{hex}"));
    fs::create_dir_all(&link)?;
    fs::write(link.join("link"), digest.as_str())?;
    Ok(digest)
}
