//! What is run on the host, and by which libraries and processor.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use chassis::report::Chain;
use host::files::Root;
use host::process::{self, Program};

use super::Judged;

/// This program, wherever it is.
const SELF: &str = "/proc/self/exe";

/// How long the helper may take to print its version; a slow disk takes longest.
const PROBE_DEADLINE: Duration = Duration::from_mins(1);

const SKOPEO: &str = "/usr/bin/skopeo";

/// A program that every host has whose units are systemd's.
const HOST_PROGRAM: &str = "/usr/lib/systemd/systemd";

/// What marks a program, and where its processor is named.
///
/// Source: elf(5), `e_ident` and `e_machine`.
const ELF: &[u8] = b"\x7fELF";
const BYTE_ORDER_AT: usize = 5;
const MACHINE_AT: usize = 18;

/// Runs the helper of this image with the host's loader and libraries; what it prints.
pub(super) fn probe(mount: &Path, helper: &Path) -> Result<Vec<u8>, process::Error> {
    let (mount, helper) = (mount.display().to_string(), helper.display().to_string());
    let words = [
        "host-check",
        "--probe",
        "--root-mount",
        &mount,
        "--helper",
        &helper,
    ];
    process::run(Program::Helper(Path::new(SELF)), &words, PROBE_DEADLINE)
}

/// Judges by how the helper ended.
pub(super) fn libraries(probed: Result<Vec<u8>, process::Error>) -> Judged {
    match probed {
        Ok(printed) => {
            let version = String::from_utf8_lossy(&printed).trim().to_owned();
            if version.is_empty() {
                return Judged::missing(
                    "mcd-os printed no version with the libraries of this host",
                );
            }
            Judged::ok(format!("{version} runs with the libraries of this host"))
        }
        // The loader's own words: the missing library, or the missing version of a symbol.
        Err(process::Error::Failed { stderr, .. }) => Judged::missing(format!(
            "mcd-os does not run with the libraries of this host: {stderr}"
        )),
        Err(error) => Judged::missing(format!(
            "mcd-os was not run with the libraries of this host: {}",
            Chain(&error)
        )),
    }
}

pub(super) fn skopeo(root: &Root) -> anyhow::Result<Judged> {
    // Below the root's mount: its links are resolved.
    let at = root.follow(SKOPEO)?;
    let path = root.path().join(at.as_str().trim_start_matches('/'));
    let is_program = match fs::metadata(path) {
        Ok(found) => found.is_file() && found.permissions().mode() & 0o111 != 0,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => return Err(error).context(format!("cannot read {SKOPEO}")),
    };
    Ok(if is_program {
        Judged::ok(format!("{SKOPEO} is there"))
    } else {
        Judged::missing(format!("{SKOPEO} is not there: images are pulled with it"))
    })
}

/// Judges by the processor of a program of the host, and that of the helper.
pub(super) fn architecture(root: &Root, helper: &Path) -> anyhow::Result<Judged> {
    let host = root.read(HOST_PROGRAM)?;
    let host = host.with_context(|| format!("{HOST_PROGRAM} is not there"))?;
    let own = fs::read(helper).with_context(|| format!("cannot read {}", helper.display()))?;
    let host = machine(&host).with_context(|| format!("{HOST_PROGRAM} is no program"))?;
    let own = machine(&own).with_context(|| format!("{} is no program", helper.display()))?;
    Ok(if host == own {
        Judged::ok(format!("the host's processor is {}", machine_name(host)))
    } else {
        Judged::missing(format!(
            "the host's processor is {}, and this image is for {}",
            machine_name(host),
            machine_name(own)
        ))
    })
}

/// The processor that a program is for.
fn machine(program: &[u8]) -> Option<u16> {
    if !program.starts_with(ELF) {
        return None;
    }
    let field = program.get(MACHINE_AT..)?.first_chunk::<2>()?;
    match program.get(BYTE_ORDER_AT)? {
        1 => Some(u16::from_le_bytes(*field)),
        2 => Some(u16::from_be_bytes(*field)),
        _ => None,
    }
}

