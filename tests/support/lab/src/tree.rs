//! The operating system of the lab's hosts, and commits made from it.
//!
//! A real Debian, built once by `tree/build.sh` and kept in the cache as an ostree repository with
//! one commit. What a test calls v2 or v3 is that commit with a few files laid over it.
//!
//! - `overlay`: what a commit has other than the base
//! - `archive`: where the packages come from

mod archive;
mod overlay;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};

use self::archive::Archive;
pub use self::overlay::Overlay;
use crate::cache::{self, Recipe};
use crate::program::{command, run};

/// Branch of the base commit.
pub(crate) const BASE: &str = "lab/base";

/// Version of the base commit.
const BASE_VERSION: &str = "v1";

/// Time of every commit, so that the same content has the same checksum: 2026-01-01.
const TIMESTAMP: &str = "@1767225600";

const BUILD: &str = include_str!("tree/build.sh");

/// What [`Form::Enforcing`] adds to Debian's policy: the lab's own module, and Slipway's.
const MODULES: [(&str, &str); 3] = [
    ("lab.te", include_str!("tree/files/lab.te")),
    ("slipway.te", include_str!("../../../../selinux/slipway.te")),
    ("slipway.fc", include_str!("../../../../selinux/slipway.fc")),
];

/// Arguments of the kernel with which a machine of [`Tree::enforcing`] enforces its policy.
pub const ENFORCING: [&str; 3] = ["security=selinux", "selinux=1", "enforcing=1"];

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
enum Form {
    /// Without SELinux, as Debian comes.
    Plain,
    /// With Debian's SELinux policy and Slipway's module in it; every file is labelled by the
    /// commit.
    Enforcing,
}

/// The built operating system.
#[derive(Clone, Debug)]
pub struct Tree {
    form: Form,
    /// In the cache.
    dir: PathBuf,
    /// Version of its one kernel, the folder's name in `/usr/lib/modules`.
    kernel: String,
    /// Digest of its packages' names and versions.
    packages: String,
    archive: Archive,
    base: Commit,
}

/// A commit in the tree's repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Repository that has it, mode `bare`.
    pub repo: PathBuf,
    /// SHA-256 in hexadecimal.
    pub checksum: String,
    /// What its `os-release` and its metadata say, such as `v2`.
    pub version: String,
}

/// Checksums of a commit's content. The commit itself is another on each way that an image can take
/// into a repository.
///
/// # Errors
///
/// The repository has no such commit.
pub fn content(repo: &Path, checksum: &str) -> Result<String> {
    let repo = format!("--repo={}", repo.display());
    let listed = run(command("ostree").args(["ls", "-d", "-C", &repo, checksum, "/"]))?;
    parse_content(&listed)
}

/// The same, from what `ostree ls -d -C COMMIT /` prints.
///
/// # Errors
///
/// It is something else.
pub fn parse_content(listed: &str) -> Result<String> {
    // `d00755 0 0      0 <tree> <metadata> /`
    let words: Vec<_> = listed.split_whitespace().collect();
    match words.as_slice() {
        [_, _, _, _, tree, metadata, "/"] => Ok(format!("{tree} {metadata}")),
        _ => bail!("`ostree ls` says {listed:?}"),
    }
}

impl Tree {
    /// Takes the tree from the cache, or builds it: three minutes on two cores, most of it
    /// packages.
    ///
    /// It is kept under a digest of what is known without asking anybody: the script, which lists
    /// what is installed, and the archive. Which versions that brings is known once it is built;
    /// they are kept with it, so that [`Self::packages`] differs where two machines, or one at two
    /// times, have other versions under one recipe. The archive's newer ones come with the next
    /// build.
    ///
    /// # Errors
    ///
    /// Not root, a program is missing, or Debian's archive is not among the machine's sources or
    /// out of reach.
    pub fn ready() -> Result<Self> {
        Self::of(Form::Plain)
    }

    /// The same with SELinux: Debian's policy with Slipway's module, and labelled files. A machine
    /// enforces it with [`ENFORCING`].
    ///
    /// # Errors
    ///
    /// As [`Self::ready`]; the module does not compile, or the policy does not take it.
    pub fn enforcing() -> Result<Self> {
        Self::of(Form::Enforcing)
    }

    fn of(form: Form) -> Result<Self> {
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
        let base = Commit {
            repo,
            checksum,
            version: BASE_VERSION.to_owned(),
        };
        Ok(Self {
            form,
            dir,
            kernel,
            packages,
            archive,
            base,
        })
    }

