//! The operating system of the lab's hosts, and commits made from it.
//!
//! The base is [`prebuilt`]'s. What a test calls v2 or v3 is that commit with a few files laid over
//! it.
//!
//! - `overlay`: what a commit has other than the base

mod overlay;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};
pub(crate) use prebuilt::tree::BASE;
use prebuilt::tree::{BASE_VERSION, BaseTree, Form, commit, ostree, write};

pub use self::overlay::Overlay;
use crate::program::{command, run};

/// Arguments of the kernel with which a machine of [`Tree::enforcing`] enforces its policy.
pub const ENFORCING: [&str; 3] = ["security=selinux", "selinux=1", "enforcing=1"];

/// The built operating system.
#[derive(Clone, Debug)]
pub struct Tree {
    built: BaseTree,
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
    /// Takes the tree from the cache, or builds it.
    ///
    /// # Errors
    ///
    /// Those of [`BaseTree::find`].
    pub fn ready() -> Result<Self> {
        Self::of(Form::Plain)
    }

    /// The same with SELinux: Debian's policy with Slipway's module, and labelled files. A machine
    /// enforces it with [`ENFORCING`].
    ///
    /// # Errors
    ///
    /// Those of [`BaseTree::find`].
    pub fn enforcing() -> Result<Self> {
        Self::of(Form::Enforcing)
    }

    fn of(form: Form) -> Result<Self> {
        let built = BaseTree::find(form)?;
        let base = Commit {
            repo: built.repo.clone(),
            checksum: built.checksum.clone(),
            version: BASE_VERSION.to_owned(),
        };
        Ok(Self { built, base })
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
            .tempdir_in(&self.built.dir)?;
        let root = scratch.path().join("root");
        overlay.write(&root, &self.built.kernel, |path| self.read(path))?;
        write(
            &root.join("usr/lib/os-release"),
            &self.built.os_release(&overlay.version),
        )?;
        let skipped = scratch.path().join("skipped");
        write(&skipped, &overlay.removed(&self.built.kernel).join("\n"))?;

        let base = format!("--tree=ref={BASE}");
        let over = format!("--tree=dir={}", root.display());
        let skip = format!("--skip-list={}", skipped.display());
        let mut commit = commit(&self.base.repo, branch, &overlay.version);
        if overlay.has_kernel() {
            commit.arg("--bootable");
        }
        if self.built.form == Form::Enforcing {
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
        &self.built.kernel
    }

    /// Digest of the names and versions of all packages in it.
    pub fn packages(&self) -> &str {
        &self.built.packages
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
        let modules = format!("/usr/lib/modules/{}", self.built.kernel);
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
