//! The images that are made.

/// User and group of programs that need no host: the ones of `nonroot` in many images.
pub const NON_ROOT: &str = "65532:65532";

/// What every program of ours links: glibc, and the unwinder of its panics. The licences of the
/// latter are in `gcc-12-base`.
const GLIBC: &[&str] = &["gcc-12-base", "libc6", "libgcc-s1"];

/// The same, and tools. The Job that retrieves a release runs them in the release's image, which
/// stands on that of the version operator. People and scripts run them in the daemon's container.
const GLIBC_AND_TOOLS: &[&str] = &["busybox-static", "gcc-12-base", "libc6", "libgcc-s1"];

/// Where that Job finds its tools.
const TOOLS: &[(&str, &str)] = &[
    ("usr/bin/cp", "/bin/busybox"),
    ("usr/bin/mkdir", "/bin/busybox"),
    ("usr/bin/mv", "/bin/busybox"),
    ("usr/bin/rm", "/bin/busybox"),
    ("usr/bin/sh", "/bin/busybox"),
];

/// What buildah needs for builds without an engine and a runtime of containers: the libraries that
/// it links, and what verifies signatures by GPG keys. Its dependencies name more, for ways to run
/// containers that are not taken. A shell's tools are busybox's, because the script needs few.
const BUILDAH: &[&str] = &[
    "buildah",
    "busybox-static",
    "ca-certificates",
    "gcc-12-base",
    "gpg",
    "gpgconf",
    "libassuan0",
    "libbz2-1.0",
    "libc6",
    "libdevmapper1.02.1",
    "libgcc-s1",
    "libgcrypt20",
    "libgpg-error0",
    "libgpgme11",
    "libpcre2-8-0",
    "libreadline8",
    "libseccomp2",
    "libselinux1",
    "libsqlite3-0",
    "libtinfo6",
    "libudev1",
    "zlib1g",
];

/// What the script that runs buildah calls.
const TOOLS_OF_BUILDS: &[(&str, &str)] = &[
    ("bin/sh", "busybox"),
    ("usr/bin/cat", "/bin/busybox"),
    ("usr/bin/cp", "/bin/busybox"),
    ("usr/bin/cut", "/bin/busybox"),
    ("usr/bin/grep", "/bin/busybox"),
    ("usr/bin/gzip", "/bin/busybox"),
    ("usr/bin/ls", "/bin/busybox"),
    ("usr/bin/mkdir", "/bin/busybox"),
    ("usr/bin/mkfifo", "/bin/busybox"),
    ("usr/bin/mount", "/bin/busybox"),
    ("usr/bin/rm", "/bin/busybox"),
    ("usr/bin/sed", "/bin/busybox"),
    ("usr/bin/sh", "/bin/busybox"),
    ("usr/bin/tail", "/bin/busybox"),
    ("usr/bin/tar", "/bin/busybox"),
    ("usr/bin/tee", "/bin/busybox"),
    ("usr/bin/umount", "/bin/busybox"),
];

/// What people and scripts run in the daemon's container: a shell, which clients name by its path,
/// copies of files, and the host's own programs below `/rootfs`.
const TOOLS_FOR_PEOPLE: &[(&str, &str)] = &[
    ("bin/sh", "busybox"),
    ("usr/bin/cat", "/bin/busybox"),
    ("usr/bin/chroot", "/bin/busybox"),
    ("usr/bin/ls", "/bin/busybox"),
    ("usr/bin/sh", "/bin/busybox"),
    ("usr/bin/tar", "/bin/busybox"),
];

/// A component's image.
#[derive(Clone, Copy, Debug)]
pub struct Component {
    /// Name of the image, by which `deploy/` names it.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub title: &'static str,
    /// Its programs, in `/usr/bin`; the first is what it runs.
    pub programs: &'static [Program],
    /// Its scripts, in `/usr/bin`, as files of the checkout; without programs, the first is what
    /// it runs.
    pub scripts: &'static [&'static str],
    /// Debian packages whose files it has.
    pub packages: &'static [&'static str],
    /// Symbolic links besides those of packages: path and target.
    pub links: &'static [(&'static str, &'static str)],
    /// User that it runs as; empty for root.
    pub user: &'static str,
    /// Directorys of `deploy/` whose objects its `/manifests` hold; none: it has no `/manifests`.
    pub manifests: &'static [Manifests],
    /// What `/manifests` are to a release.
    pub role: ReleaseRole,
    /// Images besides its own that its manifests name.
    pub references: &'static [&'static str],
}

/// What an image is to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseRole {
    /// An operator: a release takes its manifests over, with images and versions put in.
    Operator,
    /// What a release's image stands on: its manifests are templates, and stay where they are.
    Base,
    /// Nothing of it is applied.
    Component,
}

impl Component {
    /// Path of what it runs; none, where it has nothing to run.
    pub fn entrypoint(&self) -> Option<String> {
        let program = self.programs.first().map(|program| program.name);
        let name = program.or_else(|| self.scripts.first().map(|script| file_name(script)))?;
        Some(format!("/usr/bin/{name}"))
    }
}

/// The last part of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Image of the OS, which other sources than ours make.
pub const OS: &str = "slipway-os";

/// Image that builds images of the OS.
pub const OS_BUILDER: &str = "slipway-os-builder";

/// Image of the keys by which clusters verify releases, under OpenShift's name.
pub const KEYS: &str = "cluster-update-keys";

