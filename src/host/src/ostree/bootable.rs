//! Checks whether a commit can be booted, and finds its files for `/boot`.

use ostree_ext::gio::{self, Cancellable, FileQueryInfoFlags, FileType};
use ostree_ext::ostree;
use ostree_ext::prelude::*;

use super::{Error, ErrorContext as _, Result};

/// The files of a commit for `/boot`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kernel {
    /// Checksums of all files; commits with equal checksums share a copy in `/boot`.
    pub(super) checksums: Vec<String>,
    /// Size of each file, in bytes; that of a directory is 0.
    sizes: Vec<u64>,
}

impl Kernel {
    /// Bytes that the files take in a file system with blocks of `block` bytes. A directory takes
    /// one block, and so does what is left over of a file.
    pub(super) fn bytes(&self, block: u64) -> u64 {
        let block = block.max(1);
        let blocks = |size: &u64| size.div_ceil(block).max(1);
        self.sizes
            .iter()
            .map(blocks)
            .fold(0, u64::saturating_add)
            .saturating_mul(block)
    }

    fn add(&mut self, file: &gio::File, size: u64) {
        self.sizes.push(size);
        if let Some(file) = file.downcast_ref::<ostree::RepoFile>() {
            self.checksums.push(file.checksum().into());
        }
    }

    /// Adds a directory and all that is in it.
    fn add_directory(&mut self, directory: &gio::File) -> Result<()> {
        self.sizes.push(0);
        for name in names(directory)? {
            let child = directory.child(&name);
            let Ok(info) = query(&child) else { continue };
            if info.file_type() == FileType::Directory {
                self.add_directory(&child)?;
            } else {
                self.add(&child, size_of(&info));
            }
        }
        Ok(())
    }
}

fn size_of(info: &gio::FileInfo) -> u64 {
    u64::try_from(info.size()).unwrap_or(0)
}

const MODULES: &str = "usr/lib/modules";
const KERNEL: &str = "vmlinuz";

/// File names of an initramfs beside its kernel.
const INITRAMFS: &[&str] = &["initramfs.img", "initramfs"];

/// A device tree, or else the directory of all of them, of which the boot loader chooses.
const DEVICE_TREE: &str = "devicetree";
const DEVICE_TREES: &str = "dtb";

/// Files that are copied too, where they are there.
///
/// Source: `get_kernel_from_tree_usrlib_modules` of libostree.
const OTHERS: &[&str] = &[DEVICE_TREE, ".vmlinuz.hmac", "aboot.img", "aboot.cfg"];

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
        sizes: Vec::new(),
    };
    let others = OTHERS.iter().map(|name| directory.child(name));
    for file in [directory.child(KERNEL), initramfs]
        .into_iter()
        .chain(others)
    {
        if let Ok(info) = query(&file) {
            kernel.add(&file, size_of(&info));
        }
    }
    let device_trees = directory.child(DEVICE_TREES);
    let has_one = kind(&directory.child(DEVICE_TREE)) != FileType::Unknown;
    if !has_one && kind(&device_trees) == FileType::Directory {
        kernel.add_directory(&device_trees)?;
    }
    // The directory of this kernel.
    kernel.sizes.push(0);
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
