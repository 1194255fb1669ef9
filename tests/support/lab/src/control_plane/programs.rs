//! The control plane's programs: one binary built from the Go module `tests/control-plane`, once.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::cache::{self, Recipe};
use crate::go::Module;

/// The binary's file name in the cache.
const BINARY: &str = "lab-kubernetes";

/// Arguments of `go build` besides the output and the linker's flags: no paths of this machine.
const BUILD: [&str; 2] = ["build", "-trimpath"];

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
    const ALL: [Self; 9] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kubectl,
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
        Ok(Self {
            built,
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
            .unwrap_or_else(|| self.built.join(program.name()))
    }

    /// The one binary behind our programs, static, to be given to a host: called as
    /// `lab-kubernetes kubelet …`, or by a link named like a program.
    pub fn binary(&self) -> PathBuf {
        self.built.join(BINARY)
    }
}

fn recipe(module: &Module) -> Result<Recipe> {
    let build = format!("{} {}", BUILD.join(" "), linker_flags(""));
    Ok(module.recipe()?.with("go build", build))
}

fn build(module: &Module, dir: &Path) -> Result<()> {
    let output = dir.join(BINARY);
    let output = output.to_str().context("the cache's path is not UTF-8")?;
    // Minutes without output seem to be a hang. Where standard error is closed, nothing reads it.
    drop(writeln!(
        std::io::stderr(),
        "building etcd and Kubernetes into {} (about 7 minutes on two cores, once)",
        dir.display()
    ));
    let release = module.go(&["list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes"])?;
    let linker = linker_flags(release.trim());
    let mut arguments = BUILD.to_vec();
    arguments.extend([linker.as_str(), "-o", output, "."]);
    module.go(&arguments)?;
    for program in Program::ALL {
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
            assets: Some(assets.path().to_path_buf()),
        };
        assert_eq!(programs.path(Program::Etcd), assets.path().join("etcd"));
        assert_eq!(
            programs.path(Program::ApiServer),
            Path::new("/built/kube-apiserver")
        );
        assert_eq!(programs.path(Program::Kubelet), Path::new("/built/kubelet"));
    }
}