/// Source: elf.h, `EM_…`.
fn machine_name(machine: u16) -> String {
    match machine {
        21 => "ppc64".to_owned(),
        22 => "s390x".to_owned(),
        62 => "x86_64".to_owned(),
        183 => "aarch64".to_owned(),
        other => format!("number {other} of ELF"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use node_update::host_report::HostVerdict;

    use super::*;

    #[test]
    fn the_loader_names_what_the_host_lacks() {
        let failed = process::run(
            Program::Helper(Path::new("/bin/sh")),
            &[
                "-c",
                "echo 'mcd-os: error while loading shared libraries: libostree-1.so.1: cannot open' >&2; exit 127",
            ],
            Duration::from_secs(10),
        );
        let judged = libraries(failed);
        assert_eq!(
            judged,
            Judged::missing(
                "mcd-os does not run with the libraries of this host: mcd-os: error while loading \
                 shared libraries: libostree-1.so.1: cannot open"
            )
        );
        let not_started = process::run(
            Program::Helper(Path::new("/nowhere")),
            &[],
            Duration::from_secs(10),
        );
        assert_eq!(libraries(not_started).verdict, HostVerdict::Missing);
        assert_eq!(
            libraries(Ok(b"mcd-os 0.1.0\n".to_vec())),
            Judged::ok("mcd-os 0.1.0 runs with the libraries of this host")
        );
        assert_eq!(libraries(Ok(Vec::new())).verdict, HostVerdict::Missing);
    }

    fn put(root: &Path, path: &str, bytes: &[u8], mode: u32) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = fs::File::create(&path).unwrap();
        std::io::Write::write_all(&mut file, bytes).unwrap();
        file.set_permissions(fs::Permissions::from_mode(mode))
            .unwrap();
    }

    #[test]
    fn skopeo_is_a_program_of_the_host() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        let verdict = || skopeo(&root).unwrap().verdict;
        assert_eq!(verdict(), HostVerdict::Missing);
        put(dir.path(), "usr/lib/skopeo", b"", 0o644);
        fs::create_dir_all(dir.path().join("usr/bin")).unwrap();
        symlink("/usr/lib/skopeo", dir.path().join("usr/bin/skopeo")).unwrap();
        assert_eq!(verdict(), HostVerdict::Missing);
        put(dir.path(), "usr/lib/skopeo", b"", 0o755);
        assert_eq!(verdict(), HostVerdict::Ok);
    }

    /// The beginning of a program.
    fn program(order: u8, machine: [u8; 2]) -> Vec<u8> {
        let mut bytes = vec![0; MACHINE_AT];
        bytes[..ELF.len()].copy_from_slice(ELF);
        bytes[BYTE_ORDER_AT] = order;
        bytes.extend(machine);
        bytes
    }

    #[test]
    fn the_processor_is_read_from_a_program() {
        for (bytes, expected) in [
            (program(1, [62, 0]), Some("x86_64")),
            (program(1, [183, 0]), Some("aarch64")),
            (program(2, [0, 22]), Some("s390x")),
            (program(1, [21, 0]), Some("ppc64")),
            (program(1, [243, 0]), Some("number 243 of ELF")),
            (program(3, [62, 0]), None),
            (b"#!/bin/sh\n".to_vec(), None),
            (ELF.to_vec(), None),
        ] {
            assert_eq!(machine(&bytes).map(machine_name).as_deref(), expected);
        }
    }

    #[test]
    fn a_host_has_the_processor_of_the_image_or_another_one() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        let helper = dir.path().join("image/mcd-os");
        put(dir.path(), "image/mcd-os", &program(1, [62, 0]), 0o755);
        let system = HOST_PROGRAM.trim_start_matches('/');
        put(dir.path(), system, &program(1, [62, 0]), 0o755);
        let judged = architecture(&root, &helper).unwrap();
        assert_eq!(judged, Judged::ok("the host's processor is x86_64"));
        put(dir.path(), system, &program(1, [183, 0]), 0o755);
        let judged = architecture(&root, &helper).unwrap();
        assert_eq!(
            judged,
            Judged::missing("the host's processor is aarch64, and this image is for x86_64")
        );
        put(dir.path(), system, b"#!/bin/sh\n", 0o755);
        assert!(architecture(&root, &helper).is_err());
    }
}
