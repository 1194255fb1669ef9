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

/// The dynamic linker. A rehearsal runs the helper in the OS: here it ends well before it begins,
/// without the sixty libraries that it needs, each of which would be points of its own.
const LINKER: &str = "ld-linux-x86-64.so.2";

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
        ("lib64", "usr/lib64"),
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
    put(
        &root.join("usr/lib64").join(LINKER),
        &elf_that_ends(),
        0o755,
    )?;
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

/// A shared ELF object for x86-64 whose entry ends the process with code 0.
fn elf_that_ends() -> Vec<u8> {
    /// Sizes of the file's header and of the only program header; the code follows.
    const HEADERS: (u16, u16) = (64, 56);
    const CODE: [u8; 9] = [
        0xb8, 60, 0, 0, 0, // mov eax, 60: the number of exit
        0x31, 0xff, // xor edi, edi
        0x0f, 0x05, // syscall
    ];
    let entry = u64::from(HEADERS.0 + HEADERS.1);
    let size = entry + CODE.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    // A shared object, x86-64, version 1.
    elf.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    // Entry, program headers, no sections.
    elf.extend(
        [entry, u64::from(HEADERS.0), 0]
            .map(u64::to_le_bytes)
            .concat(),
    );
    elf.extend([0; 4]);
    let counts = [HEADERS.0, HEADERS.1, 1, 0, 0, 0];
    elf.extend(counts.map(u16::to_le_bytes).concat());
    // Loaded whole, to be read and executed.
    elf.extend([1, 5].map(u32::to_le_bytes).concat());
    elf.extend([0, 0, 0, size, size, 0x1000].map(u64::to_le_bytes).concat());
    elf.extend(CODE);
    elf
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
