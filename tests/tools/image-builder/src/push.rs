//! Images to a registry, by skopeo.

use std::path::Path;

use anyhow::ensure;
use release::PullSpec;

use crate::build::{BuiltImage, location};
use crate::run::text;

/// Pushes an image as `<prefix>/<name>:<version>`; its pull spec by digest. Where it is insecure, a
/// registry without TLS is taken.
///
/// # Errors
/// The registry does not take it, or has it under another digest.
pub fn push(
    out: &Path,
    image: &BuiltImage,
    prefix: &str,
    is_insecure: bool,
) -> anyhow::Result<PullSpec> {
    let repository = format!("{}/{}", prefix.trim_end_matches('/'), image.name);
    let target = format!("docker://{repository}:{}", image.version);
    let source = location(out, image.name);
    let digest_file = tempfile::NamedTempFile::new()?;
    let digest_option = format!("--digestfile={}", digest_file.path().display());
    let tls = format!("--dest-tls-verify={}", !is_insecure);
    let options = ["--quiet", "--insecure-policy", "--preserve-digests"];
    let places = [tls.as_str(), &digest_option, &source, &target];
    let words = [&["skopeo", "copy"], &options[..], &places[..]].concat();
    text(Path::new("."), &words)?;
    let digest = std::fs::read_to_string(digest_file.path())?;
    ensure!(
        digest.trim() == image.digest.as_str(),
        "{target} has digest {digest}"
    );
    Ok(PullSpec::new(&repository, &image.digest)?)
}
