//! Files from which a layer is made, byte for byte the same each time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder};
use jiff::Timestamp;
use release::ImageDigest;
use tar::{Builder, EntryType, Header};

use crate::blob::{Blob, Hashing, Writer};

/// Mode of directories that nothing else gives one.
const DIRECTORY_MODE: u32 = 0o755;

/// Operating system in gzip's header: unknown.
const UNKNOWN_SYSTEM: u8 = 255;

/// The files of one layer.
///
/// All belong to root and have one time; they are written in the order of their paths, each
/// directory before what is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    content: EntryContent,
}

/// How a layer is packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// Small, for images that many pull.
    #[default]
    Small,
    /// In a quarter of the time, for images that one machine makes and pulls.
    Fast,
}

impl Packing {
    const fn compression(self) -> Compression {
        match self {
            // What `Compression::default()` is.
            Self::Small => Compression::new(6),
            Self::Fast => Compression::fast(),
        }
    }
}

/// What a path of a layer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryContent {
    Directory,
    /// A file of these bytes.
    Bytes(Vec<u8>),
    /// A file with the content that this file has when the layer is made.
    File(PathBuf),
    /// A symbolic link that leads there.
    Link(String),
}

/// A layer that was made.
#[derive(Clone, Debug)]
pub struct NewLayer {
    pub(crate) blob: Blob,
    /// Digest of its bytes before they were packed.
    pub(crate) diff_id: ImageDigest,
}

impl NewLayer {
    pub fn blob(&self) -> &Blob {
        &self.blob
    }
}

/// A path is none in a layer.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no path in a layer")]
pub struct Error(String);

impl Tree {
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts something at a path such as `usr/bin/mcd`, in place of what is there. Directorys on the
    /// way come by themselves.
    ///
    /// # Errors
    /// The path is empty, absolute, or leads upwards.
    pub fn put(&mut self, path: &str, mode: u32, content: EntryContent) -> Result<(), Error> {
        let is_path = crate::layer::normal(Path::new(path)).as_deref() == Some(path);
        if path.is_empty() || !is_path {
            return Err(Error(path.to_owned()));
        }
        let mut directory = path;
        while let Some((above, _)) = directory.rsplit_once('/') {
            self.entries.entry(above.to_owned()).or_insert(Entry {
                mode: DIRECTORY_MODE,
                content: EntryContent::Directory,
            });
            directory = above;
        }
        self.entries
            .insert(path.to_owned(), Entry { mode, content });
        Ok(())
    }

    /// Puts a directory there, with this mode.
    ///
    /// # Errors
    /// As of [`Self::put`].
    pub fn put_directory(&mut self, path: &str, mode: u32) -> Result<(), Error> {
        self.put(path, mode, EntryContent::Directory)
    }

    /// Makes the layer, packed by gzip. All files have this time.
    ///
    /// # Errors
    /// A file cannot be read, or the disk is full.
    pub fn layer(&self, time: Timestamp) -> io::Result<NewLayer> {
        self.layer_packed(time, Packing::default())
    }

    /// Makes the layer, packed by gzip as it says.
    ///
    /// # Errors
    /// As of [`Self::layer`].
    pub fn layer_packed(&self, time: Timestamp, packing: Packing) -> io::Result<NewLayer> {
        let mtime = u64::try_from(time.as_second()).unwrap_or_default();
        let gzip = GzBuilder::new()
            .mtime(0)
            .operating_system(UNKNOWN_SYSTEM)
            .write(Writer::new()?, packing.compression());
        let mut archive = Builder::new(Hashing::new(gzip));
        for (path, entry) in &self.entries {
            entry.append(&mut archive, path, mtime)?;
        }
        let hashing = archive.into_inner()?;
        let diff_id = hashing.digest();
        let blob = hashing.inner.finish()?.finish();
        Ok(NewLayer { blob, diff_id })
    }
}

