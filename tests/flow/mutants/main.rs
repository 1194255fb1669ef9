//! The demo finds what it is there to find: each of four faults makes it fail, and name the law.

#![expect(
    clippy::disallowed_methods,
    reason = "a test that builds and runs programs"
)]

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use tests::cluster::Binaries;
use tests::observer::laws::Law;

/// A fault, as a feature of the program that has it.
struct Mutant {
    feature: &'static str,
    /// What the demo has to say, among other things.
    law: Law,
    program: Program,
}

#[derive(Clone, Copy)]
enum Program {
    Daemon,
    Controller,
}

const MUTANTS: [Mutant; 4] = [
    Mutant {
        feature: "mutant-skip-drain",
        law: Law::Drained,
        program: Program::Daemon,
    },
    Mutant {
        feature: "mutant-delete-pods",
        law: Law::Readiness,
        program: Program::Daemon,
    },
    Mutant {
        feature: "mutant-done-before-reboot",
        law: Law::Truthful,
        program: Program::Daemon,
    },
    Mutant {
        feature: "mutant-ignore-budget",
        law: Law::Budget,
        program: Program::Controller,
    },
];

#[test]
#[ignore = "needs the lab"]
fn the_true_programs_are_proven() -> Result<()> {
    let output = demo(&Binaries::built()?, "true", "3")?;
    ensure!(
        output.status.success(),
        "the demo fails:\n{}",
        said(&output)
    );
    Ok(())
}

#[test]
#[ignore = "needs the lab"]
fn every_mutant_is_found() -> Result<()> {
    for Mutant {
        feature,
        law,
        program,
    } in MUTANTS
    {
        let dir = tempfile::tempdir()?;
        let binaries = program.with(feature, dir.path())?;
        let output = demo(&binaries, feature, "1")?;
        let said = said(&output);
        ensure!(!output.status.success(), "{feature} is not found:\n{said}");
        let named = format!("law broken: {}", law.sentence());
        ensure!(
            said.contains(&named),
            "{feature} does not make it say {named:?}:\n{said}"
        );
    }
    Ok(())
}

impl Program {
    /// The programs, this one with a feature more, in `dir`.
    fn with(self, feature: &str, dir: &Path) -> Result<Binaries> {
        let (package, features, name) = match self {
            Self::Daemon => ("mcd", format!("node-daemon,{feature}"), "mcd"),
            Self::Controller => ("controller", feature.to_owned(), "mcc"),
        };
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args([
                "build",
                "--profile=lab",
                "--locked",
                "--no-default-features",
            ])
            .args(["--package", package, "--features", &features, "--bin", name])
            .current_dir(workspace());
        let status = cargo.status().context("cannot run cargo")?;
        ensure!(status.success(), "{package} with {feature} does not build");
        let built = dir.join(name);
        fs::copy(workspace().join("target/lab").join(name), &built)?;
        let binaries = Binaries::built()?;
        Ok(match self {
            Self::Daemon => Binaries {
                mcd: built,
                ..binaries
            },
            Self::Controller => Binaries {
                mcc: built,
                ..binaries
            },
        })
    }
}

/// Runs the demo, its files in a folder of this name.
fn demo(binaries: &Binaries, name: &str, rolls: &str) -> Result<Output> {
    let out = workspace().join("target/demo-of-tests").join(name);
    let arguments: [(&str, &OsStr); 5] = [
        ("--mcd", binaries.mcd.as_ref()),
        ("--mcd-os", binaries.mcd_os.as_ref()),
        ("--mcc", binaries.mcc.as_ref()),
        ("--out", out.as_ref()),
        ("--rolls", rolls.as_ref()),
    ];
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"));
    for (flag, value) in arguments {
        demo.arg(flag).arg(value);
    }
    demo.stdin(Stdio::null())
        .output()
        .context("cannot run the demo")
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
