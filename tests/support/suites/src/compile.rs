//! What cargo and go build: the test executables, the programs under test, the lab's parts.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::cargo::{DAEMON, DEVELOPMENT, ForBuilds, HELPER, Ledger, PEERS, SERVICES};
use crate::cores::Cores;
use crate::job::{BUILD_LIMIT, Job, Log, Outcome};
use crate::libtest;
use crate::progress::Meter;
use crate::table::PROGRAMS;
use crate::workspace::{Workspace, setting};

/// The newest version of glibc's symbols that the helper may need: the host's is what it is.
const HOST_GLIBC: (u32, u32) = (2, 34);

/// Libraries that images of components have: glibc's, and the unwinder of panics.
const IMAGE_LIBRARIES: [&str; 4] = ["libc.so", "libm.so", "libgcc_s.so", "ld-linux"];

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
    /// The profile of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "dev" => Some(Self::Dev),
            "release" => Some(Self::Release),
            _ => None,
        }
    }

    /// Its folder below the target directory.
    const fn folder(self) -> &'static str {
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
fn compile(
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

/// Builds the release of all programs: those of nodes apart.
pub(crate) fn release(workspace: &Workspace, after: &[&'static str]) -> Job {
    let workspace = workspace.clone();
    let job = Job::new("release", after, move |log| {
        let mut notes = Vec::new();
        for arguments in [SERVICES, DAEMON, HELPER] {
            let mut cargo = workspace.compiler("cargo");
            cargo.args(arguments.split_whitespace());
            remap_paths(&mut cargo, &workspace)?;
            let (_, note) = compile(&workspace, log, cargo, &Ledger::default())?;
            notes.push(note);
        }
        let note = notes.join("; of a program of nodes ");
        Ok(Outcome {
            note,
            ..Outcome::default()
        })
    });
    job.meter(Meter::Cargo)
}

/// Strips and checks programs that are built, in the folder from which suites and images take them.
/// Others there are removed if they are of other sources.
pub(crate) fn programs(
    workspace: &Workspace,
    (profile, names): (Profile, &'static [&'static str]),
    (name, after): (&'static str, &[&'static str]),
) -> Job {
    let workspace = workspace.clone();
    Job::new(name, after, move |log| {
        let sources = workspace.output("tests/support/suites/sources.sh", &[])? + "\n";
        let programs = workspace.programs();
        fs::create_dir_all(&programs)?;
        let listed = programs.join("sources");
        if fs::read_to_string(&listed).unwrap_or_default() != sources {
            for name in PROGRAMS {
                match fs::remove_file(programs.join(name)) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                    Ok(()) | Err(_) => {}
                }
            }
        }
        for program in names {
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
        fs::write(listed, sources)?;
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
    let needed: Vec<&str> = needed(&dynamic).collect();
    ensure!(
        !needed.is_empty(),
        "readelf finds no library that {program} needs"
    );
    let is_of_image = |name: &&&str| IMAGE_LIBRARIES.iter().any(|one| name.starts_with(one));
    let others: Vec<_> = needed.iter().filter(|name| !is_of_image(name)).collect();
    let has_ostree = others.iter().any(|name| name.starts_with("libostree-1.so"));
    ensure!(
        if program == "mcd-os" {
            has_ostree
        } else {
            others.is_empty()
        },
        "{program} links {others:?} besides glibc; mcd-os links libostree, which is the host's, and no other \
         program anything"
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

/// Names of libraries, of lines `0x1 (NEEDED) Shared library: [libc.so.6]`.
fn needed(dynamic: &str) -> impl Iterator<Item = &str> {
    let lines = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    lines.filter_map(|line| {
        line.split_once('[')?
            .1
            .split_once(']')
            .map(|(name, _)| name)
    })
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

/// What the lab is made of.
pub(crate) const PARTS: [&str; 4] = ["control-plane", "container-runtime", "helm", "tree"];

/// Makes [`PARTS`] where they are missing, each beside the others and cargo.
///
/// # Errors
///
/// The cores that Go takes cannot be had.
pub(crate) fn prebuilt(workspace: &Workspace) -> Result<Vec<Job>> {
    let job = |name: &'static str| {
        let is_go = matches!(name, "control-plane" | "helm");
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
    fn the_newest_glibc_is_found_by_number() {
        let text = "Name: GLIBC_2.9  Flags\n 0x: GLIBC_2.34 (3)\n GLIBC_2.2.5 GLIBC_PRIVATE";
        assert_eq!(newest_glibc(text), Some((2, 34)));
        assert_eq!(newest_glibc("nothing"), None);
    }

    #[test]
    fn libraries_that_are_needed_are_named() {
        let text = " 0x0001 (NEEDED)  Shared library: [libc.so.6]\n 0x000c (INIT) 0x1000\n \
            0x0001 (NEEDED)  Shared library: [libz.so.1]\n";
        assert_eq!(needed(text).collect::<Vec<_>>(), ["libc.so.6", "libz.so.1"]);
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
