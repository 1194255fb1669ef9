//! What a machine lacks is named before anything is built.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What every Debian has, and `machine.sh` calls.
const TOOLS: [&str; 17] = [
    "apt-cache",
    "apt-get",
    "bash",
    "cut",
    "df",
    "dirname",
    "du",
    "env",
    "grep",
    "head",
    "id",
    "mount",
    "sed",
    "sort",
    "tail",
    "tr",
    "unshare",
];

/// Runs the script where only these programs are.
fn machine(path: &Path, cache: &Path) -> io::Result<Output> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/machine.sh");
    #[expect(clippy::disallowed_methods, reason = "a test that runs a program")]
    let mut command = Command::new("bash");
    command.args([script, "lab"]);
    command
        .env("PATH", path)
        .env("SLIPWAY_CACHE", cache)
        .output()
}

fn with_tools() -> io::Result<tempfile::TempDir> {
    let dir = tempfile::tempdir()?;
    for tool in TOOLS {
        let found = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"]
            .map(|folder| PathBuf::from(folder).join(tool))
            .into_iter()
            .find(|path| path.exists());
        symlink(found.unwrap_or_default(), dir.path().join(tool))?;
    }
    Ok(dir)
}

#[test]
fn all_that_is_missing_is_named_at_once_with_what_to_do() {
    let tools = with_tools().unwrap();
    let cache = tempfile::tempdir().unwrap();
    let output = machine(tools.path(), &cache.path().join("not/yet/there")).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for line in [
        "  - Rust 1.95 or newer\n      install it by rustup",
        "  - Go 1.21 or newer",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(
        text.starts_with("This machine lacks what the lab needs; nothing was built"),
        "{text}"
    );
    assert!(!cache.path().join("not").exists());
}

#[test]
fn an_older_compiler_is_named_with_its_version() {
    let tools = with_tools().unwrap();
    for (name, version) in [
        ("rustc", "rustc 1.94.1 (abc)"),
        ("cargo", "cargo 1.94.1"),
        ("go", ""),
    ] {
        let path = tools.path().join(name);
        #[expect(clippy::disallowed_methods, reason = "a program of the test")]
        std::fs::write(&path, format!("#!/bin/bash\necho '{version}'\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
    }
    let output = machine(tools.path(), tools.path()).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("  - Rust 1.95 or newer: rustc is 1.94.1\n"),
        "{text}"
    );
    assert!(!text.contains("Go 1.21"), "{text}");
}
