//! What cargo and go build: the test executables, the programs under test, the lab's parts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::job::{BUILD_LIMIT, Job, Outcome};
use crate::libtest;
use crate::table::PROGRAMS;
use crate::workspace::{Workspace, setting};

/// The newest version of glibc's symbols that the helper may need: the host's is what it is.
const HOST_GLIBC: (u32, u32) = (2, 34);

/// Largest stripped release of a program, in bytes: half as much again as today's.
const RELEASE_BYTES: u64 = 24 << 20;

/// A profile of cargo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// What suites and the demo run.
    Dev,
    /// What ships, and what the benchmark measures.
    Release,
}

impl Profile {
    const fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Release => "release",
        }
    }

    /// Its folder below the target directory.
    const fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }

    /// The profile of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Dev, Self::Release]
            .into_iter()
            .find(|profile| profile.name() == name)
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

/// Builds every test executable, in one call: what cargo compiles for a selection of packages
/// differs in features.
pub(crate) fn tests(workspace: &Workspace, executables: &Executables) -> Job {
    let (workspace, executables) = (workspace.clone(), executables.clone());
    Job::new("tests", &["format"], move |log| {
        let mut cargo = workspace.command("cargo");
        cargo.args(["test", "--workspace", "--locked", "--no-run"]);
        cargo.arg("--message-format=json-render-diagnostics");
        log.run(&mut cargo, BUILD_LIMIT)?;
        let built: Vec<_> = log.text()?.lines().filter_map(Executable::parse).collect();
        ensure!(!built.is_empty(), "cargo built no test executable");
        let note = format!("{} executables", built.len());
        if executables.0.set(built).is_err() {
            bail!("the tests were built twice");
        }
        Ok(Outcome {
            note,
            ..Outcome::default()
        })
    })
}

/// Runs all tests that need no lab.
pub(crate) fn unit(workspace: &Workspace, executables: &Executables) -> Job {
    let (workspace, executables) = (workspace.clone(), executables.clone());
    Job::new("unit", &["tests"], move |log| {
        let mut tests = 0;
        for one in executables.all()? {
            let before = log.text()?.len();
            log.run(&mut one.command(&workspace), Duration::from_mins(10))?;
            let said = log.text()?.split_off(before);
            // Of some executables all tests need the lab.
            if !said.contains("test result: ok. 0 passed") {
                tests += libtest::passed(&said)
                    .with_context(|| format!("{} {}", one.package, one.target))?;
            }
        }
        Ok(Outcome {
            tests,
            ..Outcome::default()
        })
    })
}

/// Builds, strips and checks the programs under test, each with its own features only: the daemon
/// links no libostree, the helper no Kubernetes client, and `slipway` only one compressor.
pub(crate) fn programs(workspace: &Workspace, profile: Profile, after: &[&'static str]) -> Job {
    let workspace = workspace.clone();
    Job::new("programs", after, move |log| {
        let sources = workspace.output("tests/support/suites/sources.sh", &[])?;
        for arguments in [
            "-p mcd -p controller --no-default-features --features mcd/node-daemon --bin mcd --bin mcc",
            "-p mcd --no-default-features --features host-helper --bin mcd-os",
            "-p config-server --bin mcs",
            "-p cvo --bin cvo",
            "-p managed-upgrade --bin muo",
            "-p update-service --bin update-service",
            "-p cli --bin slipway",
        ] {
            let mut cargo = workspace.command("cargo");
            cargo
                .args(["build", "--locked", "--profile", profile.name()])
                .args(arguments.split(' '));
            if profile == Profile::Release {
                remap_paths(&mut cargo, &workspace)?;
            }
            log.run(&mut cargo, BUILD_LIMIT)?;
        }
        let programs = workspace.programs();
        fs::create_dir_all(&programs)?;
        for program in PROGRAMS {
            let mut strip = workspace.command("strip");
            // The build id is a hash of the debug information too, which has the checkout's path.
            strip
                .args(["--strip-all", "--remove-section=.note.gnu.build-id"])
                .arg("-o")
                .arg(programs.join(program));
            strip.arg(workspace.built().join(profile.folder()).join(program));
            log.run(&mut strip, BUILD_LIMIT)?;
            check(&workspace, program, profile)?;
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "a file that is lost is built again"
        )]
        fs::write(programs.join("sources"), sources + "\n")?;
        Ok(Outcome::default())
    })
}

/// Keeps paths of this computer out of a program, so that its bytes are the same wherever it is
/// built.
///
/// Cargo names the workspace's own sources relative to the checkout. What remains are sources of
/// other crates, below Cargo's home, and sources that build scripts write, below the target
/// directory. Only releases are built so: in the profile of tests, all crates would be compiled
/// twice.
fn remap_paths(cargo: &mut Command, workspace: &Workspace) -> Result<()> {
    let home = match (setting("CARGO_HOME"), setting("HOME")) {
        (Some(home), _) => PathBuf::from(home),
        (None, Some(home)) => Path::new(&home).join(".cargo"),
        (None, None) => bail!("neither CARGO_HOME nor HOME is set"),
    };
    let remapped = [
        (home.display().to_string(), "/cargo"),
        (workspace.built().display().to_string(), "/target"),
    ];
    let flag = |option: &str| {
        let flags = remapped
            .iter()
            .map(|(path, name)| format!("{option}={path}={name}"));
        flags.collect::<Vec<_>>()
    };
    // Cargo splits this variable at the unit separator.
    let rust = flag("--remap-path-prefix").join("\u{1f}");
    cargo.env("CARGO_ENCODED_RUSTFLAGS", rust);
    cargo.env("CFLAGS", flag("-ffile-prefix-map").join(" "));
    Ok(())
}

