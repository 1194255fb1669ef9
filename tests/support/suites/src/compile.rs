//! What cargo and go build: the test executables, the programs under test, the lab's parts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::cargo::{DEVELOPMENT, ForBuilds, Ledger, PEERS};
use crate::cores::Cores;
use crate::job::{BUILD_LIMIT, Job, Log, Outcome};
use crate::libtest;
use crate::progress::Meter;
use crate::workspace::Workspace;

/// A profile of cargo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// What suites and the demo run.
    Dev,
    /// What ships, and what the benchmark measures.
    Release,
}

impl Profile {
    /// The profile of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "dev" => Some(Self::Dev),
            "release" => Some(Self::Release),
            _ => None,
        }
    }

    /// Its folder below the target directory.
    pub(crate) const fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

/// A built test executable.
#[derive(Clone, Debug)]
pub(crate) struct Executable {
    /// Name of the package's folder.
    package: String,
    target: String,
    /// Folder of the package, where its tests run.
    folder: PathBuf,
    path: PathBuf,
}

/// All test executables, once they are built.
#[derive(Clone, Debug, Default)]
pub(crate) struct Executables(Arc<OnceLock<Vec<Executable>>>);

impl Executables {
    fn all(&self) -> Result<&[Executable]> {
        Ok(self.0.get().context("the tests are not built yet")?)
    }

    /// The command that runs the executable of an integration test.
    ///
    /// # Errors
    ///
    /// There is none of that name.
    pub(crate) fn command(
        &self,
        workspace: &Workspace,
        (package, target): (&str, &str),
    ) -> Result<Command> {
        let found = self
            .all()?
            .iter()
            .find(|one| one.package == package && one.target == target);
        let found = found.with_context(|| format!("{package} has no test {target}"))?;
        Ok(found.command(workspace))
    }
}

impl Executable {
    /// Reads one line of `cargo --message-format=json`; none where it is no test executable.
    fn parse(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        let text = |pointer: &str| message.pointer(pointer)?.as_str().map(str::to_owned);
        (message.pointer("/profile/test")?.as_bool()?).then_some(())?;
        let manifest = PathBuf::from(text("/manifest_path")?);
        let folder = manifest.parent()?.to_owned();
        Some(Self {
            package: folder.file_name()?.to_str()?.to_owned(),
            target: text("/target/name")?,
            path: text("/executable")?.into(),
            folder,
        })
    }

