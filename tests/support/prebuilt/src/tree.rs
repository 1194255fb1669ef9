//! The operating system of the lab's hosts: a real Debian, built by `tree/build.sh` and kept as an
//! ostree repository with one commit.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::archive::Archive;
use crate::cache::{self, Recipe};
use crate::program::{command, run};

/// Branch of the base commit.
pub const BASE: &str = "lab/base";

/// Version of the base commit.
pub const BASE_VERSION: &str = "v1";

/// Time of every commit, so that the same content has the same checksum: 2026-01-01.
const TIMESTAMP: &str = "@1767225600";

const BUILD: &str = include_str!("tree/build.sh");

/// What [`Form::Enforcing`] adds to Debian's policy: the lab's own module, and Slipway's.
const MODULES: [(&str, &str); 3] = [
    ("lab.te", include_str!("tree/files/lab.te")),
    ("slipway.te", include_str!("../../../../selinux/slipway.te")),
    ("slipway.fc", include_str!("../../../../selinux/slipway.fc")),
];

/// In the tree: a line for each package that is installed in it, name and version.
const PACKAGES: &str = "usr/share/lab/packages";

/// Files laid over the tree before it is committed.
const FILES: [(&str, &str); 3] = [
    (
        "usr/lib/tmpfiles.d/lab.conf",
        include_str!("tree/files/tmpfiles.conf"),
    ),
    (
        "usr/lib/systemd/system/kubelet.service",
        include_str!("tree/files/kubelet.service"),
    ),
    (
        "usr/lib/systemd/system/crio.service",
        include_str!("tree/files/crio.service"),
    ),
];

/// Which of its forms the operating system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Without SELinux, as Debian comes.
    Plain,
    /// With Debian's SELinux policy and Slipway's module in it; every file is labelled by the
    /// commit.
    Enforcing,
}

/// The built operating system.
#[derive(Clone, Debug)]
pub struct BaseTree {
    /// Which form it is.
    pub form: Form,
    /// In the cache; the makers of other commits may put files there for a while.
    pub dir: PathBuf,
    /// Version of its one kernel, the folder's name in `/usr/lib/modules`.
    pub kernel: String,
    /// Digest of its packages' names and versions.
    pub packages: String,
    /// Repository with the commit [`BASE`], mode `bare`.
    pub repo: PathBuf,
    /// SHA-256 of that commit in hexadecimal.
    pub checksum: String,
    archive: Archive,
}

impl BaseTree {
    /// Takes the tree from the cache, or builds it: three minutes on two cores, most of it
    /// packages.
    ///
    /// It is kept under a digest of what is available without a request: the script, which lists
    /// what is installed, and the archive. Which versions that brings is decided when it is built;
    /// they are kept with it, so that [`Self::packages`] differs where two machines, or one at two
    /// times, have other versions under one recipe. The archive's newer ones come with the next
    /// build.
    ///
    /// # Errors
    ///
    /// Not root, a program is missing, or Debian's archive is not among the machine's sources or
    /// out of reach; for [`Form::Enforcing`] also: the module does not compile, or the policy does
    /// not take it.
    pub fn find(form: Form) -> Result<Self> {
        ensure!(
            nix::unistd::geteuid().is_root(),
            "the lab's hosts need root"
        );
        let archive = Archive::of_machine()?;
        let recipe = FILES.iter().fold(
            Recipe::default()
                .with("build.sh", BUILD)
                .with("suite", &archive.suite)
                .with("archive", &archive.uri)
                .with("os-release", os_release(&archive, BASE_VERSION)),
            |recipe, (name, content)| recipe.with(name, content),
        );
        let recipe = match form {
            Form::Plain => recipe,
            Form::Enforcing => MODULES
                .iter()
                .fold(recipe, |recipe, (name, content)| recipe.with(name, content)),
        };
        let dir = cache::folder("tree", &recipe, |dir| build(&archive, form, dir))?;
        let kernel = fs::read_to_string(dir.join("kernel"))
            .with_context(|| format!("cannot read the kernel's version in {}", dir.display()))?;
        let packages = Recipe::default().with_file(&dir.join("packages"))?.digest();
        let repo = dir.join("repo");
        let checksum = run(ostree(&repo, "rev-parse").arg(BASE))?;
        Ok(Self {
            form,
            dir,
            kernel,
            packages,
            repo,
            checksum,
            archive,
        })
    }

