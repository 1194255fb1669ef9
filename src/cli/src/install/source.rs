//! The objects to install: read from a file of a release.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use install::manifests::InstallManifests;

/// Below a directory of programs or beside it.
const NAME: &str = "share/slipway/manifests.json";

/// Reads the manifests that are named, or those that came with this program.
///
/// # Errors
/// There are none, or they cannot be read.
pub(super) fn read(named: Option<&Path>) -> anyhow::Result<InstallManifests> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => beside(&program()?)?,
    };
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    InstallManifests::parse(&bytes).with_context(|| format!("file {}", path.display()))
}

fn program() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe().context("cannot find this program's own file")?;
    Ok(path.canonicalize().unwrap_or(path))
}

fn beside(program: &Path) -> anyhow::Result<PathBuf> {
    let directory = program.parent().unwrap_or_else(|| Path::new("/"));
    let places = [directory.join("..").join(NAME), directory.join(NAME)];
    match places.iter().find(|path| path.exists()) {
        Some(path) => Ok(path.clone()),
        None => bail!(
            "there is no {NAME} beside {}: name one by --manifests; a release has it as \
             slipway-<version>-manifests.json",
            program.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's own files")]
    fn manifests_are_found_where_packages_put_them() {
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("bin");
        std::fs::create_dir_all(bin.join("share/slipway")).unwrap();
        let program = bin.join("slipway");
        let error = beside(&program).unwrap_err().to_string();
        assert!(error.contains("name one by --manifests"), "{error}");
        std::fs::write(bin.join(NAME), "{}").unwrap();
        assert_eq!(beside(&program).unwrap(), bin.join(NAME));
        std::fs::create_dir_all(root.path().join("share/slipway")).unwrap();
        std::fs::write(root.path().join(NAME), "{}").unwrap();
        assert_eq!(beside(&program).unwrap(), bin.join("..").join(NAME));
    }
}