impl Entry {
    fn append<W: Write>(&self, archive: &mut Builder<W>, path: &str, mtime: u64) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_mode(self.mode);
        header.set_mtime(mtime);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        match &self.content {
            EntryContent::Directory => {
                header.set_entry_type(EntryType::Directory);
                archive.append_data(&mut header, format!("{path}/"), io::empty())
            }
            EntryContent::Bytes(bytes) => {
                header.set_size(bytes.len() as u64);
                archive.append_data(&mut header, path, bytes.as_slice())
            }
            EntryContent::File(file) => {
                let file = File::open(file).map_err(|error| {
                    io::Error::new(error.kind(), format!("{}: {error}", file.display()))
                })?;
                let size = file.metadata()?.len();
                header.set_size(size);
                archive.append_data(&mut header, path, file.take(size))
            }
            EntryContent::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                archive.append_link(&mut header, path, target)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let mut tree = Tree::new();
        let long = format!("usr/share/{}/{}", "a".repeat(90), "b".repeat(90));
        for (path, mode, content) in [
            (
                "usr/bin/mcd",
                0o755,
                EntryContent::Bytes(b"program".to_vec()),
            ),
            ("bin", 0o777, EntryContent::Link("usr/bin".to_owned())),
            ("etc/passwd", 0o644, EntryContent::Bytes(Vec::new())),
            ("release-manifests", 0o777, EntryContent::Directory),
            (&long, 0o444, EntryContent::Bytes(b"x".to_vec())),
        ] {
            tree.put(path, mode, content).unwrap();
        }
        tree
    }

    #[test]
    fn layer_does_not_depend_on_the_order_of_putting() {
        let time = Timestamp::from_second(1_000_000_000).unwrap();
        let one = tree().layer(time).unwrap();
        let mut other = Tree::new();
        for (path, entry) in tree().entries.into_iter().rev() {
            other.put(&path, entry.mode, entry.content).unwrap();
        }
        let other = other.layer(time).unwrap();
        assert_eq!(one.blob.digest(), other.blob.digest());
        assert_eq!(one.diff_id, other.diff_id);
        let later = tree().layer(Timestamp::from_second(1_000_000_001).unwrap());
        assert_ne!(later.unwrap().diff_id, one.diff_id);
    }

    #[test]
    fn packing_changes_the_blob_and_not_the_files() {
        let mut tree = Tree::new();
        let text = "a line that comes again\n".repeat(1000);
        tree.put("a", 0o644, EntryContent::Bytes(text.into_bytes()))
            .unwrap();
        let small = tree.layer(Timestamp::UNIX_EPOCH).unwrap();
        let fast = tree.layer_packed(Timestamp::UNIX_EPOCH, Packing::Fast);
        let fast = fast.unwrap();
        assert_eq!(small.diff_id, fast.diff_id);
        assert!(small.blob.size() < fast.blob.size());
    }

    #[test]
    fn entries_have_one_owner_and_time_and_follow_their_directories() {
        let time = Timestamp::from_second(1_000_000_000).unwrap();
        let layer = tree().layer(time).unwrap();
        let gzip = flate2::read::GzDecoder::new(layer.blob.reader());
        let mut archive = tar::Archive::new(gzip);
        let mut lines = Vec::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            assert_eq!(header.mtime().unwrap(), 1_000_000_000);
            let path = entry.path().unwrap().display().to_string();
            lines.push(format!(
                "{:o} {}",
                header.mode().unwrap(),
                path.replace("aaaaa", "a").replace("bbbbb", "b")
            ));
        }
        let (a, b) = ("a".repeat(18), "b".repeat(18));
        let expected = [
            "777 bin".to_owned(),
            "755 etc/".to_owned(),
            "644 etc/passwd".to_owned(),
            "777 release-manifests/".to_owned(),
            "755 usr/".to_owned(),
            "755 usr/bin/".to_owned(),
            "755 usr/bin/mcd".to_owned(),
            "755 usr/share/".to_owned(),
            format!("755 usr/share/{a}/"),
            format!("444 usr/share/{a}/{b}"),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn other_paths_are_refused() {
        for path in ["", "/etc", "etc/", "a/../b", "./a", "..", "a//b"] {
            let error = Tree::new().put_directory(path, 0o755).unwrap_err();
            assert_eq!(error.to_string(), format!("{path:?} is no path in a layer"));
        }
    }

    #[test]
    fn missing_file_is_named() {
        let mut tree = Tree::new();
        tree.put("a", 0o644, EntryContent::File("/nowhere/x".into()))
            .unwrap();
        let error = tree.layer(Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(error.to_string().starts_with("/nowhere/x: "), "{error}");
    }
}
