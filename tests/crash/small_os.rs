//! An OS of a few files, which can be deployed and not booted.
//!
//! The calls by which libostree checks an OS out are the same for a few files and for thousands:
//! with a few, each of them is a point of its own.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use lab::tree::{Commit, Tree};

/// Accounts, which steps need.
const ACCOUNTS: [&str; 4] = ["passwd", "group", "shadow", "gshadow"];

/// Makes its commit in a repository of its own, in the new folder `dir`.
pub(crate) fn commit(tree: &Tree, dir: &Path) -> Result<Commit> {
    let root = dir.join("root");
    for name in ["boot", "dev", "proc", "run", "sys", "sysroot", "tmp", "var"] {
        fs::create_dir_all(root.join(name))?;
    }
    for (link, target) in [
        ("home", "var/home"),
        ("ostree", "sysroot/ostree"),
        ("lib", "usr/lib"),
    ] {
        symlink(target, root.join(link))?;
    }
    for (path, text, mode) in [
        ("usr/lib/os-release", "ID=debian\nVERSION=small\n", 0o644),
        ("usr/lib/systemd/systemd", "nothing that runs\n", 0o755),
        (
            "usr/lib/systemd/system/fstrim.timer",
            "[Timer]\nOnCalendar=weekly\n",
            0o644,
        ),
        ("usr/lib/modules/1/vmlinuz", "no kernel\n", 0o644),
        ("usr/lib/modules/1/initramfs.img", "no initramfs\n", 0o644),
        ("usr/etc/crash/shadowed", "of the small OS\n", 0o640),
    ] {
        put(&root.join(path), text.as_bytes(), mode)?;
    }
    for name in ACCOUNTS {
        let path = format!("usr/etc/{name}");
        let mode = if name.contains("shadow") {
            0o640
        } else {
            0o644
        };
        put(&root.join(&path), &tree.read(&format!("/{path}"))?, mode)?;
    }
    let repo = dir.join("repo");
    ostree(&["init", "--mode=bare"], &repo)?;
    let from = format!("--tree=dir={}", root.display());
    let made = [
        "commit",
        "--bootable",
        "--branch=small",
        "--timestamp=@1767225600",
        &from,
    ];
    let checksum = ostree(&made, &repo)?.trim().to_owned();
    Ok(Commit {
        repo,
        checksum,
        version: "small".to_owned(),
    })
}

#[expect(clippy::disallowed_methods, reason = "a test's own directory")]
fn put(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    fs::create_dir_all(path.parent().context("a file in no folder")?)?;
    fs::write(path, bytes)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

#[expect(clippy::disallowed_methods, reason = "a program of this machine")]
fn ostree(words: &[&str], repo: &Path) -> Result<String> {
    let output = std::process::Command::new("ostree")
        .args(words)
        .arg(format!("--repo={}", repo.display()))
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}
