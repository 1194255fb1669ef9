//! For which machines an image is.

use std::collections::BTreeSet;
use std::fmt;

use crate::refusal::BuildRefusal;

/// An architecture that images are built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageArchitecture {
    Amd64,
    Arm64,
    Ppc64le,
    S390x,
}

impl ImageArchitecture {
    const ALL: [Self; 4] = [Self::Amd64, Self::Arm64, Self::Ppc64le, Self::S390x];

    /// The word of label `kubernetes.io/arch`.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
            Self::Ppc64le => "ppc64le",
            Self::S390x => "s390x",
        }
    }

    /// The word of `spec.containerFile[].containerfileArch`.
    pub const fn as_containerfile_arch(self) -> &'static str {
        match self {
            Self::Amd64 => "AMD64",
            Self::Arm64 => "ARM64",
            Self::Ppc64le => "PPC64LE",
            Self::S390x => "S390X",
        }
    }

    /// The architecture that a label's value names.
    pub fn of_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_label() == label)
    }

    /// The architecture of all nodes of a pool. A pool without nodes has that of the cluster's
    /// other nodes, if there is one only.
    ///
    /// Shape: values of label `kubernetes.io/arch`, of the pool's nodes and of all nodes.
    ///
    /// # Errors
    /// One image is for one architecture: there are several, one that is unknown, or none.
    pub fn of_pool<'a>(
        pool: &str,
        members: impl IntoIterator<Item = &'a str>,
        all: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, BuildRefusal> {
        let refuse = |why: String| {
            let object = format!("MachineConfigPool {pool}");
            BuildRefusal::new(&object, "spec.nodeSelector", why)
        };
        let mut labels: BTreeSet<&str> = members.into_iter().collect();
        if labels.is_empty() {
            labels = all.into_iter().collect();
        }
        let mut found = labels.iter();
        match (found.next(), found.next()) {
            (Some(label), None) => Self::of_label(label).ok_or_else(|| {
                refuse(format!("its nodes have the unknown architecture {label:?}"))
            }),
            (None, _) => Err(refuse(
                "no node has label kubernetes.io/arch, so that the architecture is not known"
                    .to_owned(),
            )),
            (Some(_), Some(_)) => {
                let labels: Vec<&str> = labels.into_iter().collect();
                let several = labels.join(", ");
                Err(refuse(format!(
                    "its nodes have several architectures ({several}); one image is for one"
                )))
            }
        }
    }
}

impl fmt::Display for ImageArchitecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_has_one_architecture() {
        let of = |members: &[&'static str], all: &[&'static str]| {
            ImageArchitecture::of_pool("worker", members.iter().copied(), all.iter().copied())
                .map_err(|refusal| refusal.to_string())
        };
        let at = "MachineConfigPool worker: spec.nodeSelector: ";
        let table = [
            (
                of(&["amd64", "amd64"], &["arm64"]),
                Ok(ImageArchitecture::Amd64),
            ),
            (of(&[], &["s390x", "s390x"]), Ok(ImageArchitecture::S390x)),
            (
                of(&["amd64", "arm64"], &[]),
                Err("its nodes have several architectures (amd64, arm64); one image is for one"),
            ),
            (
                of(&["riscv64"], &[]),
                Err("its nodes have the unknown architecture \"riscv64\""),
            ),
            (
                of(&[], &[]),
                Err("no node has label kubernetes.io/arch, so that the architecture is not known"),
            ),
            (
                of(&[], &["amd64", "arm64"]),
                Err("its nodes have several architectures (amd64, arm64); one image is for one"),
            ),
        ];
        for (found, expected) in table {
            assert_eq!(found, expected.map_err(|why| format!("{at}{why}")));
        }
    }
}
