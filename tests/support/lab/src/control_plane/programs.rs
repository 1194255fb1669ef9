//! The control plane's programs: one binary built from the Go module `tests/control-plane`, once.
#![expect(
    clippy::disallowed_methods,
    reason = "the lab builds and runs programs; it is no part of what it tests"
)]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cache::{self, Recipe};

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
    /// `kubelet`, over a pretended container runtime
    Kubelet,
    /// `container-runtime`, the pretended runtime as a service of its own
    ContainerRuntime,
    /// `pki`, which writes certificates and keys
    Pki,
}

impl Program {
    const ALL: [Self; 8] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kubectl,
        Self::Kubelet,
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
            Self::Kubelet | Self::ContainerRuntime | Self::Pki => false,
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
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../control-plane");
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

/// What the binary is made from: the module's files, the compiler, and how it is called.
fn recipe(module: &Path) -> Result<Recipe> {
    let version = go(module, &["version"])?;
    let build = format!("{} {}", BUILD.join(" "), linker_flags(""));
    let recipe = Recipe::default()
        .with("go version", version)
        .with("go build", build);
    sources(module)?
        .iter()
        .try_fold(recipe, |recipe, path| recipe.with_file(path))
}

/// `go.mod`, `go.sum` and the Go files of the module's one package, in order of name.
fn sources(module: &Path) -> Result<Vec<PathBuf>> {
    let listing =
        fs::read_dir(module).with_context(|| format!("cannot list {}", module.display()))?;
    let mut sources = Vec::new();
    for entry in listing {
        let path = entry?.path();
        let kind = path.extension().and_then(|kind| kind.to_str());
        if matches!(kind, Some("go" | "mod" | "sum")) {
            sources.push(path);
        }
    }
    sources.sort();
    ensure!(!sources.is_empty(), "no Go module in {}", module.display());
    Ok(sources)
}

fn build(module: &Path, dir: &Path) -> Result<()> {
    let output = dir.join(BINARY);
    let output = output.to_str().context("the cache's path is not UTF-8")?;
    // Minutes without output seem to be a hang. Where standard error is closed, nothing reads it.
    drop(writeln!(
        std::io::stderr(),
        "building etcd and Kubernetes into {} (about 7 minutes on two cores, once)",
        dir.display()
    ));
    let release = go(
        module,
        &["list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes"],
    )?;
    let linker = linker_flags(release.trim());
    let mut arguments = BUILD.to_vec();
    arguments.extend([linker.as_str(), "-o", output, "."]);
    go(module, &arguments)?;
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

/// Runs `go` in the module; what it printed. Low priority, as a build takes all cores for minutes.
/// Without cgo, so that the binary runs on hosts with another libc.
fn go(module: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("nice")
        .arg("go")
        .args(arguments)
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        .env_remove("GOFLAGS")
        .output()
        .context("cannot run go")?;
    ensure!(
        output.status.success(),
        "go {} failed:\n{}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn the_recipe_counts_every_source() {
        let module = tempfile::tempdir().unwrap();
        for name in ["main.go", "go.mod", "go.sum", "README.md"] {
            fs::File::create(module.path().join(name)).unwrap();
        }
        let names: Vec<_> = sources(module.path())
            .unwrap()
            .iter()
            .map(|path| path.file_name().unwrap().to_os_string())
            .collect();
        assert_eq!(names, ["go.mod", "go.sum", "main.go"]);
    }
}
