//! Go modules of the checkout, from which the lab builds programs.
#![expect(
    clippy::disallowed_methods,
    reason = "the lab builds programs; it is no part of what it tests"
)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::cache::Recipe;

/// Arguments of every build: no paths of this machine; no debug information, which no one reads and
/// which takes a fifth of the compiler's time; no inlining, which takes another fifth, and which
/// pays in programs that are busy for long.
const BUILD: [&str; 4] = ["build", "-v", "-trimpath", "-gcflags=all=-dwarf=false -l"];

/// How the compiler's own memory is kept: it collects when a process nears this limit, and not
/// before, which takes a seventh of its time. `go` runs as many as there are cores.
const MEMORY: [(&str, &str); 2] = [("GOGC", "off"), ("GOMEMLIMIT", "1500MiB")];

/// A Go module: a folder of `tests/`.
#[derive(Debug)]
pub(crate) struct Module(PathBuf);

impl Module {
    /// The module in this folder of `tests/`.
    pub(crate) fn named(folder: &str) -> Self {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Self(tests.join(folder))
    }

    /// What its programs are made from: its files and the compiler.
    ///
    /// # Errors
    /// No `go`, or no module.
    pub(crate) fn recipe(&self) -> Result<Recipe> {
        let recipe = Recipe::default()
            .with("go version", self.go(&["version"])?)
            .with("go build", BUILD.join(" "));
        self.sources()?
            .iter()
            .try_fold(recipe, |recipe, path| recipe.with_file(path))
    }

    /// Path of a file in the module's folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs `go` in the module; what it printed.
    ///
    /// # Errors
    /// It fails; the message ends with what it printed.
    pub(crate) fn go(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command(arguments).output().context("cannot run go")?;
        ensure!(
            output.status.success(),
            "go {} failed:\n{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Builds `packages` into `output`. Standard error has a line `N packages`, how many there are,
    /// and a line with the path of each that is compiled: minutes without output seem to be a hang.
    ///
    /// # Errors
    /// It fails; the reason is on standard error.
    pub(crate) fn build(&self, flags: &[&str], output: &str, packages: &[&str]) -> Result<()> {
        let list = ["list", "-deps"].into_iter();
        let selects = |flag: &&&str| flag.starts_with("-tags") || flag.starts_with("-modfile");
        let list: Vec<&str> = list
            .chain(flags.iter().filter(selects).copied())
            .chain(packages.iter().copied())
            .collect();
        let count = self.go(&list)?.lines().count();
        // Where standard error is closed, nothing reads it.
        drop(writeln!(std::io::stderr(), "{count} packages"));
        let arguments: Vec<&str> = (BUILD.into_iter())
            .chain(flags.iter().copied())
            .chain(["-o", output])
            .chain(packages.iter().copied())
            .collect();
        let status = self.command(&arguments).status().context("cannot run go")?;
        ensure!(status.success(), "go {} failed", arguments.join(" "));
        Ok(())
    }

    /// Without cgo, so that programs run on hosts with another libc.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("go");
        command
            .args(arguments)
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .env("CGO_ENABLED", "0")
            .envs(MEMORY)
            .env_remove("GOFLAGS");
        command
    }

    /// `go.mod`, `go.sum` and the Go files of its one package, in order of name.
    fn sources(&self) -> Result<Vec<PathBuf>> {
        let module = &self.0;
        let listing =
            fs::read_dir(module).with_context(|| format!("cannot list {}", module.display()))?;
        let mut sources = Vec::new();
        for entry in listing {
            let path = entry?.path();
            let kind = path.extension().and_then(|kind| kind.to_str());
            if matches!(kind, Some("go" | "mod" | "sum")) {
                sources.push(path);
            }
        }
        sources.sort();
        ensure!(!sources.is_empty(), "no Go module in {}", module.display());
        Ok(sources)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipe_counts_every_source() {
        let module = tempfile::tempdir().unwrap();
        for name in ["main.go", "go.mod", "go.sum", "README.md"] {
            fs::File::create(module.path().join(name)).unwrap();
        }
        let sources = Module(module.path().to_owned()).sources().unwrap();
        let names: Vec<_> = sources
            .iter()
            .map(|path| path.file_name().unwrap().to_os_string())
            .collect();
        assert_eq!(names, ["go.mod", "go.sum", "main.go"]);
    }
}
