//! A copy of the workspace with a fault in it, and what is built there.
//!
//! It lies in the target directory and is kept, so that the next run compiles what has changed.
//! What the workspace's own build compiled of other people's crates is taken over by hard links:
//! only the workspace's crates are compiled again.

#![expect(
    clippy::disallowed_methods,
    reason = "a test that builds what it runs, in files that the next run writes again"
)]

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use testbed::Programs;

use crate::{Mutant, workspace};

/// What a mutant's daemon runs on its host.
const HELPER: &str = "mcd-os";

/// The copy.
pub(crate) struct Scratch {
    /// The workspace's files.
    tree: PathBuf,
    /// Cargo's target directory.
    target: PathBuf,
    /// Programs by mutant.
    programs: PathBuf,
    /// The true helper.
    helper: PathBuf,
}

impl Scratch {
    /// Prepares one beside what the workspace's build leaves.
    pub(crate) fn new() -> Result<Self> {
        // Cargo leaves tests in `deps`.
        let test = std::env::current_exe()?;
        let profile = test
            .ancestors()
            .nth(2)
            .context("the test is in no folder")?;
        let dir = profile.join("mutants");
        let scratch = Self {
            tree: dir.join("tree"),
            target: dir.join("target"),
            programs: dir.join("programs"),
            helper: Programs::built()?.path(HELPER)?,
        };
        let debug = scratch.target.join("debug");
        if !debug.exists() {
            fs::create_dir_all(&scratch.target)?;
            let new = scratch.target.join("new");
            drop(fs::remove_dir_all(&new));
            fs::create_dir(&new)?;
            let parts = ["deps", "build", ".fingerprint"].map(|part| profile.join(part));
            run(Command::new("cp")
                .args(["--archive", "--link"])
                .args(parts)
                .arg(&new))?;
            fs::rename(&new, &debug)?;
        }
        Ok(scratch)
    }

    /// The programs of a mutant: the daemon and the controller from the patched copy, the helper as
    /// it is, unless it has the fault too.
    pub(crate) fn build(&self, mutant: &Mutant) -> Result<Programs> {
        self.copy()?;
        apply(mutant.patch, &self.tree, &[])?;
        let mut built = vec!["mcd", "mcc"];
        if mutant.is_in_helper {
            built.push(HELPER);
        }
        self.cargo(&built)?;
        let dir = self.programs.join(mutant.name());
        fs::create_dir_all(&dir)?;
        for name in &built {
            run(Command::new("strip")
                .args(["--strip-all", "-o"])
                .arg(dir.join(name))
                .arg(self.target.join("debug").join(name)))?;
        }
        if !mutant.is_in_helper {
            fs::copy(&self.helper, dir.join(HELPER)).context("cannot copy the helper")?;
        }
        Ok(Programs::in_folder(&dir))
    }

    /// Builds programs of the copy, with the selection of all builds for development: what is
    /// compiled already has its features.
    fn cargo(&self, programs: &[&str]) -> Result<()> {
        run(Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "--workspace"])
            .args(["--test", "suites-call"])
            .args(programs.iter().flat_map(|name| ["--bin", *name]))
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.target)
            // One mutant differs from the next by a few lines.
            .env("CARGO_INCREMENTAL", "1"))
    }

    /// Makes the copy equal to the workspace; a file that is equal already keeps its time.
    fn copy(&self) -> Result<()> {
        let output = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(workspace())
            .output()
            .context("cannot run git")?;
        ensure!(output.status.success(), "git cannot list the workspace");
        for name in String::from_utf8(output.stdout)?.split_terminator('\0') {
            let to = self.tree.join(name);
            let bytes = match fs::read(workspace().join(name)) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error).with_context(|| format!("cannot read {name}")),
            };
            if fs::read(&to).is_ok_and(|present| present == bytes) {
                continue;
            }
            fs::create_dir_all(to.parent().context("a file in no folder")?)?;
            fs::write(&to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
        }
        Ok(())
    }
}

/// Applies a patch to a folder.
pub(crate) fn apply(patch: &str, folder: &Path, options: &[&str]) -> Result<()> {
    let mut git = Command::new("git");
    git.args(["apply", "--whitespace=nowarn"])
        .args(options)
        .arg("-")
        .current_dir(folder)
        // In a repository, git would leave out what it ignores: all of a target directory.
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap_or(folder))
        .stdin(Stdio::piped());
    let mut child = git.spawn().context("cannot run git")?;
    let mut input = child.stdin.take().context("git reads nothing")?;
    input.write_all(patch.as_bytes())?;
    drop(input);
    ensure!(child.wait()?.success(), "the patch does not apply");
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