/// Checks a stripped program for what a node may be given.
fn check(workspace: &Workspace, program: &str, profile: Profile) -> Result<()> {
    let path = workspace.programs().join(program);
    let path = path.to_str().context("the checkout's path is not UTF-8")?;
    let dynamic = workspace.output("readelf", &["--wide", "--dynamic", path])?;
    ensure!(
        dynamic.contains("(NEEDED)"),
        "readelf finds no library that {program} needs"
    );
    let has_ostree = dynamic.contains("[libostree-1.so");
    ensure!(
        has_ostree == (program == "mcd-os"),
        "{program} links libostree: {has_ostree}; only mcd-os does"
    );
    if profile == Profile::Dev {
        return Ok(());
    }
    let bytes = fs::metadata(path)?.len();
    ensure!(
        bytes <= RELEASE_BYTES,
        "{program} has {bytes} bytes, more than {RELEASE_BYTES}"
    );
    let versions = workspace.output("readelf", &["--wide", "--version-info", path])?;
    let newest = newest_glibc(&versions)
        .with_context(|| format!("readelf finds no version of glibc that {program} needs"))?;
    ensure!(
        program != "mcd-os" || newest <= HOST_GLIBC,
        "{program} needs glibc {newest:?}, and hosts may have {HOST_GLIBC:?}"
    );
    Ok(())
}

/// The newest `GLIBC_2.x` that is named.
fn newest_glibc(versions: &str) -> Option<(u32, u32)> {
    let names = versions.split("GLIBC_").skip(1);
    let parse = |name: &str| {
        let end = name
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(name.len());
        let mut numbers = name.get(..end)?.split('.');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    };
    names.filter_map(parse).max()
}

/// Compiles the control plane's packages while cargo compiles; the lab links them later. None where
/// one is built already: if it is of another version, the lab builds the new one whole.
pub(crate) fn go(workspace: &Workspace) -> Option<Job> {
    let is_built = |entry: std::io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.path().join("kube-apiserver").exists())
    };
    if fs::read_dir(workspace.cache.join("control-plane")).is_ok_and(|mut all| all.any(is_built)) {
        return None;
    }
    let workspace = workspace.clone();
    Some(Job::new("go", &[], move |log| {
        let mut go = workspace.command("nice");
        go.args([
            "go",
            "list",
            "-export",
            "-trimpath",
            "-deps",
            "-f",
            "{{.Export}}",
            ".",
        ]);
        go.current_dir(workspace.root.join("tests/control-plane"));
        go.env("CGO_ENABLED", "0").env_remove("GOFLAGS");
        log.run(&mut go, BUILD_LIMIT)?;
        Ok(Outcome::default())
    }))
}

/// Builds the control plane and the base tree into the cache, where they are missing.
pub(crate) fn lab(workspace: &Workspace, after: &[&'static str]) -> Job {
    let workspace = workspace.clone();
    Job::new("lab", after, move |log| {
        let lab = workspace.built().join("debug/lab");
        log.run(workspace.command(lab).arg("prepare"), BUILD_LIMIT)?;
        Ok(Outcome::default())
    })
}

/// Builds the demo, the benchmark and the lab's own program.
pub(crate) fn tools(workspace: &Workspace) -> Job {
    cargo(
        workspace,
        "tools",
        &[],
        "build --locked -p demo -p bench -p lab --bins",
    )
}

/// Builds what the benchmark compares a release with, as a release.
pub(crate) fn peers(workspace: &Workspace) -> Job {
    cargo(
        workspace,
        "peers",
        &["programs"],
        "build --locked --release -p http-load --bins",
    )
}

/// Format, lints, dependencies, documentation tests.
pub(crate) fn lints(workspace: &Workspace) -> Vec<Job> {
    vec![
        cargo(workspace, "format", &[], "fmt --all --check"),
        cargo(
            workspace,
            "clippy",
            &["programs"],
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
            let said = path
                .to_str()
                .map(|path| workspace.output(path, &["--version"]));
            said.is_some_and(|said| said.is_ok_and(|said| said == format!("cargo-deny {VERSION}")))
        };
        if !is_there(&deny) {
            let mut cargo = workspace.command("nice");
            cargo.args(["cargo", "install", "cargo-deny", "--locked", "--force"]);
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
        log.run(
            workspace.command("cargo").args(arguments.split(' ')),
            BUILD_LIMIT,
        )?;
        Ok(Outcome::default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_is_found_by_number() {
        let text = "Name: GLIBC_2.9  Flags\n 0x: GLIBC_2.34 (3)\n GLIBC_2.2.5 GLIBC_PRIVATE";
        assert_eq!(newest_glibc(text), Some((2, 34)));
        assert_eq!(newest_glibc("nothing"), None);
    }

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
