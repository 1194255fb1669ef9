//! What hosts are made from: a lab, an OS, a registry.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use lab::Lab;
use lab::host::{BOOTED_WITHIN, Host, HostSpec};
use lab::registry::Registry;
use lab::tree::{Commit, Overlay, Tree, content};

use crate::Programs;
use crate::single_host::KUBELET;

/// A lab without hosts. Everything of it is gone when dropped.
#[derive(Debug)]
pub struct HostLab {
    /// Where hosts fetch images.
    pub registry: Registry,
    /// The OS that images and hosts are made from.
    pub tree: Tree,
    /// Where hosts live. Dropped last.
    pub lab: Lab,
}

/// An OS in the registry.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its pull spec, by digest.
    pub reference: String,
    /// What it is, as [`lab::tree::content`] gives it.
    pub content: String,
}

impl HostLab {
    /// A new one.
    pub fn new() -> Result<Self> {
        Self::of(Tree::ready()?)
    }

    /// One whose OS has SELinux, for machines: a host in namespaces has this machine's kernel.
    pub fn enforcing() -> Result<Self> {
        Self::of(Tree::enforcing()?)
    }

    fn of(tree: Tree) -> Result<Self> {
        let lab = Lab::create()?;
        let registry = Registry::start(&lab)?;
        Ok(Self {
            registry,
            tree,
            lab,
        })
    }

    /// Puts a commit into the registry, as a native container image; its pull spec.
    pub fn push(&self, commit: &Commit) -> Result<String> {
        let image = lab::image::Image::native(commit)?;
        self.registry
            .push(&image, &format!("os:{}", commit.version))
    }

    /// Makes an OS and puts it into the registry.
    pub fn image(&self, os: &Overlay) -> Result<Image> {
        let commit = self.tree.commit(os)?;
        Ok(Image {
            reference: self.push(&commit)?,
            content: content(&commit.repo, &commit.checksum)?,
        })
    }

    /// A host that boots a commit, with the programs under test at `/run/lab/bin`. Its kubelet runs
    /// and does nothing.
    pub fn host(&self, programs: &Programs, name: &str, os: &Commit) -> Result<HostSpec> {
        let spec = HostSpec::new(name, os)
            .bin(&self.bin(programs)?)
            .registry(&self.registry.location());
        Ok(crate::single_host::kubelet(spec))
    }

    /// Creates a host and boots it.
    pub fn boot(&self, spec: HostSpec) -> Result<Host> {
        let mut host = Host::create(&self.lab, spec)?;
        host.start()?;
        host.wait_booted(BOOTED_WITHIN)?;
        Ok(host)
    }

    /// Folder with the programs, as hosts see it.
    fn bin(&self, programs: &Programs) -> Result<PathBuf> {
        let dir = self.lab.dir().join("bin");
        if dir.exists() {
            return Ok(dir);
        }
        fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        for name in ["mcd", "mcd-os"] {
            let from = programs.path(name)?;
            fs::copy(&from, dir.join(name))
                .with_context(|| format!("cannot copy {}", from.display()))?;
        }
        let kubelet = dir.join("lab-kubernetes");
        #[expect(clippy::disallowed_methods, reason = "a lab's own folder")]
        fs::write(&kubelet, KUBELET)?;
        fs::set_permissions(&kubelet, fs::Permissions::from_mode(0o755))?;
        Ok(dir)
    }
}