    /// The commit without anything laid over it, version `v1`.
    pub fn base(&self) -> &Commit {
        &self.base
    }

    /// The base with an overlay; made once and kept.
    ///
    /// # Errors
    ///
    /// The repository cannot be written, or the overlay has a file where the base has a
    /// directory.
    pub fn commit(&self, overlay: &Overlay) -> Result<Commit> {
        let branch = format!("lab/{}", overlay.recipe().digest());
        let repo = &self.base.repo;
        let known = command("ostree")
            .arg("rev-parse")
            .arg(format!("--repo={}", repo.display()))
            .arg(&branch)
            .stderr(Stdio::null())
            .output()?;
        let checksum = if known.status.success() {
            String::from_utf8(known.stdout)?.trim().to_owned()
        } else {
            self.make_commit(overlay, &branch)?
        };
        Ok(Commit {
            repo: repo.clone(),
            checksum,
            version: overlay.version.clone(),
        })
    }

    fn make_commit(&self, overlay: &Overlay, branch: &str) -> Result<String> {
        let scratch = tempfile::Builder::new()
            .prefix("overlay-")
            .tempdir_in(&self.dir)?;
        let root = scratch.path().join("root");
        overlay.write(&root, &self.kernel, |path| self.read(path))?;
        write(
            &root.join("usr/lib/os-release"),
            &os_release(&self.archive, &overlay.version),
        )?;
        let skipped = scratch.path().join("skipped");
        write(&skipped, &overlay.removed(&self.kernel).join("\n"))?;

        let base = format!("--tree=ref={BASE}");
        let over = format!("--tree=dir={}", root.display());
        let skip = format!("--skip-list={}", skipped.display());
        let mut commit = commit(&self.base.repo, branch, &overlay.version);
        if overlay.has_kernel() {
            commit.arg("--bootable");
        }
        if self.form == Form::Enforcing {
            commit.arg("--selinux-policy-from-base");
        }
        run(commit.args([base, over, skip]))
    }

    /// A file of the base commit, given by its path there, such as `/usr/etc/passwd`.
    ///
    /// # Errors
    ///
    /// There is no such file.
    pub fn read(&self, path: &str) -> Result<Vec<u8>> {
        let output = ostree(&self.base.repo, "cat").args([BASE, path]).output()?;
        ensure!(
            output.status.success(),
            "cannot read {path} of the base commit: {}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
        Ok(output.stdout)
    }

    /// Version of the kernel, the folder's name in `/usr/lib/modules`.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Digest of the names and versions of all packages in it.
    pub fn packages(&self) -> &str {
        &self.packages
    }

    /// Size of a `/boot` in which so many kernels with their initramfs have room, and not one more.
    ///
    /// # Errors
    ///
    /// The repository cannot be read.
    pub fn boot_bytes(&self, kernels: u64) -> Result<u64> {
        let one = self.kernel_bytes()?;
        // The file system takes less than that for itself, and leaves less than another kernel.
        Ok(kernels * one + one / 4 * 3)
    }

    /// Bytes of the kernel and its initramfs.
    fn kernel_bytes(&self) -> Result<u64> {
        let modules = format!("/usr/lib/modules/{}", self.kernel);
        let paths = ["vmlinuz", "initramfs.img"].map(|name| format!("{modules}/{name}"));
        let listing = run(ostree(&self.base.repo, "ls").arg(BASE).args(paths))?;
        // `-00644 0 0 8234432 /usr/lib/modules/…/vmlinuz`
        let sizes = listing.lines().map(|line| {
            let bytes = line
                .split_whitespace()
                .nth(3)
                .and_then(|word| word.parse::<u64>().ok());
            bytes.with_context(|| format!("cannot read the size in {line:?}"))
        });
        sizes.sum()
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

fn ostree(repo: &Path, verb: &str) -> std::process::Command {
    let mut command = command("ostree");
    command.arg(verb).arg(format!("--repo={}", repo.display()));
    command
}

fn commit(repo: &Path, branch: &str, version: &str) -> std::process::Command {
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
#[expect(
    clippy::disallowed_methods,
    reason = "what the lab is made of is made again after a crash"
)]
fn write(path: &Path, content: &str) -> Result<()> {
    make_parents(path)?;
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o644),
    )?)
}

fn make_parents(path: &Path) -> Result<()> {
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
