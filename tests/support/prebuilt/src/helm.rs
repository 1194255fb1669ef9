//! Helm, built from its module at the version that `tests/helm` names.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::cache;
use crate::go::Module;

/// Its file name in the cache.
const PROGRAM: &str = "helm";

/// The package, a tool of the module.
const PACKAGE: &str = "helm.sh/helm/v3/cmd/helm";

/// No symbols.
const LINKER_FLAGS: &str = "-ldflags=-s -w";

/// Path of the program, built into the cache first where it is missing (about 4 minutes on two
/// cores).
///
/// # Errors
/// No `go`, or the build fails; the message ends with what `go` printed.
pub fn find() -> Result<PathBuf> {
    let module = Module::named("helm");
    let recipe = module.recipe()?.with(PACKAGE, LINKER_FLAGS);
    let folder = cache::folder(PROGRAM, &recipe, |dir| {
        let output = dir.join(PROGRAM);
        let output = output.to_str().context("the cache's path is not UTF-8")?;
        module.build(&[LINKER_FLAGS], output, &[PACKAGE])
    })?;
    Ok(folder.join(PROGRAM))
}

/// The version of the module, as a line.
///
/// # Errors
/// No `go`.
pub fn version() -> Result<String> {
    Module::named("helm").go(&["list", "-m", "helm.sh/helm/v3"])
}
