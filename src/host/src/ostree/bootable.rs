//! Checks whether a commit can be booted, and finds its files for `/boot`.

use ostree_ext::gio::{self, Cancellable, FileQueryInfoFlags, FileType};
use ostree_ext::ostree;
use ostree_ext::prelude::*;

use super::{Error, ErrorContext as _, Result};

/// The files of a commit for `/boot`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kernel {
    /// Checksums of kernel and initramfs; commits with equal checksums share a copy in `/boot`.
    pub(super) checksums: Vec<String>,
    /// Total size, in bytes.
    pub(super) bytes: u64,
}

const MODULES: &str = "usr/lib/modules";
const KERNEL: &str = "vmlinuz";

/// File names of an initramfs beside its kernel.
const INITRAMFS: &[&str] = &["initramfs.img", "initramfs"];

/// Finds the kernel of a commit. [`Error::NotBootable`] names `image`, which contained the commit.
pub(super) fn kernel(repo: &ostree::Repo, commit: &str, image: &str) -> Result<Kernel> {
    let (root, _) = repo
        .read_commit(commit, Cancellable::NONE)
        .during(|| format!("read commit {commit}"))?;
    let refuse = |why: &str| Error::NotBootable {
        image: image.to_owned(),
        why: why.to_owned(),
    };
    if kind(&root.resolve_relative_path("usr/etc")) != FileType::Directory {
        let has_etc = kind(&root.resolve_relative_path("etc")) == FileType::Directory;
        return Err(refuse(if has_etc {
            "it has /etc and no /usr/etc"
        } else {
            "it has no /usr/etc"
        }));
    }
    for name in ["usr/lib/os-release", "usr/lib/systemd/systemd"] {
        if kind(&root.resolve_relative_path(name)) == FileType::Unknown {
            return Err(refuse(&format!("it has no /{name}")));
        }
    }
    let modules = root.resolve_relative_path(MODULES);
    let mut kernels = Vec::new();
    for name in names(&modules)? {
        let directory = modules.child(&name);
        if kind(&directory.child(KERNEL)) == FileType::Regular {
            kernels.push(directory);
        }
    }
    let directory = match kernels.as_slice() {
        [one] => one,
        [] => {
            return Err(refuse(
                "it has no kernel in /usr/lib/modules/<version>/vmlinuz",
            ));
        }
        _ => return Err(refuse("it has more than one kernel in /usr/lib/modules")),
    };
    let initramfs = INITRAMFS.iter().map(|name| directory.child(name));
    let initramfs = initramfs
        .into_iter()
        .find(|file| kind(file) == FileType::Regular);
    let Some(initramfs) = initramfs else {
        return Err(refuse("it has no initramfs beside its kernel"));
    };
    let mut kernel = Kernel {
        checksums: Vec::new(),
        bytes: 0,
    };
    for file in [
        directory.child(KERNEL),
        initramfs,
        directory.child("devicetree"),
    ] {
        let Ok(info) = query(&file) else { continue };
        kernel.bytes += u64::try_from(info.size()).unwrap_or(0);
        if let Some(file) = file.downcast_ref::<ostree::RepoFile>() {
            kernel.checksums.push(file.checksum().into());
        }
    }
    Ok(kernel)
}

fn query(file: &gio::File) -> std::result::Result<gio::FileInfo, ostree_ext::glib::Error> {
    let flags = FileQueryInfoFlags::NOFOLLOW_SYMLINKS;
    file.query_info("standard::*", flags, Cancellable::NONE)
}

/// The type of a file; `Unknown` for a missing one.
fn kind(file: &gio::File) -> FileType {
    query(file).map_or(FileType::Unknown, |info| info.file_type())
}

fn names(directory: &gio::File) -> Result<Vec<std::path::PathBuf>> {
    if kind(directory) != FileType::Directory {
        return Ok(Vec::new());
    }
    let flags = FileQueryInfoFlags::NOFOLLOW_SYMLINKS;
    let listing = || -> std::result::Result<_, ostree_ext::glib::Error> {
        let children = directory.enumerate_children("standard::name", flags, Cancellable::NONE)?;
        let mut names = Vec::new();
        while let Some(info) = children.next_file(Cancellable::NONE)? {
            names.push(info.name());
        }
        Ok(names)
    };
    listing().during(|| format!("list {MODULES} of the commit"))
}
