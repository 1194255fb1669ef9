//! The Debian package, by `dpkg-deb`.
//!
//! Source: Debian Policy (control fields, documentation), and the places that the completion of
//! each shell names.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;
use md5::{Digest as _, Md5};
use semver::Version;
use slipway::manual::ManualPage;

use crate::archive::gzip;
use crate::command_line::contents::{
    Content, Contents, Entry, LINKS, MANIFESTS, completions, programs,
};
use crate::command_line::program::LibraryVersion;

/// The first of the workspace's authors.
const MAINTAINER: &str = env!("CARGO_PKG_AUTHORS");

const SUMMARY: &str = "command line for releases and updates of OpenShift clusters";
const DESCRIPTION: &str =
    " Shows and requests updates of a cluster, explains what nodes and pools wait
 for, and makes, signs, verifies and mirrors the releases that clusters are
 updated to. It is also the plugin of kubectl for \"kubectl slipway\".
";

/// The package's file name.
pub(crate) fn name(contents: &Contents) -> String {
    let architecture = contents.program.architecture.name();
    format!("slipway_{}_{architecture}.deb", version(&contents.version))
}

/// A version as Debian sorts it: what comes before a release has a tilde, which sorts before
/// nothing, and no hyphen, which begins the packaging's own revision.
fn version(version: &Version) -> String {
    let Version {
        major,
        minor,
        patch,
        ..
    } = version;
    let mut text = format!("{major}.{minor}.{patch}");
    if !version.pre.is_empty() {
        text.extend(["~", &version.pre.replace('-', ".")]);
    }
    if !version.build.is_empty() {
        text.extend(["+", &version.build.replace('-', ".")]);
    }
    text
}

/// Writes the package.
pub(crate) fn build(contents: &Contents, package: &Path) -> anyhow::Result<()> {
    let stage = tempfile::tempdir().context("cannot make a directory for the package")?;
    let root = stage.path().join("slipway");
    let installed = installed(contents)?;
    for entry in &installed {
        put(&root, entry)?;
    }
    put(
        &root,
        &Entry::file("DEBIAN/control", control(contents, &installed)),
    )?;
    put(&root, &Entry::file("DEBIAN/md5sums", md5sums(&installed)))?;
    let output = Command::new("dpkg-deb")
        .args(["--build", "--root-owner-group", "-Zxz"])
        .args([&root, package])
        .env("LC_ALL", "C")
        .env("SOURCE_DATE_EPOCH", contents.time.as_second().to_string())
        // The compressed bytes may depend on how many threads there are.
        .env("DPKG_DEB_THREADS_MAX", "1")
        .stdin(Stdio::null())
        .output()
        .context("cannot run dpkg-deb")?;
    ensure!(
        output.status.success(),
        "dpkg-deb cannot make {}: {}",
        package.display(),
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(())
}

/// What the package installs, sorted by path.
fn installed(contents: &Contents) -> anyhow::Result<Vec<Entry>> {
    let mut entries = programs(contents, "usr/bin/");
    entries.push(Entry::file(
        format!("usr/{MANIFESTS}"),
        &*contents.manifests,
    ));
    entries.extend(completions(
        "usr/share/bash-completion/completions/slipway",
        "usr/share/zsh/vendor-completions/_slipway",
        "usr/share/fish/vendor_completions.d/slipway.fish",
    ));
    let documentation = |name| format!("usr/share/doc/slipway/{name}");
    entries.push(Entry::file(documentation("copyright"), copyright(contents)));
    let changelog = gzip(changelog(contents)?.as_bytes())?;
    entries.push(Entry::file(documentation("changelog.gz"), changelog));
    let page = |name: &str| format!("usr/share/man/man1/{name}.gz");
    for ManualPage { file, text } in &contents.pages {
        entries.push(Entry::file(page(file), gzip(text)?));
    }
    for link in LINKS {
        let link = format!("{link}.1");
        entries.push(Entry::link(page(&link), "slipway.1.gz"));
    }
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(entries)
}

fn copyright(contents: &Contents) -> String {
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: Slipway\n\
         \n\
         Files: *\n\
         Copyright: {} the authors of Slipway\n\
         License: Apache-2.0\n \
         On Debian systems, the complete text of the Apache License, version 2.0,\n \
         is in /usr/share/common-licenses/Apache-2.0.\n",
        contents.time.strftime("%Y")
    )
}

