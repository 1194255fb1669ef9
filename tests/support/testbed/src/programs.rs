//! The programs under test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use image_builder::PackedParts;

use crate::workspace;

/// A folder with programs under their own names.
#[derive(Clone, Debug)]
pub struct Programs {
    folder: PathBuf,
    /// What is packed of them for images.
    parts: PackedParts,
}

impl Programs {
    /// Those in a folder, whatever they are built from.
    pub fn in_folder(dir: &Path) -> Self {
        Self {
            folder: dir.to_owned(),
            parts: PackedParts::default(),
        }
    }

    /// Those that `make binaries` leaves, or those in the folder `$SLIPWAY_BINARIES`.
    pub fn built() -> Result<Self> {
        if let Some(dir) = std::env::var_os("SLIPWAY_BINARIES") {
            return Ok(Self::in_folder(Path::new(&dir)));
        }
        let dir = workspace().join("target/slipway");
        let built = fs::read_to_string(dir.join("sources")).unwrap_or_default();
        ensure!(
            built.trim() == sources()?,
            "the programs in {} are built from other sources: `make binaries` builds them",
            dir.display()
        );
        Ok(Self::in_folder(&dir))
    }

    /// Those of the last release, with what it deploys in `deploy/` beside them.
    pub fn of_last_release() -> Result<Self> {
        let dir = match std::env::var_os("SLIPWAY_LAST_RELEASE") {
            Some(dir) => dir.into(),
            None => workspace().join("target/last-release"),
        };
        let dir = dir.canonicalize().with_context(|| {
            let dir = dir.display();
            format!("there is no {dir}: a suite that needs the last release builds it")
        })?;
        Ok(Self::in_folder(&dir))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What is packed of them for images, by this one and its copies.
    pub fn parts(&self) -> &PackedParts {
        &self.parts
    }

    /// File of a program.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        path.canonicalize().with_context(|| {
            let path = path.display();
            format!("there is no {path}: `make binaries` builds it")
        })
    }
}

/// Digest of the sources that the programs are built from.
#[expect(
    clippy::disallowed_methods,
    reason = "the suites' own script; the runner keeps what it prints beside the programs"
)]
fn sources() -> Result<String> {
    let script = workspace().join("tests/support/suites/sources.sh");
    let output = Command::new(&script)
        .output()
        .with_context(|| format!("cannot run {}", script.display()))?;
    ensure!(output.status.success(), "{} failed", script.display());
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
