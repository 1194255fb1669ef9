//! The images that are made.

/// User and group of programs that need no host: the ones of `nonroot` in many images.
pub const NON_ROOT: &str = "65532:65532";

/// What every program of ours links: glibc, and the unwinder of its panics. The licences of the
/// latter are in `gcc-12-base`.
const GLIBC: &[&str] = &["gcc-12-base", "libc6", "libgcc-s1"];

/// A component's image.
#[derive(Clone, Copy, Debug)]
pub struct Component {
    /// Name of the image, by which `deploy/` names it.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub title: &'static str,
    /// Its programs, in `/usr/bin`; the first is what it runs.
    pub programs: &'static [Program],
    /// Debian packages whose files it has.
    pub packages: &'static [&'static str],
    /// User that it runs as; empty for root.
    pub user: &'static str,
    /// Directorys of `deploy/` whose objects its `/manifests` hold; none: it is no operator's
    /// image.
    pub manifests: &'static [Manifests],
}

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
        packages: GLIBC,
        user: NON_ROOT,
        manifests: &[
            Manifests {
                directory: "crds",
                prefix: MACHINE_CONFIG,
                first: 0,
            },
            Manifests {
                directory: "controller",
                prefix: MACHINE_CONFIG,
                first: 60,
            },
        ],
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
        packages: GLIBC,
        // It is root on the host, whose files and services it changes.
        user: "",
        manifests: &[Manifests {
            directory: "daemon",
            prefix: MACHINE_CONFIG,
            first: 30,
        }],
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
            assert!(!component.programs.is_empty(), "{name}");
            assert!(component.packages.is_sorted(), "{name}");
        }
    }
}
