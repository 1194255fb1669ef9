//! Go modules of the checkout, from which the lab builds programs.
#![expect(
    clippy::disallowed_methods,
    reason = "the lab builds programs; it is no part of what it tests"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cache::Recipe;

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
        let recipe = Recipe::default().with("go version", self.go(&["version"])?);
        self.sources()?
            .iter()
            .try_fold(recipe, |recipe, path| recipe.with_file(path))
    }

    /// Runs `go` in the module; what it printed. Low priority, as a build takes all cores for
    /// minutes. Without cgo, so that programs run on hosts with another libc.
    ///
    /// # Errors
    /// It fails; the message ends with what it said.
    pub(crate) fn go(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new("nice")
            .arg("go")
            .args(arguments)
            .current_dir(&self.0)
            .env("CGO_ENABLED", "0")
            .env_remove("GOFLAGS")
            .output()
            .context("cannot run go")?;
        ensure!(
            output.status.success(),
            "go {} failed:\n{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
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
