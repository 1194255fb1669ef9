//! A host's disks: how they come to have one deployment, and what an installer writes into its
//! `/etc`.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::spec::HostSpec;
use super::{entries, template};
use crate::disk::{self, Mounted};
use crate::program::{command, run};
use crate::tree::Commit;

/// Name of the one operating system in a host's sysroot.
pub const STATEROOT: &str = "slipway";

/// Images of a host's two disks.
#[derive(Clone, Debug)]
pub(crate) struct Images {
    /// A file system without a partition table.
    pub(crate) root: PathBuf,
    /// A disk with `/boot` on it.
    pub(crate) boot: PathBuf,
    /// Where on that disk the file system begins, in bytes: room for a boot loader.
    pub(crate) boot_offset: u64,
}

/// A host's file systems, mounted for this machine: the sysroot, with its `/boot` in it.
#[derive(Debug)]
pub(crate) struct Disks {
    // Dropped in this order.
    boot: Mounted,
    root: Mounted,
}

impl Images {
    /// Makes the images in the folder `dir`, with the base commit in the repository and nothing
    /// deployed.
    pub(crate) fn make(spec: &HostSpec, dir: &Path, boot_offset: u64) -> Result<Self> {
        let images = Self {
            root: dir.join("root.img"),
            boot: dir.join("boot.img"),
            boot_offset,
        };
        disk::copy(&template::image(&spec.commit.repo)?, &images.root)?;
        disk::make(&images.boot, boot_offset, spec.boot_bytes, "boot")?;
        Ok(images)
    }

    /// Mounts them at an existing directory.
    pub(crate) fn mount(&self, sysroot: &Path) -> Result<Disks> {
        let root = Mounted::new(&self.root, 0, sysroot)?;
        let boot = Mounted::new(&self.boot, self.boot_offset, &sysroot.join("boot"))?;
        Ok(Disks { boot, root })
    }
}

impl Disks {
    /// The sysroot.
    pub(crate) fn sysroot(&self) -> &Path {
        self.root.path()
    }

    /// What is mounted at its `/boot`.
    pub(crate) fn boot(&self) -> &Path {
        self.boot.path()
    }

    /// Unmounts them now, so that the images are whole.
    ///
    /// # Errors
    ///
    /// Something in them is in use.
    pub(crate) fn unmount(self) -> Result<()> {
        self.boot.unmount()?;
        self.root.unmount()
    }
}

/// Deploys a host's commit on its mounted disks, and writes its files.
pub(crate) fn install(spec: &HostSpec, disks: &Disks) -> Result<()> {
    let name_is_plain =
        |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
    ensure!(
        spec.name.chars().all(name_is_plain),
        "{:?} is no host name",
        spec.name
    );

    let sysroot = disks.sysroot();
    pull_into(sysroot, &spec.commit)?;
    let of_sysroot = format!("--sysroot={}", sysroot.display());
    let mut deploy = command("ostree");
    deploy.args(["admin", "deploy", "--os", STATEROOT, &of_sysroot]);
    deploy.args(
        spec.arguments
            .iter()
            .map(|argument| format!("--karg={argument}")),
    );
    run(deploy.arg(&spec.commit.checksum))?;

    let first = entries::entries(sysroot)?.into_iter().next();
    let deployment = first.context("nothing was deployed")?.deployment(sysroot)?;
    let var = sysroot.join("ostree/deploy").join(STATEROOT).join("var");
    let hostname = format!("{}\n", spec.name).into_bytes();
    let defaults = [
        ("/etc/machine-id".to_owned(), machine_id()?, 0o444),
        ("/etc/hostname".to_owned(), hostname, 0o644),
    ];
    for (path, content, mode) in defaults.iter().chain(&spec.files) {
        let at = match path.strip_prefix("/var/") {
            Some(rest) => var.join(rest),
            None => deployment.join(path.trim_start_matches('/')),
        };
        write(&at, content, *mode)?;
    }
    Ok(())
}

/// Brings a commit of this machine into a sysroot's repository, without a registry.
///
/// # Errors
///
/// Its disk is full.
pub fn pull_into(sysroot: &Path, commit: &Commit) -> Result<()> {
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
pub(crate) fn write(at: &Path, content: &[u8], mode: u32) -> Result<()> {
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
