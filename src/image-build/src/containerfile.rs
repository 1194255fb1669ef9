//! What people write of a Containerfile, and the text that is built.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use api::machineconfiguration::machine_os_config::ContainerFile;

use crate::architecture::ImageArchitecture;
use crate::files::FileGroup;
use crate::packages::ImagePackages;
use crate::refusal::BuildRefusal;

/// Label of an image that was built: the MachineOSBuild. The builder refuses an image without it,
/// because its last stage does not come from the pool's base image and files.
pub const BUILD_LABEL: &str = "slipway.dev/os-build";

/// The stage that has the base image and the pool's files.
const STAGE: &str = "configs";

/// Installs the requested packages. The builder's image makes the context `slipway`, with its
/// program and the names of the packages.
const INSTALL: &str = "RUN --mount=type=bind,from=extensions,target=/run/slipway-extensions \
    --mount=type=bind,from=slipway,target=/run/slipway-build sh /run/slipway-build/install-packages";

/// For all architectures that have no text of their own.
const NO_ARCH: &str = "NoArch";

/// What is built where people wrote nothing.
const NOTHING_WRITTEN: &str = "FROM configs AS final\n";

/// What people wrote for an architecture: its own text, else that for all; nothing where nothing is
/// written.
///
/// # Errors
/// Two texts for one architecture, an architecture that is unknown, or texts for others only.
pub fn choose<'a>(
    object: &str,
    written: &'a [ContainerFile],
    architecture: ImageArchitecture,
) -> Result<&'a str, BuildRefusal> {
    let mut seen = BTreeSet::new();
    for (file, place) in written.iter().zip(0_usize..) {
        let arch = arch_of(file);
        let field = format!("spec.containerFile[{place}].containerfileArch");
        if !seen.insert(arch) {
            let why = format!("{arch} has more than one Containerfile");
            return Err(BuildRefusal::new(&object, &field, why));
        }
        let is_known = arch == NO_ARCH || ["AMD64", "ARM64", "PPC64LE", "S390X"].contains(&arch);
        if !is_known {
            let why = format!("{arch:?} is none of NoArch, AMD64, ARM64, PPC64LE and S390X");
            return Err(BuildRefusal::new(&object, &field, why));
        }
    }
    let find = |arch: &str| {
        written
            .iter()
            .zip(0_usize..)
            .find(|(file, _)| arch_of(file) == arch)
    };
    let chosen = find(architecture.as_containerfile_arch()).or_else(|| find(NO_ARCH));
    let Some((file, place)) = chosen else {
        if written.is_empty() {
            return Ok("");
        }
        let why = format!(
            "none is for {} or NoArch, and the pool's nodes are {architecture}",
            architecture.as_containerfile_arch()
        );
        return Err(BuildRefusal::new(&object, "spec.containerFile", why));
    };
    if file.content.contains('\0') {
        let field = format!("spec.containerFile[{place}].content");
        return Err(BuildRefusal::new(&object, &field, "it has a NUL character"));
    }
    Ok(&file.content)
}

fn arch_of(file: &ContainerFile) -> &str {
    let arch = file.containerfile_arch.as_deref();
    arch.filter(|arch| !arch.is_empty()).unwrap_or(NO_ARCH)
}

/// What the text that is built is composed of.
#[derive(Debug, Clone, Copy)]
pub struct Stages<'a> {
    pub base_image: &'a str,
    pub packages: Option<&'a ImagePackages>,
    /// Name of the MachineOSBuild.
    pub build: &'a str,
    pub files: &'a [FileGroup<'a>],
    /// What people wrote.
    pub written: &'a str,
}

