//! containerd, built once from the Go module `tests/container-runtime`, for the pods of hosts.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::cache;
use crate::go::Module;
use crate::host::install_file;

/// containerd and its shim, which starts containers by the host's OCI runtime.
const PACKAGES: [&str; 2] = [
    "github.com/containerd/containerd/v2/cmd/containerd",
    "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
];

/// Arguments of `go build`: no paths of this machine, no symbols, no snapshotter that needs a
/// device or a file system of its own.
const BUILD: [&str; 5] = [
    "build",
    "-trimpath",
    "-ldflags=-s -w",
    "-tags=no_btrfs,no_devmapper,no_zfs,no_tracing",
    "-o",
];

/// The OCI runtime as the shim calls it.
const OCI_RUNTIME: &str = include_str!("container_runtime/oci-runtime.sh");

/// Name of [`OCI_RUNTIME`] among the programs.
pub(crate) const OCI_RUNTIME_NAME: &str = "oci-runtime";

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct ContainerRuntime {
    dir: PathBuf,
}

impl ContainerRuntime {
    /// The programs, built into the cache first where they are missing (about 2 minutes on two
    /// cores).
    ///
    /// # Errors
    /// No `go`, or the build fails; the message ends with what `go` said.
    pub fn find() -> Result<Self> {
        let module = Module::named("container-runtime");
        let recipe = module.recipe()?;
        let recipe = PACKAGES
            .iter()
            .chain(&BUILD)
            .fold(recipe, |recipe, argument| recipe.with("go", argument))
            .with(OCI_RUNTIME_NAME, OCI_RUNTIME);
        let dir = cache::folder("container-runtime", &recipe, |dir| build(&module, dir))?;
        Ok(Self { dir })
    }

    /// The folder that hosts see.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

fn build(module: &Module, dir: &Path) -> Result<()> {
    // Minutes without output seem to be a hang. Where standard error is closed, nothing reads it.
    drop(writeln!(
        std::io::stderr(),
        "building containerd into {} (about 2 minutes on two cores, once)",
        dir.display()
    ));
    let output = dir.to_str().context("the cache's path is not UTF-8")?;
    let output = format!("{output}/");
    let arguments: Vec<_> = (BUILD.into_iter())
        .chain([output.as_str()])
        .chain(PACKAGES)
        .collect();
    module.go(&arguments)?;
    install_file(&dir.join(OCI_RUNTIME_NAME), OCI_RUNTIME.as_bytes(), 0o755)
}
