//! `SHA256SUMS`: the digests of a release's files, as `sha256sum --check` reads them.

use std::path::Path;

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use crate::files;

/// The file of digests.
pub const NAME: &str = "SHA256SUMS";

/// Writes the digests of all files below a directory, sorted by path.
///
/// # Errors
/// A file cannot be read or written, or the name of one is not UTF-8.
pub fn write(directory: &Path) -> anyhow::Result<()> {
    let mut text = String::new();
    for path in files::below(directory)? {
        let name = path.strip_prefix(directory)?;
        let name = name.to_str();
        let name = name.with_context(|| format!("{}: the name is not UTF-8", path.display()))?;
        if name == NAME {
            continue;
        }
        text.extend([digest(&path)?.as_str(), "  ", name, "\n"]);
    }
    let path = directory.join(NAME);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn digest(path: &Path) -> anyhow::Result<String> {
    Ok(hex::encode(Sha256::digest(files::read(path)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_that_sha256sum_checks() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        std::fs::create_dir(root.join("b")).unwrap();
        std::fs::write(root.join("b/c"), "abc").unwrap();
        std::fs::write(root.join("a"), "").unwrap();
        // Those of a former run.
        std::fs::write(root.join(NAME), "old").unwrap();
        write(root).unwrap();
        let text = std::fs::read_to_string(root.join(NAME)).unwrap();
        assert_eq!(
            text,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n\
             ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  b/c\n"
        );
    }
}
