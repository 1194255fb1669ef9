//! What ships: programs as a release, stripped and checked for what a node may be given.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::cargo::{DAEMON, HELPER, Ledger, SERVICES};
use crate::compile::{Profile, compile};
use crate::job::{BUILD_LIMIT, Job, Outcome};
use crate::platform::{Cross, Platform};
use crate::progress::Meter;
use crate::table::PROGRAMS;
use crate::workspace::{Workspace, setting};

/// The newest version of glibc's symbols that the helper may need: the host's is what it is.
const HOST_GLIBC: (u32, u32) = (2, 34);

/// Libraries that images of components have: glibc's, and the unwinder of panics.
const IMAGE_LIBRARIES: [&str; 4] = ["libc.so", "libm.so", "libgcc_s.so", "ld-linux"];

/// Largest stripped release of a program, in bytes: half as much again as today's.
const RELEASE_BYTES: u64 = 24 << 20;

/// Builds the release of all programs: those of nodes apart.
pub(crate) fn release(workspace: &Workspace, platform: Platform, after: &[&'static str]) -> Job {
    let workspace = workspace.clone();
    let job = Job::new("release", after, move |log| {
        let cross = platform.cross(&workspace)?;
        let mut notes = Vec::new();
        for arguments in [SERVICES, DAEMON, HELPER] {
            let mut cargo = workspace.compiler("cargo");
            cargo.args(arguments.split_whitespace());
            let built = platform.built(&workspace);
            set_flags(&mut cargo, &built, cross.as_ref())?;
            cargo.env("CARGO_TARGET_DIR", built);
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

/// What is stripped, and from where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stripped {
    pub(crate) profile: Profile,
    pub(crate) platform: Platform,
    pub(crate) names: &'static [&'static str],
}

impl Stripped {
    /// Programs of this machine's platform.
    pub(crate) const fn here(profile: Profile, names: &'static [&'static str]) -> Self {
        let platform = Platform::Amd64;
        Self {
            profile,
            platform,
            names,
        }
    }
}

/// Strips and checks programs that are built, in the folder from which suites and images take them.
/// Others there are removed if they are of other sources.
pub(crate) fn programs(
    workspace: &Workspace,
    stripped: Stripped,
    (name, after): (&'static str, &[&'static str]),
) -> Job {
    let workspace = workspace.clone();
    Job::new(name, after, move |log| {
        let sources = workspace.output("tests/support/suites/sources.sh", &[])? + "\n";
        let Stripped {
            profile,
            platform,
            names,
        } = stripped;
        let cross = platform.cross(&workspace)?;
        let programs = platform.programs(&workspace);
        let built = platform.built(&workspace);
        let built = built.join(cross.as_ref().map_or("", |cross| cross.triple));
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
            let prefix = cross.as_ref().map_or("", |cross| cross.prefix);
            let mut strip = workspace.command(format!("{prefix}strip"));
            // The build id is a hash of the debug information too, which has the checkout's path.
            strip
                .args(["--strip-all", "--remove-section=.note.gnu.build-id"])
                .arg("-o")
                .arg(programs.join(program));
            strip.arg(built.join(profile.folder()).join(program));
            log.run(&mut strip, BUILD_LIMIT)?;
            check(&workspace, &programs.join(program), program, profile)?;
            if let Some(cross) = &cross {
                let mut emulator = workspace.command(cross.emulator);
                emulator.args(["-L", &cross.sysroot()]);
                emulator.arg(programs.join(program)).arg("--version");
                log.run(&mut emulator, BUILD_LIMIT)?;
            }
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
///
/// The linker finds the libraries of another platform; what those need is on no path, and is there
/// where the program runs.
fn set_flags(cargo: &mut Command, built: &Path, cross: Option<&Cross>) -> Result<()> {
    let home = match (setting("CARGO_HOME"), setting("HOME")) {
        (Some(home), _) => PathBuf::from(home),
        (None, Some(home)) => Path::new(&home).join(".cargo"),
        (None, None) => bail!("neither CARGO_HOME nor HOME is set"),
    };
    let remapped = [
        (home.display().to_string(), "/cargo"),
        (built.display().to_string(), "/target"),
    ];
    let flag = |option: &str| {
        let flags = remapped
            .iter()
            .map(|(path, name)| format!("{option}={path}={name}"));
        flags.collect::<Vec<_>>()
    };
    // Cargo splits this variable at the unit separator.
    let mut rust = flag("--remap-path-prefix");
    let mut c = flag("-ffile-prefix-map");
    if let Some(cross) = cross {
        let sysroot = format!("--sysroot={}", cross.sysroot());
        rust.push(format!("-Clink-arg={sysroot}"));
        rust.push("-Clink-arg=-Wl,--allow-shlib-undefined".to_owned());
        c.push(sysroot);
        cargo.envs(cross.environment());
    }
    // What runs on this machine is compiled without a sysroot of another.
    let variable = match cross {
        Some(cross) => format!("CFLAGS_{}", cross.triple.replace('-', "_")),
        None => "CFLAGS".to_owned(),
    };
    cargo.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}"));
    cargo.env(variable, c.join(" "));
    Ok(())
}

/// Checks a stripped program for what a node may be given.
fn check(workspace: &Workspace, path: &Path, program: &str, profile: Profile) -> Result<()> {
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
}
