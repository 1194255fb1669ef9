//! The command line `slipway` as people install it: an archive for any Linux, and a Debian package.
//!
//! - [`program`]: what the program needs to run, of its ELF headers
//! - `contents`: what both packages have
//! - `archive`: `tar` and gzip
//! - `debian`: the package, by `dpkg-deb`

mod archive;
mod contents;
mod debian;
pub mod program;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use image_builder::Architecture;

use contents::Contents;

/// What the packages are made from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The program, built and stripped.
    pub program: &'a Path,
    /// A semantic version, such as `0.2.0` or `0.2.0-rc.1`.
    pub version: &'a str,
    /// What the program was built for.
    pub architecture: Architecture,
    /// What `slipway install` applies, as [`crate::manifests`] makes it.
    pub manifests: &'a [u8],
    /// The commit's time in seconds since 1970: that of all files in the packages.
    pub time: u64,
}

/// Writes `slipway-<version>-linux-<architecture>.tar.gz` and
/// `slipway_<version>_<architecture>.deb` into a directory; their paths.
///
/// # Errors
/// The program is absent, no ELF file, of another architecture, not stripped, or needs a library
/// that is of no set package; the version is no semantic one; `dpkg-deb` is absent or fails; a file
/// cannot be written.
pub fn write(input: &Input<'_>, directory: &Path) -> anyhow::Result<[PathBuf; 2]> {
    let contents = Contents::new(input)?;
    let archive = directory.join(archive::name(&contents));
    let bytes = archive::bytes(&contents).context("cannot make the archive")?;
    let written = std::fs::write(&archive, bytes);
    written.with_context(|| format!("cannot write {}", archive.display()))?;
    let package = directory.join(debian::name(&contents));
    debian::build(&contents, &package)?;
    Ok([archive, package])
}
