//! Names beneath a directory, reached without following a link.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat, unlinkat};
use rustix::io::Errno;

/// Makes `target` another name of the file `source`, in place of what is there. Both are relative
/// to `root`; false where a part of their directories is a link, or leads upwards.
///
/// It is what `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS` of `openat2` does, which kernels before 5.6
/// and some sandboxes do not have.
pub(super) fn hard_link(root: &Path, source: &Path, target: &Path) -> io::Result<bool> {
    let root = open(CWD, root.as_os_str(), OFlags::empty())?;
    let (Some((from, old)), Some((to, new))) = (parent(&root, source)?, parent(&root, target)?)
    else {
        return Ok(false);
    };
    match unlinkat(&to, new, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    // Without `AT_SYMLINK_FOLLOW`: a link in the last place gets the other name itself.
    linkat(&from, old, &to, new, AtFlags::empty())?;
    Ok(true)
}

/// The directory of a path, and the name in it; none where it is reached through a link.
fn parent<'p>(root: &OwnedFd, path: &'p Path) -> io::Result<Option<(OwnedFd, &'p OsStr)>> {
    let Some(name) = path.file_name() else {
        return Ok(None);
    };
    let mut reached = root.try_clone()?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        let Component::Normal(part) = part else {
            return Ok(None);
        };
        reached = match open(reached.as_fd(), part, OFlags::NOFOLLOW) {
            Ok(next) => next,
            Err(Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
    }
    Ok(Some((reached, name)))
}

fn open(at: std::os::fd::BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn both_names_are_reached_without_links() {
        let outside = tempfile::tempdir().unwrap();
        fs::File::create(outside.path().join("secret")).unwrap();
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir(at("d")).unwrap();
        fs::File::create(at("d/a")).unwrap();
        symlink(outside.path(), at("out")).unwrap();
        symlink("d", at("in")).unwrap();
        symlink(outside.path().join("secret"), at("last")).unwrap();
        let link = |source: &str, target: &str| {
            hard_link(root.path(), Path::new(source), Path::new(target))
        };
        for (source, target, expected) in [
            ("d/a", "b", true),
            // Again over what is there.
            ("d/a", "b", true),
            ("d/a", "d/c", true),
            ("out/secret", "x", false),
            ("d/a", "out/x", false),
            ("in/a", "x", false),
            ("d/a", "in/x", false),
            ("d/a/b", "x", false),
            ("../secret", "x", false),
            ("d/a", "..", false),
            // The link itself has another name then.
            ("last", "x", true),
        ] {
            assert_eq!(link(source, target).unwrap(), expected, "{source} {target}");
        }
        assert!(fs::symlink_metadata(at("x")).unwrap().is_symlink());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        let error = link("none", "y").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
