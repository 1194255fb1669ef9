//! A disk with the base commit in its repository and nothing deployed, made once and copied for
//! each host: real copies, so that a write in place spoils no other host.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::STATEROOT;
use crate::cache::{self, Recipe};
use crate::disk::{self, Mounted};
use crate::program::{command, run};
use crate::tree::BASE;

/// Room for `/`, `/var` and the repository. The file takes what is used of it.
const ROOT_BYTES: u64 = 8 << 30;

/// The disk's image, for the base commit of a tree's repository.
pub(super) fn image(tree: &Path) -> Result<PathBuf> {
    let base = run(command("ostree").arg("rev-parse").arg(repo(tree)).arg(BASE))?;
    let recipe = Recipe::default()
        .with("template", include_str!("template.rs"))
        .with("base", &base);
    let folder = cache::folder("disk", &recipe, |dir| {
        let image = dir.join("root.img");
        disk::make(&image, 0, ROOT_BYTES, "root")?;
        // Not in `dir`, which could not be removed if this process were killed.
        let sysroot = tempfile::tempdir()?;
        let mounted = Mounted::new(&image, 0, sysroot.path())?;
        fill(sysroot.path(), tree, &base)?;
        mounted.unmount()
    })?;
    Ok(folder.join("root.img"))
}

fn fill(sysroot: &Path, tree: &Path, base: &str) -> Result<()> {
    fs::create_dir(sysroot.join("boot"))?;
    let of_sysroot = format!("--sysroot={}", sysroot.display());
    run(command("ostree")
        .args(["admin", "init-fs", "--modern"])
        .arg(sysroot))?;
    run(command("ostree").args(["admin", "os-init", STATEROOT, &of_sysroot]))?;
    let to = repo(&sysroot.join("ostree/repo"));
    // As on real hosts: /sysroot is read-only, and entries are all there is of a boot loader.
    for (key, value) in [("sysroot.readonly", "true"), ("sysroot.bootloader", "none")] {
        run(command("ostree").args(["config", &to, "set", key, value]))?;
    }
    run(command("ostree")
        .args(["pull-local", "--disable-fsync", &to])
        .arg(tree)
        .arg(base))?;
    Ok(())
}

fn repo(path: &Path) -> String {
    format!("--repo={}", path.display())
}
