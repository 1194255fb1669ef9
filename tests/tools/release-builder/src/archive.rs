//! Archives of a folder, as `.tar.gz`: the same files give the same bytes.

use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};

use crate::files;

/// Permission bits of each file.
const MODE: u32 = 0o644;

/// Writes an archive of the files below `folder`, in order of their paths. Its one top folder has
/// the name of `folder`, as `helm package` and source archives have it.
///
/// Shape: `tar` in the ustar form, files only, mode 0644, owner and group 0; `gzip` without time
/// and name.
/// Units: `mtime` is in seconds since 1970, that of the commit.
///
/// # Errors
/// A file cannot be read, the archive cannot be written, or a path is longer than the form has.
pub fn pack(folder: &Path, mtime: u64, archive: &Path) -> Result<()> {
    let mut tar = tar::Builder::new(Vec::new());
    let parent = folder.parent().context("the folder has no name")?;
    for path in files::below(folder)? {
        let content = files::read(&path)?;
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(content.len().try_into()?);
        header.set_mode(MODE);
        header.set_mtime(mtime);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(&mut header, path.strip_prefix(parent)?, &*content)?;
    }
    files::write(archive, gzip(&tar.into_inner()?)?)
}

/// Compresses as `gzip -9n`: without name and time.
pub(crate) fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;

    use super::*;

    #[test]
    fn an_archive_depends_on_names_and_contents_only() {
        let pack_of = |names: &[&str]| {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join("slipway-0.2.0");
            fs::create_dir_all(folder.join("b")).unwrap();
            for name in names {
                fs::write(folder.join(name), name).unwrap();
            }
            let archive = root.path().join("archive.tar.gz");
            pack(&folder, 1_700_000_000, &archive).unwrap();
            fs::read(archive).unwrap()
        };
        let bytes = pack_of(&["b/c", "a"]);
        assert_eq!(bytes, pack_of(&["a", "b/c"]));

        let mut text = Vec::new();
        let mut gzip = flate2::read::GzDecoder::new(&*bytes);
        gzip.read_to_end(&mut text).unwrap();
        let mut tar = tar::Archive::new(&*text);
        let mut entries = Vec::new();
        for entry in tar.entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!(header.mtime().unwrap(), 1_700_000_000);
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            entries.push(entry.path().unwrap().to_str().unwrap().to_owned());
        }
        assert_eq!(entries, ["slipway-0.2.0/a", "slipway-0.2.0/b/c"]);
    }
}
