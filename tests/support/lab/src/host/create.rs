//! How a host comes to be: a disk with one deployment, and what an installer writes into its `/etc`.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};

use super::{entries, template};
use crate::disk::{self, Mounted};
use crate::program::{command, run};
use crate::tree::Commit;

/// Name of the one operating system in a host's sysroot.
pub const STATEROOT: &str = "slipway";

/// Room for `/boot`: three kernels of 27 MB with their initramfs, and not many more.
const BOOT_BYTES: u64 = 128 << 20;

/// Arguments of every host's kernel.
const ARGUMENTS: [&str; 3] = ["root=LABEL=root", "rw", "console=ttyS0"];

/// What a host is made from.
#[derive(Clone)]
pub struct HostSpec {
    pub(super) name: String,
    pub(super) commit: Commit,
    pub(super) binds: Vec<(PathBuf, String)>,
    pub(super) when_down: Option<WhenDown>,
    arguments: Vec<String>,
    files: Vec<(String, Vec<u8>, u32)>,
    boot_bytes: u64,
}

/// See [`HostSpec::when_down`].
pub(super) type WhenDown = Arc<dyn Fn() + Send + Sync>;

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
    #[must_use]
    pub fn kubelet(self, kubeconfig: &str, arguments: &str) -> Self {
        self.file(
            "/etc/kubernetes/kubelet.env",
            format!("KUBELET_ARGS={arguments}\n"),
            0o644,
        )
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

/// A host's file systems, mounted for this machine: the sysroot, with its `/boot` in it.
#[derive(Debug)]
pub(super) struct Disks {
    // Dropped in this order.
    boot: Mounted,
    root: Mounted,
}

impl Disks {
    /// The sysroot.
    pub(super) fn sysroot(&self) -> &Path {
        self.root.path()
    }

    /// What is mounted at its `/boot`.
    pub(super) fn boot(&self) -> &Path {
        self.boot.path()
    }
}

/// Makes a host's disks in the folder `dir`.
pub(super) fn install(spec: &HostSpec, dir: &Path) -> Result<Disks> {
    let name_is_plain =
        |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
    ensure!(
        spec.name.chars().all(name_is_plain),
        "{:?} is no host name",
        spec.name
    );

    let image = dir.join("root.img");
    disk::copy(&template::image(&spec.commit.repo)?, &image)?;
    let sysroot = dir.join("sysroot");
    fs::create_dir(&sysroot)?;
    let root = Mounted::new(&image, &sysroot)?;
    let image = dir.join("boot.img");
    disk::make(&image, spec.boot_bytes, "boot")?;
    let boot = Mounted::new(&image, &sysroot.join("boot"))?;

    pull(&sysroot, &spec.commit)?;
    let of_sysroot = format!("--sysroot={}", sysroot.display());
    let mut deploy = command("ostree");
    deploy.args(["admin", "deploy", "--os", STATEROOT, &of_sysroot]);
    deploy.args(
        spec.arguments
            .iter()
            .map(|argument| format!("--karg={argument}")),
    );
    run(deploy.arg(&spec.commit.checksum))?;

    let first = entries::entries(&sysroot)?.into_iter().next();
    let deployment = first
        .context("nothing was deployed")?
        .deployment(&sysroot)?;
    let var = sysroot.join("ostree/deploy").join(STATEROOT).join("var");
    let defaults = [
        ("/etc/machine-id".to_owned(), machine_id()?, 0o444),
        (
            "/etc/hostname".to_owned(),
            format!("{}\n", spec.name).into_bytes(),
            0o644,
        ),
    ];
    for (path, content, mode) in defaults.iter().chain(&spec.files) {
        let at = match path.strip_prefix("/var/") {
            Some(rest) => var.join(rest),
            None => deployment.join(path.trim_start_matches('/')),
        };
        write(&at, content, *mode)?;
    }
    Ok(Disks { boot, root })
}

/// Brings a commit into a sysroot's repository.
pub(super) fn pull(sysroot: &Path, commit: &Commit) -> Result<()> {
    let repo = format!("--repo={}", sysroot.join("ostree/repo").display());
    let mut pull = command("ostree");
    pull.args(["pull-local", "--disable-fsync", &repo])
        .arg(&commit.repo)
        .arg(&commit.checksum);
    run(&mut pull).map(drop)
}

/// A new one, 32 hexadecimal digits. Without one systemd would take the boot for the first ever and
/// reset every unit to its preset.
fn machine_id() -> Result<Vec<u8>> {
    Ok(format!("{}\n", super::random_uuid()?.replace('-', "")).into_bytes())
}

/// Writes a file of this mode, in place of what was there.
pub(super) fn write(at: &Path, content: &[u8], mode: u32) -> Result<()> {
    if let Some(parent) = at.parent() {
        fs::create_dir_all(parent)?;
    }
    // Not in place: libostree may share a file's bytes with the commit.
    match fs::remove_file(at) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(at)
        .with_context(|| format!("cannot write {}", at.display()))?;
    file.write_all(content)?;
    // The umask may have taken bits away.
    Ok(file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))?)
}