    fn command(&self, workspace: &Workspace) -> Command {
        let mut command = workspace.command(&self.path);
        // As cargo does.
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

/// What a run has cargo build.
#[derive(Clone, Debug, Default)]
pub(crate) struct Built {
    pub(crate) executables: Executables,
    /// Of the profile of development.
    ledger: Ledger,
}

/// Builds what is selected for development, in one call: programs and test executables.
pub(crate) fn crates(
    workspace: &Workspace,
    (name, after): (&'static str, &[&'static str]),
    selected: Vec<String>,
    built: &Built,
) -> Job {
    let (workspace, built) = (workspace.clone(), built.clone());
    let job = Job::new(name, after, move |log| {
        let mut cargo = workspace.compiler("cargo");
        cargo.args(DEVELOPMENT).args(selected);
        let (messages, note) = compile(&workspace, log, cargo, &built.ledger)?;
        let found: Vec<_> = messages.lines().filter_map(Executable::parse).collect();
        // A run that selects programs alone has none.
        if !found.is_empty() {
            built.executables.0.get_or_init(|| found);
        }
        Ok(Outcome {
            note,
            ..Outcome::default()
        })
    });
    job.meter(Meter::Cargo)
}

/// Runs cargo with its progress bar; its messages, and how often libraries were compiled.
pub(crate) fn compile(
    workspace: &Workspace,
    log: &Log,
    mut cargo: Command,
    ledger: &Ledger,
) -> Result<(String, String)> {
    cargo.arg("--message-format=json-render-diagnostics");
    show_bar(&mut cargo);
    let messages = log.output(&mut cargo, BUILD_LIMIT)?;
    let version = workspace.output("rustc", &["--version", "--verbose"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc does not name its host")?;
    // Packages of other platforms are not fetched.
    let metadata = [
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform",
        host,
    ];
    let for_builds = ForBuilds::parse(&workspace.output("cargo", &metadata)?)?;
    let count = ledger.add(&messages, &for_builds)?;
    Ok((messages, count.print()))
}

/// Runs all tests that need no lab.
pub(crate) fn unit(workspace: &Workspace, executables: &Executables) -> Job {
    let (workspace, executables) = (workspace.clone(), executables.clone());
    Job::new("unit", &["crates"], move |log| {
        let mut tests = 0;
        for one in executables.all()? {
            let before = log.text()?.len();
            log.run(&mut one.command(&workspace), Duration::from_mins(10))?;
            let output = log.text()?.split_off(before);
            // Of some executables all tests need the lab.
            if !output.contains("test result: ok. 0 passed") {
                tests += libtest::passed(&output)
                    .with_context(|| format!("{} {}", one.package, one.target))?;
            }
        }
        Ok(Outcome {
            tests,
            ..Outcome::default()
        })
    })
}

/// What the lab is made of.
pub(crate) const PARTS: [&str; 5] = [
    "control-plane",
    "container-runtime",
    "helm",
    "skopeo",
    "tree",
];

/// Makes [`PARTS`] where they are missing, each beside the others and cargo.
///
/// # Errors
///
/// The cores that Go takes cannot be had.
pub(crate) fn prebuilt(workspace: &Workspace) -> Result<Vec<Job>> {
    let job = |name: &'static str| {
        let is_go = matches!(name, "control-plane" | "helm" | "skopeo");
        // A second reservation would wait for the first, which is returned when its job ends.
        let cores = workspace.cores.as_ref();
        let cores = cores.filter(|_| name == "control-plane");
        let reserved = cores.map(Cores::reserve).transpose()?;
        let workspace = workspace.clone();
        let job = Job::new(name, &[], move |log| {
            let program = workspace.built().join("debug/prebuilt");
            let mut command = workspace.command(program);
            if let Some(reserved) = &reserved {
                reserved.give(&mut command);
            }
            log.run(command.arg(name), BUILD_LIMIT)?;
            Ok(Outcome::default())
        });
        Ok(job.meter(if is_go { Meter::Go } else { Meter::Debian }))
    };
    PARTS.into_iter().map(job).collect()
}

/// Builds what the benchmark compares a release with, as a release.
pub(crate) fn peers(workspace: &Workspace) -> Job {
    cargo(workspace, "peers", &["release"], PEERS)
}

/// Format, lints, dependencies, documentation tests.
pub(crate) fn lints(workspace: &Workspace) -> Vec<Job> {
    vec![
        cargo(workspace, "format", &[], "fmt --all --check"),
        cargo(
            workspace,
            "clippy",
            &["crates"],
            "clippy --workspace --all-targets --features api/crdgen --locked -- -D warnings",
        ),
        cargo(
            workspace,
            "documentation",
            &["clippy"],
            "test --workspace --doc --locked",
        ),
        dependencies(workspace),
    ]
}

/// Licences, sources and versions of other people's crates, by cargo-deny.
fn dependencies(workspace: &Workspace) -> Job {
    const VERSION: &str = "0.20.2";
    let workspace = workspace.clone();
    Job::new("dependencies", &[], move |log| {
        let tools = workspace.cache.join("tools");
        let deny = tools.join("bin/cargo-deny");
        let is_there = |path: &Path| {
            let printed = path
                .to_str()
                .map(|path| workspace.output(path, &["--version"]));
            printed.is_some_and(|printed| {
                printed.is_ok_and(|printed| printed == format!("cargo-deny {VERSION}"))
            })
        };
        if !is_there(&deny) {
            let mut cargo = workspace.compiler("nice");
            // It reads a few files once a run: an optimised build would take longer than it saves.
            cargo.args([
                "cargo",
                "install",
                "cargo-deny",
                "--locked",
                "--force",
                "--debug",
            ]);
            cargo.env("CARGO_PROFILE_DEV_DEBUG", "false");
            cargo.args(["--version", VERSION, "--root"]).arg(&tools);
            // Its dependencies are not the workspace's.
            cargo.env("CARGO_TARGET_DIR", tools.join("target"));
            log.run(&mut cargo, BUILD_LIMIT)?;
            fs::remove_dir_all(tools.join("target"))?;
        }
        let mut check = workspace.command(&deny);
        check.args([
            "--locked",
            "check",
            "--hide-inclusion-graph",
            "bans",
            "licenses",
            "sources",
        ]);
        log.run(&mut check, BUILD_LIMIT)?;
        Ok(Outcome::default())
    })
}

fn cargo(
    workspace: &Workspace,
    name: &'static str,
    after: &[&'static str],
    arguments: &'static str,
) -> Job {
    let workspace = workspace.clone();
    Job::new(name, after, move |log| {
        let mut cargo = workspace.compiler("cargo");
        cargo.args(arguments.split(' '));
        show_bar(&mut cargo);
        log.run(&mut cargo, BUILD_LIMIT)?;
        Ok(Outcome::default())
    })
    .meter(Meter::Cargo)
}

/// Has cargo write its progress bar, which it does for a terminal alone.
/// Has cargo print its progress bar, which the meter reads.
pub(crate) fn show_bar(cargo: &mut Command) {
    cargo
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_PROGRESS_WHEN", "always")
        .env("CARGO_TERM_PROGRESS_WIDTH", "100");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_executables_are_read_from_cargos_messages() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/w/tests/Cargo.toml","target":{"name":"mcd-os"},"profile":{"test":true},"executable":"/t/mcd_os-1"}"#;
        let one = Executable::parse(line).unwrap();
        assert_eq!(
            (one.package.as_str(), one.target.as_str()),
            ("tests", "mcd-os")
        );
        assert_eq!(one.folder, Path::new("/w/tests"));
        let library = line.replace(r#""/t/mcd_os-1""#, "null");
        let program = line.replace(r#""test":true"#, r#""test":false"#);
        for other in [library.as_str(), program.as_str(), "Compiling x", "{}"] {
            assert!(Executable::parse(other).is_none(), "{other}");
        }
    }
}
