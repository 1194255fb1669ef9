//! Directories that are copied and compared.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

/// Every path with its content, mode and owner.
pub(in crate::execute::tests) type Snapshot = BTreeMap<String, String>;

pub(super) fn put(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
    fs::write(path, bytes).unwrap();
}

pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&from, &to);
        } else if kind.is_symlink() {
            symlink(fs::read_link(&from).unwrap(), &to).unwrap();
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

/// Copies the changes of `etc` against `shipped` into `to`.
pub(super) fn carry(etc: &Path, shipped: &Path, to: &Path) {
    for entry in fs::read_dir(etc).unwrap() {
        let entry = entry.unwrap();
        let (shipped, to) = (shipped.join(entry.file_name()), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            fs::create_dir_all(&to).unwrap();
            carry(&entry.path(), &shipped, &to);
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path()).unwrap(), &to).unwrap();
        } else if fs::read(entry.path()).ok() != fs::read(&shipped).ok() {
            fs::copy(entry.path(), &to).unwrap();
        }
    }
}

pub(super) fn walk(directory: &Path, shown: &str, found: &mut Snapshot) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        let shown = format!("{shown}/{}", entry.file_name().display());
        let stat = fs::symlink_metadata(&path).unwrap();
        let what = if stat.is_dir() {
            walk(&path, &shown, found);
            "directory".to_owned()
        } else if stat.is_symlink() {
            format!("link {:?}", fs::read_link(&path).unwrap())
        } else {
            format!(
                "file {:?}",
                String::from_utf8_lossy(&fs::read(&path).unwrap())
            )
        };
        let mode = stat.permissions().mode();
        found.insert(
            shown,
            format!("{what} {mode:o} {}:{}", stat.uid(), stat.gid()),
        );
    }
}
