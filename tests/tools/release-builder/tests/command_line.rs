//! The packages of the command line, made from a small program that stands in for it.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "programs of the machine install the packages; a test fails where one does"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use image_builder::Architecture;
use release_builder::command_line::{Input, write};
use tempfile::TempDir;

/// 2026-01-31T12:00:00Z.
const TIME: u64 = 1_769_860_800;

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {printed}{error}"
    );
    printed
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What a build machine has: a program that ends at once.
fn input(version: &'static str) -> Input<'static> {
    Input {
        program: Path::new("/bin/true"),
        version,
        architecture: machine(),
        manifests: b"{}",
        time: TIME,
    }
}

fn machine() -> Architecture {
    if cfg!(target_arch = "aarch64") {
        Architecture::Arm64
    } else {
        Architecture::Amd64
    }
}

fn made(version: &'static str) -> (TempDir, [PathBuf; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let paths = write(&input(version), directory.path()).unwrap();
    (directory, paths)
}

/// Files and links below a directory, sorted, without it.
fn below(root: &Path) -> Vec<String> {
    let found = run(
        "find",
        &[
            text(root),
            "-mindepth",
            "1",
            "-not",
            "-type",
            "d",
            "-printf",
            "%P\n",
        ],
    );
    let mut found: Vec<String> = found.lines().map(str::to_owned).collect();
    found.sort();
    found
}

#[test]
fn the_same_program_gives_the_same_bytes() {
    let (_one_directory, one) = made("0.2.0");
    let (_other_directory, other) = made("0.2.0");
    for (one, other) in one.iter().zip(&other) {
        assert_eq!(one.file_name(), other.file_name());
        let equal = std::fs::read(one).unwrap() == std::fs::read(other).unwrap();
        assert!(equal, "{} differs", one.display());
    }
}

#[test]
fn the_archive_unpacks_to_a_program_that_runs() {
    let (directory, [archive, _]) = made("0.2.0-rc.1");
    let architecture = machine().name();
    let stem = format!("slipway-0.2.0-rc.1-linux-{architecture}");
    assert_eq!(archive.file_name().unwrap(), &*format!("{stem}.tar.gz"));
    let listed = run(
        "tar",
        &[
            "--list",
            "--verbose",
            "--utc",
            "--full-time",
            "-f",
            text(&archive),
        ],
    );
    for line in listed.lines() {
        assert!(
            line.contains(" 0/0 ") && line.contains(" 2026-01-31 12:00:00 "),
            "{line}"
        );
        assert!(line.contains(&format!(" {stem}/")), "{line}");
    }
    let names = run("tar", &["--list", "-f", text(&archive)]);
    let mut sorted: Vec<&str> = names.lines().collect();
    sorted.sort_unstable();
    assert_eq!(names.lines().collect::<Vec<_>>(), sorted);
    run(
        "tar",
        &["-x", "-C", text(directory.path()), "-f", text(&archive)],
    );
    let top = directory.path().join(stem);
    for name in ["slipway", "kubectl-slipway", "kubectl_complete-slipway"] {
        run(text(&top.join(name)), &[]);
    }
    let found = below(&top);
    for name in [
        "LICENSE",
        "README",
        "completions/_slipway",
        "completions/slipway.bash",
        "completions/slipway.fish",
        "man/man1/slipway.1",
        "man/man1/slipway-release-new.1",
    ] {
        assert!(found.iter().any(|one| one == name), "{name}: {found:?}");
    }
    let page = std::fs::read_to_string(top.join("man/man1/slipway.1")).unwrap();
    assert!(
        page.contains(r#".TH slipway 1 2026-01-31 "slipway 0.2.0-rc.1""#),
        "{page}"
    );
}

#[test]
fn the_package_is_installed_runs_and_is_removed_whole() {
    let (directory, [_, package]) = made("0.2.0-rc.1");
    let architecture = machine().name();
    let name = format!("slipway_0.2.0~rc.1_{architecture}.deb");
    assert_eq!(package.file_name().unwrap(), &*name);
    let control = run("dpkg-deb", &["--field", text(&package)]);
    for line in [
        "Package: slipway".to_owned(),
        "Version: 0.2.0~rc.1".to_owned(),
        format!("Architecture: {architecture}"),
        "Section: admin".to_owned(),
    ] {
        assert!(control.lines().any(|one| one == line), "{line}: {control}");
    }
    // The least version is that of the newest symbol that the stand-in needs.
    assert!(control.contains("\nDepends: libc6 (>= 2."), "{control}");

    // A root of its own, with dpkg's own files and nothing else.
    let root = directory.path().join("root");
    for path in ["var/lib/dpkg/info", "var/lib/dpkg/updates"] {
        std::fs::create_dir_all(root.join(path)).unwrap();
    }
    std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let dpkg = |action: &[&str]| {
        let root = format!("--root={}", text(&root));
        let log = format!("--log={}", text(&directory.path().join("log")));
        let mut words = vec![
            root.as_str(),
            log.as_str(),
            "--force-not-root",
            "--force-depends",
        ];
        words.extend(
            ["--force-script-chrootless"]
                .into_iter()
                .chain(action.iter().copied()),
        );
        run("dpkg", &words)
    };
    dpkg(&["--install", text(&package)]);
    for name in ["slipway", "kubectl-slipway", "kubectl_complete-slipway"] {
        run(text(&root.join("usr/bin").join(name)), &[]);
    }
    let found = below(&root.join("usr"));
    for name in [
        "share/bash-completion/completions/slipway",
        "share/zsh/vendor-completions/_slipway",
        "share/fish/vendor_completions.d/slipway.fish",
        "share/doc/slipway/copyright",
        "share/doc/slipway/changelog.gz",
        "share/man/man1/slipway.1.gz",
        "share/man/man1/slipway-release-new.1.gz",
        "share/man/man1/kubectl-slipway.1.gz",
    ] {
        assert!(found.iter().any(|one| one == name), "{name}: {found:?}");
    }
    assert_eq!(dpkg(&["--verify", "slipway"]), "");
    dpkg(&["--purge", "slipway"]);
    assert!(!root.join("usr").exists(), "{:?}", below(&root.join("usr")));
}

#[test]
fn a_file_that_is_not_the_program_is_refused_with_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    let missing = directory.path().join("missing");
    // An ELF header of 64 bits, little-endian, of another machine: EM_RISCV.
    let other = directory.path().join("other");
    let mut bytes = std::fs::read("/bin/true").unwrap();
    bytes[18..20].copy_from_slice(&243_u16.to_le_bytes());
    std::fs::write(&other, bytes).unwrap();
    for (program, expected) in [
        (&missing, "cannot read"),
        (&script, "is no ELF program"),
        (&other, "its ELF machine is 243"),
        (&std::env::current_exe().unwrap(), "is not stripped"),
    ] {
        let out = directory.path().join("out");
        std::fs::create_dir_all(&out).unwrap();
        let input = Input {
            program,
            ..input("0.2.0")
        };
        let error = format!("{:#}", write(&input, &out).unwrap_err());
        assert!(
            error.contains(expected) && error.contains(text(program)),
            "{error}"
        );
        assert_eq!(below(&out), Vec::<String>::new());
    }
    let error = write(&input("0.2"), directory.path()).unwrap_err();
    assert!(
        format!("{error:#}").contains("\"0.2\" is no semantic version"),
        "{error:#}"
    );
}
