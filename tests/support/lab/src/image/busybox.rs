//! A small image for pods: Debian's static busybox, which waits until it is ended.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::json;

use super::layout;
use crate::cache::{self, Recipe};
use crate::program::{command, run};

/// Of Debian's package `busybox-static`.
const PROGRAM: &str = "/bin/busybox";

/// What a container runs that names nothing else. As the first process of its namespace it ends by
/// SIGTERM only with a handler, and has to wait for orphans.
const WAIT: &str = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done";

/// An OCI layout of the image. Also good to hold a pod's namespaces.
///
/// # Errors
///
/// The package is not installed.
pub fn busybox() -> Result<PathBuf> {
    busybox_of("")
}

/// The same as another image, whose digest no other `mark` has.
///
/// # Errors
///
/// As [`busybox`].
pub fn busybox_of(mark: &str) -> Result<PathBuf> {
    let recipe = Recipe::default()
        .with("mark", mark)
        .with("busybox", include_str!("busybox.rs"))
        .with("layout", include_str!("layout.rs"))
        .with_file(Path::new(PROGRAM))
        .context("is the Debian package busybox-static installed?")?;
    cache::folder("image", &recipe, |layout| write(layout, mark))
}

fn write(layout: &Path, mark: &str) -> Result<()> {
    let root = layout.join("root");
    let bin = root.join("bin");
    fs::create_dir_all(&bin)?;
    fs::copy(PROGRAM, bin.join("busybox"))?;
    for tool in run(command(PROGRAM).arg("--list"))?.lines() {
        if tool != "busybox" {
            symlink("busybox", bin.join(tool))?;
        }
    }
    let tmp = root.join("tmp");
    fs::create_dir(&tmp)?;
    fs::set_permissions(&tmp, fs::Permissions::from_mode(0o1777))?;

    let settings = json!({
        "Cmd": ["sh", "-c", WAIT],
        "Env": ["PATH=/bin", format!("MARK={mark}")],
    });
    layout::write_files(layout, &settings, &root)
}