    /// What `/usr/lib/os-release` of a version of the tree has.
    pub fn os_release(&self, version: &str) -> String {
        os_release(&self.archive, version)
    }
}

/// Fills `dir` with `repo`, `kernel` and `packages`.
fn build(archive: &Archive, form: Form, dir: &Path) -> Result<()> {
    let script = dir.join("build.sh");
    write(&script, BUILD)?;
    let files = dir.join("files");
    for (name, content) in FILES {
        write(&files.join(name), content)?;
    }
    write(
        &files.join("usr/lib/os-release"),
        &os_release(archive, BASE_VERSION),
    )?;

    let policy = dir.join("policy");
    if form == Form::Enforcing {
        for (name, content) in MODULES {
            write(&policy.join(name), content)?;
        }
    }
    let root = dir.join("root");
    fs::create_dir(&root)?;
    // Its progress goes where this program's messages go: the first build is a long wait.
    // What it mounts goes with it, however it ends.
    let status = command("unshare")
        .args(["--mount", "--propagation", "private", "bash"])
        .arg(&script)
        .args([&root, &files])
        .arg(match form {
            Form::Plain => Path::new(""),
            Form::Enforcing => &policy,
        })
        .args([&archive.suite, &archive.uri])
        .args(&archive.keyring)
        .stdout(std::io::stderr())
        .status()
        .context("cannot run the script that builds it")?;
    ensure!(
        status.success(),
        "building the operating system failed ({status})"
    );

    let kernel = fs::read_dir(root.join("usr/lib/modules"))?
        .next()
        .context("the tree has no kernel")??
        .file_name()
        .into_string()
        .ok()
        .context("the kernel's version is not UTF-8")?;
    write(&dir.join("kernel"), &kernel)?;
    let packages = fs::read_to_string(root.join(PACKAGES)).context("the tree lists no packages")?;
    ensure!(!packages.is_empty(), "the tree lists no packages");
    write(&dir.join("packages"), &packages)?;

    let repo = dir.join("repo");
    run(ostree(&repo, "init").arg("--mode=bare"))?;
    let mut commit = commit(&repo, BASE, BASE_VERSION);
    commit
        .arg("--bootable")
        .arg(format!("--tree=dir={}", root.display()));
    if form == Form::Enforcing {
        commit.arg(format!("--selinux-policy={}", root.display()));
    }
    run(&mut commit)?;
    fs::remove_dir_all(&root)?;
    fs::remove_dir_all(&files)?;
    Ok(())
}

/// What `/usr/lib/os-release` says. `VARIANT_ID` is what the programs on a node know an ostree
/// system by.
fn os_release(archive: &Archive, version: &str) -> String {
    format!(
        "PRETTY_NAME=\"Slipway lab {version}\"\nNAME=\"Slipway lab\"\nID=debian\nVERSION_ID={}\n\
         VERSION=\"{version}\"\nVARIANT_ID=coreos\nOSTREE_VERSION='{version}'\n",
        archive.version_id
    )
}

/// A call of ostree on a repository.
pub fn ostree(repo: &Path, verb: &str) -> std::process::Command {
    let mut command = command("ostree");
    command.arg(verb).arg(format!("--repo={}", repo.display()));
    command
}

/// A call of `ostree commit` that has the time and the metadata of all commits of the lab.
pub fn commit(repo: &Path, branch: &str, version: &str) -> std::process::Command {
    let mut command = ostree(repo, "commit");
    command.args([
        "--fsync=false",
        "--timestamp",
        TIMESTAMP,
        "--branch",
        branch,
    ]);
    command.arg(format!("--subject=Slipway lab {version}"));
    command.arg(format!("--add-metadata-string=version={version}"));
    command
}

/// Writes a file of mode 0644 and what directories it needs, of mode 0755, whatever the umask.
///
/// # Errors
///
/// Any of the file system's.
#[expect(
    clippy::disallowed_methods,
    reason = "what the lab is made of is made again after a crash"
)]
pub fn write(path: &Path, content: &str) -> Result<()> {
    make_parents(path)?;
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o644),
    )?)
}

/// Makes what directories a file needs, of mode 0755, whatever the umask.
///
/// # Errors
///
/// Any of the file system's.
pub fn make_parents(path: &Path) -> Result<()> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    if parent.is_dir() {
        return Ok(());
    }
    make_parents(parent)?;
    fs::create_dir(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    Ok(fs::set_permissions(
        parent,
        fs::Permissions::from_mode(0o755),
    )?)
}
