//! containerd, for the pods of hosts.

#![expect(
    clippy::disallowed_methods,
    reason = "what the lab is made of is made again after a crash"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::cache::Recipe;
use crate::debian::{self, Packages};

/// containerd and its shim, which starts containers by the host's OCI runtime.
const PACKAGES: Packages = Packages {
    kind: "container-runtime",
    names: &["containerd"],
    programs: &[
        ("containerd", &["--version"]),
        ("containerd-shim-runc-v2", &["-v"]),
    ],
};

/// The OCI runtime as the shim calls it.
const OCI_RUNTIME: &str = include_str!("container_runtime/oci-runtime.sh");

/// Name of [`OCI_RUNTIME`] among the programs.
pub const OCI_RUNTIME_NAME: &str = "oci-runtime";

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct ContainerRuntime {
    dir: PathBuf,
}

impl ContainerRuntime {
    /// The programs, fetched into the cache first where they are missing.
    ///
    /// # Errors
    /// Debian's next release is not to be had, or its programs do not run here.
    pub fn find() -> Result<Self> {
        let recipe = Recipe::default().with(OCI_RUNTIME_NAME, OCI_RUNTIME);
        let dir = PACKAGES.find(recipe, |dir| {
            let script = dir.join(OCI_RUNTIME_NAME);
            fs::write(&script, OCI_RUNTIME)
                .with_context(|| format!("cannot write {}", script.display()))?;
            Ok(fs::set_permissions(
                &script,
                fs::Permissions::from_mode(0o755),
            )?)
        })?;
        Ok(Self { dir })
    }

    /// The folder that hosts see.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Names and versions of the packages.
    ///
    /// # Errors
    /// The folder was changed.
    pub fn versions(&self) -> Result<String> {
        debian::versions(&self.dir)
    }
}
