//! A kubelet on this machine, for suites that need Nodes and their pods but no hosts.

use std::path::{Path, PathBuf};

use anyhow::Result;
use tempfile::TempDir;

use super::process::Process;
use super::{ControlPlane, Program};
use crate::ports;

/// A running kubelet whose containers are pretended. Killed when dropped, its containers with it,
/// as by a power cut.
#[derive(Debug)]
pub struct LocalKubelet {
    /// Before the folder, so that it ends first.
    _process: Process,
    dir: TempDir,
}

impl LocalKubelet {
    /// Starts the kubelet of a node. It registers the Node by itself, Ready within about 2 s.
    ///
    /// # Errors
    /// The node was not among [`super::Options::nodes`], or the program cannot be started.
    pub fn start(control_plane: &ControlPlane, node: &str) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("slipway-kubelet-")
            .tempdir()?;
        let this = |file: &str| dir.path().join(file).display().to_string();
        std::fs::create_dir(this("static"))?;
        std::fs::write(
            this("kubeconfig"),
            control_plane.local_kubeconfig(control_plane.node(node)?),
        )?;
        let [port, healthz_port] = ports::take()?;
        let arguments = [
            format!("--kubeconfig={}", this("kubeconfig")),
            format!("--node-name={node}"),
            format!("--root-dir={}", this("root")),
            format!("--static-pod-dir={}", this("static")),
            format!("--port={port}"),
            format!("--healthz-port={healthz_port}"),
        ];
        let program = control_plane.programs().path(Program::Kubelet);
        let process = Process::start("kubelet", &program, arguments, dir.path())?;
        Ok(Self {
            _process: process,
            dir,
        })
    }

    /// Folder of its own, in which it runs.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Folder of static pods, each of which appears as a mirror pod named `<name>-<node>`.
    pub fn static_pods(&self) -> PathBuf {
        self.dir.path().join("static")
    }

    /// Folder of volumes: `<uid>/volumes/kubernetes.io~empty-dir/<name>`.
    pub fn pods(&self) -> PathBuf {
        self.dir.path().join("root/pods")
    }
}
