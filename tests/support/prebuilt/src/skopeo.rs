//! Skopeo, built from its module at the version that `tests/skopeo` names. Debian's own, which
//! hosts have, checks no signature in a pull of an OS.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::cache;
use crate::go::Module;

/// Its file name in the cache, and on hosts.
pub const PROGRAM: &str = "skopeo";

/// The package, a tool of the module.
const PACKAGE: &str = "github.com/containers/skopeo/cmd/skopeo";

/// No symbols; OpenPGP in Go, and nothing that needs a C library: it runs on any host.
const FLAGS: [&str; 2] = [
    "-ldflags=-s -w",
    "-tags=containers_image_openpgp,exclude_graphdriver_btrfs,containers_image_docker_daemon_stub",
];

/// The folder that has the program, built into the cache first where it is missing (about 2 minutes
/// on two cores).
///
/// # Errors
/// No `go`, or the build fails; the message ends with what `go` printed.
pub fn folder() -> Result<PathBuf> {
    let module = Module::named("skopeo");
    let recipe = module.recipe()?.with(PACKAGE, FLAGS.join(" "));
    cache::folder(PROGRAM, &recipe, |dir| {
        let output = dir.join(PROGRAM);
        let output = output.to_str().context("the cache's path is not UTF-8")?;
        module.build(&FLAGS, output, &[PACKAGE])
    })
}

/// Path of the program, as of [`folder`].
///
/// # Errors
/// As of [`folder`].
pub fn find() -> Result<PathBuf> {
    Ok(folder()?.join(PROGRAM))
}

/// The version of the module, as a line.
///
/// # Errors
/// No `go`.
pub fn version() -> Result<String> {
    Module::named("skopeo").go(&["list", "-m", "github.com/containers/skopeo"])
}
