//! Watches paths of a root for changes, by inotify.
//!
//! The directories of the paths are watched, and all above them, so that a path that comes, goes or
//! is replaced is seen, too. The kernel also reports other names in these directories; they are
//! dropped here. Nothing runs while nothing changes.
//!
//! Source: inotify(7).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use crate::files::{Location, Root};

/// What may change a path: its entry in a directory, what it holds once that is written, its mode
/// or owner.
const CHANGES: WatchFlags = WatchFlags::ONLYDIR
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO);

/// Bytes read at once: some dozens of events.
const BUFFER_BYTES: usize = 4096;

/// Why paths cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel gives no queue of events, or closes it.
    #[error("cannot watch files")]
    Queue(#[source] io::Error),
    /// A directory cannot be watched; the kernel limits how many are.
    #[error("cannot watch directory {path}")]
    Directory { path: String, source: io::Error },
    /// A path cannot be resolved.
    #[error(transparent)]
    Files(#[from] crate::files::Error),
}

/// The names that count, by their directory.
type Names = BTreeMap<Option<Location>, BTreeSet<Vec<u8>>>;

/// Adds an entry and all directories above it.
fn note(entry: Location, directories: &mut Names) {
    let mut at = Some(entry);
    while let Some(entry) = at {
        let (parent, name) = (entry.parent(), entry.name().as_bytes().to_owned());
        let names = directories.entry(parent.clone()).or_default();
        if !names.insert(name) {
            // Its parents are there, too.
            return;
        }
        at = parent;
    }
}

/// Paths that are watched as they were resolved at its making, with the links on their ways.
#[derive(Debug)]
pub struct PathWatch {
    queue: AsyncFd<OwnedFd>,
    /// The names that count, by the number of the directory's watch.
    names: BTreeMap<i32, BTreeSet<Vec<u8>>>,
}

impl PathWatch {
    /// Begins to watch `paths` below `root`, their parents, and each link on the way to one: it may
    /// be replaced by one that leads elsewhere. A directory that does not exist is
    /// watched for by its parent. Must be called in a runtime.
    ///
    /// # Errors
    /// All of [`Error`].
    pub fn begin<'a>(root: &Root, paths: impl IntoIterator<Item = &'a str>) -> Result<Self, Error> {
        let mut directories = Names::new();
        for path in paths {
            for entry in root.ways(path)? {
                note(entry, &mut directories);
            }
        }
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(|error| Error::Queue(error.into()))?;
        let mut names: BTreeMap<i32, BTreeSet<Vec<u8>>> = BTreeMap::new();
        for (directory, entries) in directories {
            let relative = directory.as_ref().map_or("", |at| at.as_str());
            let path = root.path().join(relative.trim_start_matches('/'));
            match inotify::add_watch(&queue, &path, CHANGES) {
                // The same directory by two paths has one watch.
                Ok(number) => names.entry(number).or_default().extend(entries),
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => {
                    return Err(Error::Directory {
                        path: path.display().to_string(),
                        source: error.into(),
                    });
                }
            }
        }
        #[expect(
            deprecated,
            reason = "unsound for types whose descriptor may change, which that of an OwnedFd does \
                      not; what replaces it is unsafe for all"
        )]
        let queue = AsyncFd::new(queue).map_err(Error::Queue)?;
        Ok(Self { queue, names })
    }

    /// Waits until one of the paths may have changed. Dropping the future loses no change that was
    /// not reported yet, but those reported with it.
    ///
    /// # Errors
    /// [`Error::Queue`].
    pub async fn changed(&self) -> Result<(), Error> {
        loop {
            let mut ready = self.queue.readable().await.map_err(Error::Queue)?;
            match ready.try_io(|queue| self.read(queue.get_ref())) {
                Ok(read) => return read.map_err(Error::Queue),
                // No event that is there counts.
                Err(_would_block) => {}
            }
        }
    }

    /// Reads events until one is about a path.
    ///
    /// Errors: [`io::ErrorKind::WouldBlock`] where none of those that are there is.
    fn read(&self, queue: &OwnedFd) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = inotify::Reader::new(queue, &mut buffer);
        loop {
            let event = reader.next()?;
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                return Ok(());
            }
            let name = event.file_name().map(std::ffi::CStr::to_bytes);
            let counts = name
                .zip(self.names.get(&event.wd()))
                .is_some_and(|(name, names)| names.contains(name));
            if counts {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Much longer than the kernel takes to report a change that was made before.
    const SOON: Duration = Duration::from_secs(5);

    fn write(path: &Path, text: &str) {
        #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
        fs::write(path, text).unwrap();
    }

    /// Whether what `change` does in a tree with the file `/etc/a/file` is seen. What is made last
    /// is always seen, so that nothing is waited for that does not come.
    async fn is_seen(change: impl FnOnce(&Path)) -> bool {
        let tree = tempfile::tempdir().unwrap();
        let tree = tree.path();
        fs::create_dir_all(tree.join("etc/a")).unwrap();
        fs::create_dir_all(tree.join("var/b")).unwrap();
        symlink("var/b", tree.join("link")).unwrap();
        write(&tree.join("etc/a/file"), "text");
        let root = Root::open(tree, None).unwrap();
        let paths = ["/etc/a/file", "/etc/none/file", "/link/file"];
        let watch = PathWatch::begin(&root, paths).unwrap();
        let end = PathWatch::begin(&root, ["/end"]).unwrap();
        change(tree);
        write(&tree.join("end"), "");
        timeout(SOON, end.changed()).await.unwrap().unwrap();
        match watch.read(watch.queue.get_ref()) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                false
            }
        }
    }

    #[tokio::test]
    async fn each_change_of_a_path_or_of_its_parents_is_seen() {
        let file = |tree: &Path| tree.join("etc/a/file");
        assert!(is_seen(|tree| write(&file(tree), "other")).await);
        assert!(is_seen(|tree| fs::remove_file(file(tree)).unwrap()).await);
        let moved = |tree: &Path| fs::rename(file(tree), tree.join("etc/a/moved")).unwrap();
        assert!(is_seen(moved).await);
        let replaced = |tree: &Path| {
            write(&tree.join("new"), "new");
            fs::rename(tree.join("new"), file(tree)).unwrap();
        };
        assert!(is_seen(replaced).await);
        let mode = fs::Permissions::from_mode(0o600);
        assert!(is_seen(|tree| fs::set_permissions(file(tree), mode).unwrap()).await);
        let parent = |tree: &Path| fs::rename(tree.join("etc/a"), tree.join("etc/b")).unwrap();
        assert!(is_seen(parent).await);
        let grandparent = |tree: &Path| fs::rename(tree.join("etc"), tree.join("x")).unwrap();
        assert!(is_seen(grandparent).await);
        assert!(is_seen(|tree| fs::create_dir(tree.join("etc/none")).unwrap()).await);
        // Where a link of its parents leads.
        assert!(is_seen(|tree| write(&tree.join("var/b/file"), "new")).await);
        let relinked = |tree: &Path| {
            symlink("etc/a", tree.join("new")).unwrap();
            fs::rename(tree.join("new"), tree.join("link")).unwrap();
        };
        assert!(is_seen(relinked).await);
        assert!(is_seen(|tree| fs::remove_file(tree.join("link")).unwrap()).await);
    }

    #[tokio::test]
    async fn other_names_are_dropped() {
        let other = |tree: &Path| write(&tree.join("etc/a/other"), "text");
        assert!(!is_seen(other).await);
        let read = |tree: &Path| drop(fs::read(tree.join("etc/a/file")).unwrap());
        assert!(!is_seen(read).await);
    }
}