fn changelog(contents: &Contents) -> anyhow::Result<String> {
    let date = contents.time.to_zoned(TimeZone::UTC);
    Ok(format!(
        "slipway ({}) unstable; urgency=medium\n\n  \
         * Release {}; what is new is in the notes of the release.\n\n \
         -- {MAINTAINER}  {}\n",
        version(&contents.version),
        contents.version,
        rfc2822::to_string(&date)?
    ))
}

fn control(contents: &Contents, installed: &[Entry]) -> String {
    // dpkg-gencontrol counts directories, too, by one each; no program relies on them.
    let kibibytes: usize = installed
        .iter()
        .map(|entry| match &entry.content {
            Content::Program(bytes) | Content::File(bytes) => bytes.len().div_ceil(1024),
            Content::Link(_) => 1,
        })
        .sum();
    let libraries = &contents.program.libraries;
    let depends: Vec<String> = libraries
        .iter()
        .map(|(name, version)| dependency(name, version))
        .collect();
    let depends = match depends.as_slice() {
        [] => String::new(),
        depends => format!("Depends: {}\n", depends.join(", ")),
    };
    format!(
        "Package: slipway\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: {MAINTAINER}\n\
         Installed-Size: {kibibytes}\n\
         {depends}\
         Recommends: ca-certificates\n\
         Section: admin\n\
         Priority: optional\n\
         Description: {SUMMARY}\n{DESCRIPTION}",
        version(&contents.version),
        contents.program.architecture.name(),
    )
}

fn dependency(name: &str, version: &LibraryVersion) -> String {
    if version.is_empty() {
        return name.to_owned();
    }
    let numbers: Vec<String> = version.iter().map(u32::to_string).collect();
    format!("{name} (>= {})", numbers.join("."))
}

/// Digests for `dpkg --verify`.
fn md5sums(installed: &[Entry]) -> String {
    let mut text = String::new();
    for Entry { path, content } in installed {
        if let Content::Program(bytes) | Content::File(bytes) = content {
            let digest = hex::encode(Md5::digest(bytes));
            text.extend([&digest, "  ", path, "\n"]);
        }
    }
    text
}

fn put(root: &Path, Entry { path, content }: &Entry) -> anyhow::Result<()> {
    let path = root.join(path);
    let shown = || format!("cannot write {}", path.display());
    let mut missing = Vec::new();
    for directory in path.ancestors().skip(1) {
        if directory.exists() {
            break;
        }
        missing.push(directory);
    }
    // The modes are those of the package, whatever the umask is.
    for directory in missing.into_iter().rev() {
        std::fs::create_dir(directory).with_context(shown)?;
        set_mode(directory, 0o755).with_context(shown)?;
    }
    let (bytes, mode) = match content {
        Content::Program(bytes) => (bytes, 0o755),
        Content::File(bytes) => (bytes, 0o644),
        Content::Link(target) => {
            return std::os::unix::fs::symlink(target, &path).with_context(shown);
        }
    };
    std::fs::write(&path, bytes).with_context(shown)?;
    set_mode(&path, mode).with_context(shown)
}

fn set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_before_the_release_sorts_before_it() {
        for (semantic, expected) in [
            ("0.2.0", "0.2.0"),
            ("0.2.0-rc.1", "0.2.0~rc.1"),
            ("0.2.0-rc-1+a-b", "0.2.0~rc.1+a.b"),
        ] {
            assert_eq!(version(&Version::parse(semantic).unwrap()), expected);
        }
    }

    #[test]
    fn a_library_without_versions_of_symbols_is_a_dependency_of_any_version() {
        assert_eq!(dependency("libc6", &vec![]), "libc6");
        assert_eq!(dependency("libc6", &vec![2, 34]), "libc6 (>= 2.34)");
    }
}