/// A program, and how cargo builds it.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// Arguments of cargo: package and features.
    pub cargo: &'static [&'static str],
}

/// A directory of `deploy/`, and where its objects stand in a release.
#[derive(Clone, Copy, Debug)]
pub struct Manifests {
    /// Directory below `deploy/`.
    pub directory: &'static str,
    /// What its files are named after: `0000_<run level>_<component>`.
    pub prefix: &'static str,
    /// Number of its first file.
    pub first: usize,
}

/// Run level and component of all that works on nodes: one component, so that files are applied in
/// the order of their names.
const MACHINE_CONFIG: &str = "0000_80_machine-config";

/// All images. A new component is one entry.
pub const COMPONENTS: &[Component] = &[
    Component {
        name: "slipway-mcc",
        title: "Slipway: renders configurations of pools and rolls them out",
        programs: &[Program {
            name: "mcc",
            cargo: &["-p", "controller"],
        }],
        scripts: &[],
        packages: GLIBC,
        links: &[],
        user: NON_ROOT,
        manifests: &[
            Manifests {
                directory: "crds",
                prefix: MACHINE_CONFIG,
                first: 0,
            },
            // After the namespace and the daemons, before the controller that reads it.
            Manifests {
                directory: "release",
                prefix: MACHINE_CONFIG,
                first: 40,
            },
            Manifests {
                directory: "operator",
                prefix: MACHINE_CONFIG,
                first: 50,
            },
            Manifests {
                directory: "controller",
                prefix: MACHINE_CONFIG,
                first: 60,
            },
            Manifests {
                directory: "cluster-operator",
                prefix: MACHINE_CONFIG,
                first: 90,
            },
        ],
        role: ReleaseRole::Operator,
        references: &["slipway-mcd", OS_BUILDER, OS],
    },
    Component {
        name: "slipway-mcs",
        title: "Slipway: answers new machines with their Ignition configuration",
        programs: &[Program {
            name: "mcs",
            cargo: &["-p", "config-server"],
        }],
        scripts: &[],
        packages: GLIBC,
        links: &[],
        user: NON_ROOT,
        // It needs settings of its cluster, which a release cannot have.
        manifests: &[],
        role: ReleaseRole::Component,
        references: &[],
    },
    Component {
        name: "slipway-mcd",
        title: "Slipway: updates the node that it runs on",
        programs: &[
            Program {
                name: "mcd",
                cargo: &[
                    "-p",
                    "mcd",
                    "--no-default-features",
                    "--features",
                    "node-daemon",
                ],
            },
            Program {
                name: "mcd-os",
                cargo: &[
                    "-p",
                    "mcd",
                    "--no-default-features",
                    "--features",
                    "host-helper",
                ],
            },
        ],
        scripts: &[],
        packages: GLIBC_AND_TOOLS,
        links: TOOLS_FOR_PEOPLE,
        // It is root on the host, whose files and services it changes.
        user: "",
        manifests: &[Manifests {
            directory: "daemon",
            prefix: MACHINE_CONFIG,
            first: 30,
        }],
        role: ReleaseRole::Operator,
        references: &[],
    },
    Component {
        name: "slipway-cvo",
        title: "Slipway: applies a release to a cluster",
        programs: &[Program {
            name: "cvo",
            cargo: &["-p", "cvo"],
        }],
        scripts: &[],
        packages: GLIBC_AND_TOOLS,
        links: TOOLS,
        user: NON_ROOT,
        manifests: &[Manifests {
            directory: "cvo",
            prefix: "0000_00_cluster-version-operator",
            first: 0,
        }],
        role: ReleaseRole::Base,
        references: &[],
    },
    Component {
        name: OS_BUILDER,
        title: "Slipway: builds images of the OS for pools",
        programs: &[],
        scripts: &[
            "deploy/os-builder/build-os-image",
            "deploy/os-builder/install-packages",
        ],
        packages: BUILDAH,
        links: TOOLS_OF_BUILDS,
        // It mounts, and gives files to their owners.
        user: "",
        // The controller makes its Jobs.
        manifests: &[],
        role: ReleaseRole::Component,
        references: &[],
    },
    // Not of a release: its manifests are applied apart.
    Component {
        name: "slipway-muo",
        title: "Slipway: upgrades a cluster on a date",
        programs: &[Program {
            name: "muo",
            cargo: &["-p", "managed-upgrade"],
        }],
        scripts: &[],
        packages: GLIBC,
        links: &[],
        user: NON_ROOT,
        manifests: &[],
        role: ReleaseRole::Component,
        references: &[],
    },
    Component {
        name: "slipway-update-service",
        title: "Slipway: answers which updates a channel has",
        programs: &[Program {
            name: "update-service",
            cargo: &["-p", "update-service"],
        }],
        scripts: &[],
        packages: GLIBC,
        links: &[],
        user: NON_ROOT,
        manifests: &[],
        role: ReleaseRole::Component,
        references: &[],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_image_stands_once_and_has_a_program() {
        for (number, component) in COMPONENTS.iter().enumerate() {
            let name = component.name;
            assert!(
                COMPONENTS
                    .iter()
                    .skip(number + 1)
                    .all(|other| other.name != name),
                "{name} stands twice"
            );
            assert!(component.entrypoint().is_some(), "{name}");
            assert!(component.packages.is_sorted(), "{name}");
            let has_tools = component.packages.contains(&"busybox-static");
            assert_eq!(has_tools, !component.links.is_empty(), "{name}");
        }
    }
}
