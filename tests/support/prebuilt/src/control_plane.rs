//! The programs of a control plane and of nodes: etcd and kubectl as Debian's next release has
//! them, the rest as one binary that is built from the Go module `tests/control-plane`.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::cache::{self, Recipe};
use crate::debian::{self, Packages};
use crate::go::Module;

/// Those that are not built here.
const OF_DEBIAN: Packages = Packages {
    kind: "etcd",
    names: &["etcd-server", "kubectl"],
    programs: &[
        ("etcd", &["--version"]),
        ("kubectl", &["version", "--client"]),
    ],
};

/// The binary's file name in the cache.
const BINARY: &str = "lab-kubernetes";

/// Where the release's version is kept: the components', and the clients' for their user agent.
const VERSIONS: [&str; 2] = [
    "k8s.io/component-base/version",
    "k8s.io/client-go/pkg/version",
];

/// A program of the control plane or of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `etcd`
    Etcd,
    /// `kube-apiserver`
    ApiServer,
    /// `kube-controller-manager`
    ControllerManager,
    /// `kube-scheduler`
    Scheduler,
    /// `kubectl`
    Kubectl,
    /// `kubelet`, over a real or a pretended container runtime
    Kubelet,
    /// `kube-proxy`
    Proxy,
    /// `container-runtime`, the pretended runtime as a service of its own
    ContainerRuntime,
    /// `pki`, which writes certificates and keys
    Pki,
}

impl Program {
    /// Those of [`BINARY`].
    const BUILT: [Self; 7] = [
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kubelet,
        Self::Proxy,
        Self::ContainerRuntime,
        Self::Pki,
    ];

    /// The name it is called by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kubelet => "kubelet",
            Self::Proxy => "kube-proxy",
            Self::ContainerRuntime => "container-runtime",
            Self::Pki => "pki",
        }
    }

    const fn is_of_debian(self) -> bool {
        matches!(self, Self::Etcd | Self::Kubectl)
    }

    /// Whether a `KUBEBUILDER_ASSETS` folder may have its own: the parts with a contract of their
    /// own. The rest is of the lab's making.
    const fn is_replaceable(self) -> bool {
        match self {
            Self::Etcd
            | Self::ApiServer
            | Self::ControllerManager
            | Self::Scheduler
            | Self::Kubectl => true,
            Self::Kubelet | Self::Proxy | Self::ContainerRuntime | Self::Pki => false,
        }
    }
}

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    built: PathBuf,
    of_debian: PathBuf,
    assets: Option<PathBuf>,
}

impl Programs {
    /// The programs, built into the cache first where they are missing (about 7 minutes on two
    /// cores).
    ///
    /// A folder named by `KUBEBUILDER_ASSETS` goes before ours, program by program: envtest's holds
    /// `etcd`, `kube-apiserver` and `kubectl`. It saves no build: the kubelet, its runtime and the
    /// certificates are of the lab's making, and every run needs them.
    ///
    /// # Errors
    /// No `go`, or the build fails; the message ends with what `go` said.
    pub fn find() -> Result<Self> {
        let module = Module::named("control-plane");
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").filter(|dir| !dir.is_empty());
        let built = cache::folder("control-plane", &recipe(&module)?, |dir| {
            build(&module, dir)
        })?;
        let of_debian = OF_DEBIAN.find(Recipe::default(), |_| Ok(()))?;
        Ok(Self {
            built,
            of_debian,
            assets: assets.map(PathBuf::from),
        })
    }

    /// Path of a program. Its first argument is the program's own.
    pub fn path(&self, program: Program) -> PathBuf {
        self.assets
            .as_ref()
            .filter(|_| program.is_replaceable())
            .map(|assets| assets.join(program.name()))
            .filter(|path| path.is_file())
            .unwrap_or_else(|| {
                let folder = if program.is_of_debian() {
                    &self.of_debian
                } else {
                    &self.built
                };
                folder.join(program.name())
            })
    }

    /// Names and versions of the packages that some are from.
    ///
    /// # Errors
    /// The cache was changed.
    pub fn versions(&self) -> Result<String> {
        debian::versions(&self.of_debian)
    }

    /// The one binary behind our programs, static, to be given to a host: called as
    /// `lab-kubernetes kubelet …`, or by a link named like a program.
    pub fn binary(&self) -> PathBuf {
        self.built.join(BINARY)
    }
}

