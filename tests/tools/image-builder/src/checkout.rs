//! Commit and version that images are labelled with.

use std::path::Path;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::Deserialize;

use crate::run::text;

/// What images say they are built from.
#[derive(Clone, Debug)]
pub struct Checkout {
    /// Commit, and whether files differ from it.
    pub revision: String,
    /// When that commit was made: the time of all files and of the images.
    pub time: Timestamp,
    /// Version of the workspace.
    pub version: String,
}

#[derive(Deserialize)]
struct Manifest {
    workspace: Workspace,
}

#[derive(Deserialize)]
struct Workspace {
    package: Package,
}

#[derive(Deserialize)]
struct Package {
    version: String,
}

impl Checkout {
    /// Asks git and reads `Cargo.toml`.
    ///
    /// # Errors
    /// It is no checkout.
    pub fn read(directory: &Path) -> anyhow::Result<Self> {
        let commit = text(directory, &["git", "rev-parse", "HEAD"])?;
        let is_clean = text(directory, &["git", "status", "--porcelain"])?.is_empty();
        let secs = text(directory, &["git", "log", "-1", "--format=%ct"])?;
        let manifest = std::fs::read_to_string(directory.join("Cargo.toml"));
        let manifest = manifest.context("cannot read Cargo.toml")?;
        let manifest: Manifest = toml::from_str(&manifest).context("Cargo.toml")?;
        Ok(Self {
            revision: if is_clean {
                commit
            } else {
                commit + "-modified"
            },
            time: Timestamp::from_second(secs.parse().context("time of the commit")?)?,
            version: manifest.workspace.package.version,
        })
    }
}
