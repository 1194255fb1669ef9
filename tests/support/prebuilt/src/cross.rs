//! What compiles programs for another processor: the compiler of Debian's next release, which
//! packages its standard library for both, and the libraries of this machine's release to link.
//!
//! The linker is this machine's `aarch64-linux-gnu-gcc`.

#![expect(
    clippy::disallowed_methods,
    reason = "what the lab is made of is made again after a crash"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::archive::Archive;
use crate::cache::{self, Recipe};
use crate::debian::{Apt, NEXT_SUITE};
use crate::program::{command, run};

/// As Debian and OCI name the processor.
const ARCHITECTURE: &str = "arm64";

/// As Rust names it.
const TRIPLE: &str = "aarch64-unknown-linux-gnu";

/// The compiler with its libraries, and the standard library for both processors.
const COMPILER: &[&str] = &["rustc", "libstd-rust-dev:arm64"];

/// What programs link, as `PACKAGES` of the Makefile has it for this machine.
const LIBRARIES: &[&str] = &[
    "libc6-dev",
    "libgcc-12-dev",
    "libostree-dev",
    "libssl-dev",
    "libzstd-dev",
];

/// Runs the compiler on the C library of its own release, wherever the folder is.
const WRAPPER: &str = r#"#!/bin/sh
root=$(dirname "$0")/compiler
libraries=$root/usr/lib/x86_64-linux-gnu
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$root/usr/bin/rustc" "$@"
"#;

/// The folder with `rustc` and `sysroot`, made where it is missing (2 minutes, 900 MB).
///
/// # Errors
///
/// A release is not to be had, or its compiler does not run on this machine.
pub fn find() -> Result<PathBuf> {
    let archive = Archive::of_machine()?;
    let recipe = Recipe::default()
        .with("suites", format!("{} {NEXT_SUITE}", archive.suite))
        .with("archive", &archive.uri)
        .with("compiler", COMPILER.join(" "))
        .with("libraries", LIBRARIES.join(" "))
        .with("wrapper", WRAPPER);
    cache::folder("cross", &recipe, |dir| make(&archive, dir))
}

fn make(archive: &Archive, dir: &Path) -> Result<()> {
    let apt = dir.join("apt");
    let both = ["amd64", ARCHITECTURE];
    let compiler = Apt::new(archive, NEXT_SUITE, &both, &apt)?.closure(COMPILER)?;
    let compiler = compiler.iter().filter(|package| is_of_compiler(package));
    let root = dir.join("compiler");
    unpack(compiler, &root)?;
    keep(&root, &["usr"])?;
    keep(&root.join("usr"), &["bin", "lib"])?;
    fs::remove_dir_all(&apt)?;

    let alone = [ARCHITECTURE];
    let libraries = Apt::new(archive, &archive.suite, &alone, &apt)?.closure(LIBRARIES)?;
    let sysroot = dir.join("sysroot");
    unpack(libraries.iter(), &sysroot)?;
    fs::remove_dir_all(&apt)?;
    keep(&sysroot, &["lib", "usr"])?;
    keep(&sysroot.join("usr"), &["include", "lib"])?;

    let rustc = dir.join("rustc");
    fs::write(&rustc, WRAPPER)?;
    fs::set_permissions(&rustc, fs::Permissions::from_mode(0o755))?;
    let targets = run(command(&rustc).args(["--print=target-libdir", "--target", TRIPLE]))
        .context("the compiler does not run on this machine")?;
    let has_library = Path::new(&targets).is_dir();
    anyhow::ensure!(has_library, "there is no standard library in {targets}");
    Ok(())
}

/// Of the other processor only the standard library is read; the C compiler is this machine's.
fn is_of_compiler(package: &Path) -> bool {
    let name = package.file_name().unwrap_or_default().to_string_lossy();
    let is_library = name.starts_with("libstd-rust-dev_");
    is_library || name.ends_with("_amd64.deb") && !name.starts_with("gcc")
}

fn unpack<'a>(packages: impl Iterator<Item = &'a PathBuf>, root: &Path) -> Result<()> {
    for package in packages {
        run(command("dpkg-deb").arg("--extract").args([package, root]))?;
    }
    Ok(())
}

/// Removes all of a folder but entries of these names.
fn keep(folder: &Path, names: &[&str]) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_kept = names.iter().any(|name| entry.file_name() == *name);
        if is_kept {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_standard_libraries_and_what_the_compiler_links_are_unpacked() {
        for (name, expected) in [
            ("rustc_1.97.1+dfsg1-1_amd64.deb", true),
            ("libstd-rust-dev_1.97.1+dfsg1-1_amd64.deb", true),
            ("libstd-rust-dev_1.97.1+dfsg1-1_arm64.deb", true),
            ("libllvm22_1%3a22.1.8-1+b2_amd64.deb", true),
            ("libllvm22_1%3a22.1.8-1+b2_arm64.deb", false),
            ("gcc-16-x86-64-linux-gnu_16.2.0-3_amd64.deb", false),
            ("gcc_4%3a16.1.0-3_amd64.deb", false),
            ("linux-libc-dev_7.2.12-1_all.deb", false),
        ] {
            assert_eq!(is_of_compiler(Path::new(name)), expected, "{name}");
        }
    }
}