/// Path of `kubectl` alone, fetched into the cache first where it is missing: for those that need
/// no control plane.
///
/// # Errors
/// Debian's next release is not to be had, or its programs do not run here.
pub fn kubectl() -> Result<PathBuf> {
    let folder = OF_DEBIAN.find(Recipe::default(), |_| Ok(()))?;
    Ok(folder.join(Program::Kubectl.name()))
}

/// A minor version of Kubernetes before that of [`Programs`], in the way the module has it: other
/// versions of what it requires, in `older/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Older {
    /// 1.35, one minor version before.
    V35,
    /// 1.34, two before.
    V34,
}

impl Older {
    /// Its major and minor version, as the version of a Node's kubelet begins.
    pub const fn version(self) -> &'static str {
        match self {
            Self::V35 => "v1.35",
            Self::V34 => "v1.34",
        }
    }

    /// The build tag of the files that it has in the place of others.
    const fn tag(self) -> &'static str {
        match self {
            Self::V35 => "-tags=minor35",
            Self::V34 => "-tags=minor34",
        }
    }

    /// Folder of its programs, built into the cache first where they are missing (about 7 minutes
    /// on two cores). `kubelet` and `container-runtime` are what a host needs of them.
    ///
    /// # Errors
    /// As [`Programs::find`].
    pub fn programs(self) -> Result<PathBuf> {
        let module = Module::named("control-plane");
        let [requires, sums] = ["mod", "sum"].map(|end| format!("older/{}.{end}", self.version()));
        let recipe = recipe(&module)?
            .with_file(&module.file(&requires))?
            .with_file(&module.file(&sums))?;
        cache::folder("older-kubernetes", &recipe, |dir| {
            build_by(&module, &[&format!("-modfile={requires}"), self.tag()], dir)
        })
    }
}

fn recipe(module: &Module) -> Result<Recipe> {
    Ok(module.recipe()?.with("go build", linker_flags("")))
}

fn build(module: &Module, dir: &Path) -> Result<()> {
    build_by(module, &[], dir)
}

fn build_by(module: &Module, flags: &[&str], dir: &Path) -> Result<()> {
    let output = dir.join(BINARY);
    let output = output.to_str().context("the cache's path is not UTF-8")?;
    let list = [
        &["list"],
        flags,
        &["-m", "-f", "{{.Version}}", "k8s.io/kubernetes"],
    ]
    .concat();
    let linker = linker_flags(module.go(&list)?.trim());
    module.build(&[flags, &[linker.as_str()]].concat(), output, &["."])?;
    for program in Program::BUILT {
        symlink(BINARY, dir.join(program.name()))?;
    }
    Ok(())
}

/// No symbols, and the version that a release's own build writes in: the components refuse to be
/// compared, and the Node shows `v0.0.0-master`, without it.
fn linker_flags(release: &str) -> String {
    let mut parts = release.trim_start_matches('v').split('.');
    let major = parts.next().unwrap_or_default();
    let minor = parts.next().unwrap_or_default();
    let values = [
        ("gitVersion", release),
        ("gitMajor", major),
        ("gitMinor", minor),
    ];
    let mut flags = vec!["-ldflags=-s -w".to_owned()];
    for package in VERSIONS {
        flags.extend(values.map(|(name, value)| format!("-X {package}.{name}={value}")));
    }
    flags.join(" ")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn assets_replace_only_what_they_have() {
        let assets = tempfile::tempdir().unwrap();
        fs::File::create(assets.path().join("etcd")).unwrap();
        fs::File::create(assets.path().join("kubelet")).unwrap();
        let programs = Programs {
            built: "/built".into(),
            of_debian: "/debian".into(),
            assets: Some(assets.path().to_path_buf()),
        };
        assert_eq!(programs.path(Program::Etcd), assets.path().join("etcd"));
        assert_eq!(
            programs.path(Program::ApiServer),
            Path::new("/built/kube-apiserver")
        );
        assert_eq!(programs.path(Program::Kubelet), Path::new("/built/kubelet"));
        assert_eq!(
            programs.path(Program::Kubectl),
            Path::new("/debian/kubectl")
        );
    }
}
