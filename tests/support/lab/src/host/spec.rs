//! What a host, or a machine, is made from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::snapshot::DiskCache;
use crate::tree::Commit;

/// Room for `/boot`: three kernels of 27 MB with their initramfs, and not many more.
const BOOT_BYTES: u64 = 128 << 20;

/// Arguments of every host's kernel.
const ARGUMENTS: [&str; 3] = ["root=LABEL=root", "rw", "console=ttyS0"];

/// Authority of the API server's client certificate, on a host.
const KUBELET_CLIENT_CA: &str = "/etc/kubernetes/kubelet-client-ca.crt";

/// What a host is made from.
#[derive(Clone)]
pub struct HostSpec {
    pub(crate) name: String,
    pub(crate) commit: Commit,
    pub(crate) binds: Vec<(PathBuf, String)>,
    pub(crate) when_down: Option<WhenDown>,
    pub(crate) arguments: Vec<String>,
    pub(crate) files: Vec<(String, Vec<u8>, u32)>,
    pub(crate) boot_bytes: u64,
    pub(crate) disk_cache: Option<DiskCache>,
    /// It has pods with addresses of their own.
    pub(crate) routes_pods: bool,
}

/// See [`HostSpec::when_down`].
pub(crate) type WhenDown = Arc<dyn Fn() + Send + Sync>;

impl HostSpec {
    /// A host of this name, of letters, digits and `-`, with one deployment of a commit.
    pub fn new(name: &str, commit: &Commit) -> Self {
        Self {
            name: name.to_owned(),
            commit: commit.clone(),
            binds: Vec::new(),
            when_down: None,
            arguments: ARGUMENTS.map(ToOwned::to_owned).to_vec(),
            files: Vec::new(),
            boot_bytes: BOOT_BYTES,
            disk_cache: None,
            routes_pods: false,
        }
    }

    /// With a further kernel argument.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// With a file that the installer wrote, root's; its path is one on the running host, in `/etc`
    /// or `/var`.
    #[must_use]
    pub fn file(mut self, path: &str, content: impl Into<Vec<u8>>, mode: u32) -> Self {
        self.files.push((path.to_owned(), content.into(), mode));
        self
    }

    /// With the kubelet's settings and credentials. Its program is bound in by [`Self::bin`].
    /// `client_ca` (PEM) signed the certificate by which it knows the API server.
    #[must_use]
    pub fn kubelet(self, kubeconfig: &str, arguments: &str, client_ca: &[u8]) -> Self {
        self.file(
            "/etc/kubernetes/kubelet.env",
            format!("KUBELET_ARGS={arguments} --client-ca-file={KUBELET_CLIENT_CA}\n"),
            0o644,
        )
        .file(KUBELET_CLIENT_CA, client_ca, 0o644)
        .file("/var/lib/kubelet/kubeconfig", kubeconfig, 0o600)
    }

    /// With a registry that speaks plain HTTP, `address:port`.
    #[must_use]
    pub fn registry(self, location: &str) -> Self {
        let text = format!("[[registry]]\nlocation = \"{location}\"\ninsecure = true\n");
        self.file(
            &format!("/etc/containers/registries.conf.d/{location}.conf"),
            text,
            0o644,
        )
    }

    /// With a folder of programs of this machine, read-only at `/run/lab/bin`.
    #[must_use]
    pub fn bin(self, dir: &Path) -> Self {
        self.bind(dir, "bin")
    }

    /// With a folder of this machine, read-only at `/run/lab/<name>`.
    #[must_use]
    pub fn bind(mut self, dir: &Path, name: &str) -> Self {
        self.binds.push((dir.to_owned(), name.to_owned()));
        self
    }

    /// With a `/boot` of this size.
    #[must_use]
    pub fn boot_bytes(mut self, bytes: u64) -> Self {
        self.boot_bytes = bytes;
        self
    }

    /// With its disks in a disk cache, where [`super::Host::snapshot`] and [`super::Host::restore`]
    /// take no time.
    #[must_use]
    pub fn on(mut self, place: &DiskCache) -> Self {
        self.disk_cache = Some(place.clone());
        self
    }

    /// With something to do each time the host has gone down, before it comes up again. It blocks
    /// the host's next boot.
    #[must_use]
    pub fn when_down(mut self, act: impl Fn() + Send + Sync + 'static) -> Self {
        self.when_down = Some(Arc::new(act));
        self
    }
}

impl std::fmt::Debug for HostSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostSpec")
            .field("name", &self.name)
            .field("commit", &self.commit)
            .finish_non_exhaustive()
    }
}