/// The text that is built: the base image with its packages, the pool's files, then what people
/// wrote.
///
/// Shape: stage `configs` first, after `extensions` where there are packages. What was written
/// begins with `FROM configs AS final`; where it has no `FROM` it continues that stage.
/// Source: `docs/reference/image-mode.md`, "Stages".
pub fn compose(stages: &Stages<'_>) -> String {
    let Stages {
        base_image,
        packages,
        build,
        files,
        written,
    } = stages;
    let mut text = String::new();
    if let Some(packages) = packages {
        let repository = &packages.repository;
        // A text takes any line.
        writeln!(text, "FROM {repository} AS extensions").ok();
    }
    writeln!(text, "FROM {base_image} AS {STAGE}").ok();
    writeln!(text, "LABEL {BUILD_LABEL}={build}").ok();
    if packages.is_some() {
        writeln!(text, "{INSTALL}").ok();
    }
    for group in *files {
        let owner = group.owner.as_ref();
        let owner = owner.map(|owner| format!("--chown={owner} "));
        writeln!(
            text,
            "COPY {}{}/ /",
            owner.unwrap_or_default(),
            group.directory
        )
        .ok();
    }
    let written = if written.trim().is_empty() {
        NOTHING_WRITTEN
    } else {
        written
    };
    text.push_str(written);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(arch: Option<&str>, content: &str) -> ContainerFile {
        ContainerFile {
            containerfile_arch: arch.map(ToOwned::to_owned),
            content: content.to_owned(),
        }
    }

    #[test]
    fn the_text_of_the_architecture_comes_before_that_for_all() {
        let all = file(None, "all");
        let named = file(Some("NoArch"), "all");
        let amd64 = file(Some("AMD64"), "amd64");
        let arm64 = file(Some("ARM64"), "arm64");
        let chosen = |files: &[&ContainerFile]| {
            let files: Vec<ContainerFile> = files.iter().copied().cloned().collect();
            choose("MachineOSConfig worker", &files, ImageArchitecture::Amd64)
                .map(ToOwned::to_owned)
                .map_err(|refusal| refusal.to_string())
        };
        let table = [
            (chosen(&[]), Ok("")),
            (chosen(&[&all]), Ok("all")),
            (chosen(&[&named, &amd64]), Ok("amd64")),
            (chosen(&[&arm64, &all]), Ok("all")),
            (
                chosen(&[&arm64]),
                Err(
                    "MachineOSConfig worker: spec.containerFile: none is for AMD64 or NoArch, and the pool's nodes are amd64",
                ),
            ),
            (
                chosen(&[&amd64, &all, &named]),
                Err(
                    "MachineOSConfig worker: spec.containerFile[2].containerfileArch: NoArch has more than one Containerfile",
                ),
            ),
            (
                chosen(&[&file(Some("riscv"), "")]),
                Err(
                    "MachineOSConfig worker: spec.containerFile[0].containerfileArch: \"riscv\" is none of NoArch, AMD64, ARM64, PPC64LE and S390X",
                ),
            ),
            (
                chosen(&[&file(None, "RUN a\0b")]),
                Err(
                    "MachineOSConfig worker: spec.containerFile[0].content: it has a NUL character",
                ),
            ),
        ];
        for (found, expected) in table {
            assert_eq!(
                found,
                expected.map(ToOwned::to_owned).map_err(ToOwned::to_owned)
            );
        }
    }

    #[test]
    fn stages_follow_each_other() {
        let stages = Stages {
            base_image: "quay.io/os@sha256:0",
            packages: None,
            build: "worker-1",
            files: &[],
            written: " \n",
        };
        assert_eq!(
            compose(&stages),
            "FROM quay.io/os@sha256:0 AS configs\nLABEL slipway.dev/os-build=worker-1\nFROM configs AS final\n"
        );
        let groups = [
            FileGroup {
                directory: "files".to_owned(),
                owner: None,
                files: Vec::new(),
            },
            FileGroup {
                directory: "files-1".to_owned(),
                owner: Some("7:mail".to_owned()),
                files: Vec::new(),
            },
        ];
        let stages = Stages {
            files: &groups,
            written: "FROM configs AS final\nRUN true",
            ..stages
        };
        assert_eq!(
            compose(&stages),
            "FROM quay.io/os@sha256:0 AS configs\nLABEL slipway.dev/os-build=worker-1\nCOPY files/ /\nCOPY --chown=7:mail files-1/ /\nFROM configs AS final\nRUN true\n"
        );
        let packages = ImagePackages {
            repository: "quay.io/extensions@sha256:1".to_owned(),
            extensions: BTreeSet::from(["usbguard".to_owned()]),
            kernel_type: None,
        };
        let stages = Stages {
            packages: Some(&packages),
            files: groups.get(..1).unwrap(),
            ..stages
        };
        assert_eq!(
            compose(&stages),
            "FROM quay.io/extensions@sha256:1 AS extensions\nFROM quay.io/os@sha256:0 AS configs\nLABEL slipway.dev/os-build=worker-1\nRUN --mount=type=bind,from=extensions,target=/run/slipway-extensions --mount=type=bind,from=slipway,target=/run/slipway-build sh /run/slipway-build/install-packages\nCOPY files/ /\nFROM configs AS final\nRUN true\n"
        );
    }
}
