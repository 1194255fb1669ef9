//! What is in a directory, by its bytes.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use anyhow::{Context as _, Result};

/// Everything below a directory, by its path there.
pub type Tree = BTreeMap<String, Item>;

/// One thing in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    mode: u32,
    owner: (u32, u32),
    content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Directory,
    Bytes(Vec<u8>),
    /// A file that is a name of an object in the repository: the same number, the same bytes.
    Object {
        number: u64,
        size: u64,
    },
    Link(String),
    Other(&'static str),
}

/// How files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// Their bytes.
    Whole,
    /// Only which object of the repository they are.
    Objects,
}

/// Reads what is below `dir`, but for the paths `skip`; empty if it is not there.
pub fn read(dir: &Path, files: Files, skip: &[&str]) -> Result<Tree> {
    let mut tree = Tree::new();
    collect(dir, "", files, skip, &mut tree)
        .with_context(|| format!("cannot read {}", dir.display()))?;
    Ok(tree)
}

/// Differences named one by one; more are only counted.
const SHOWN: usize = 8;

/// What differs, one sentence each: at most a few, and their number.
pub fn differences(what: &str, is: &Tree, wanted: &Tree) -> Vec<String> {
    let mut all = Vec::new();
    for (path, item) in wanted {
        match is.get(path) {
            None => all.push(format!("{what}{path} is gone")),
            Some(found) if found != item => {
                all.push(format!("{what}{path} is {found}, not {item}"));
            }
            Some(_) => {}
        }
    }
    let more = is.keys().filter(|path| !wanted.contains_key(*path));
    all.extend(more.map(|path| format!("{what}{path} is new")));
    if all.len() > SHOWN {
        let hidden = all.len() - SHOWN;
        all.truncate(SHOWN);
        all.push(format!("{hidden} more differences in {what}"));
    }
    all
}

fn collect(dir: &Path, below: &str, files: Files, skip: &[&str], tree: &mut Tree) -> Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let path = format!("{below}/{}", entry.file_name().to_string_lossy());
        if skip.contains(&path.as_str()) {
            continue;
        }
        // What vanishes meanwhile is a temporary file.
        let Some(item) = Item::read(&entry.path(), files)? else {
            continue;
        };
        let is_directory = item.content == Content::Directory;
        tree.insert(path.clone(), item);
        if is_directory {
            collect(&entry.path(), &path, files, skip, tree)?;
        }
    }
    Ok(())
}

impl Item {
    fn read(path: &Path, files: Files) -> Result<Option<Self>> {
        let stat = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            stat => stat?,
        };
        let kind = stat.file_type();
        let content = if kind.is_dir() {
            Content::Directory
        } else if kind.is_symlink() {
            Content::Link(fs::read_link(path)?.to_string_lossy().into_owned())
        } else if kind.is_file() && files == Files::Objects {
            // libostree makes a new file for each one without bytes.
            let number = if stat.size() == 0 { 0 } else { stat.ino() };
            Content::Object {
                number,
                size: stat.size(),
            }
        } else if kind.is_file() {
            Content::Bytes(fs::read(path)?)
        } else if kind.is_socket() {
            Content::Other("a socket")
        } else {
            Content::Other("a device or pipe")
        };
        Ok(Some(Self {
            mode: stat.mode(),
            owner: (stat.uid(), stat.gid()),
            content,
        }))
    }
}

impl std::fmt::Display for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (user, group) = self.owner;
        write!(f, "{:o} {user}:{group} ", self.mode)?;
        match &self.content {
            Content::Directory => f.write_str("directory"),
            Content::Bytes(bytes) => {
                let start = bytes.get(..40).unwrap_or(bytes);
                write!(
                    f,
                    "{} bytes {:?}",
                    bytes.len(),
                    String::from_utf8_lossy(start)
                )
            }
            Content::Object { number, size } => write!(f, "object {number} of {size} bytes"),
            Content::Link(target) => write!(f, "link to {target}"),
            Content::Other(kind) => f.write_str(kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
    fn bytes_modes_and_links_count() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        fs::create_dir(at("d")).unwrap();
        fs::write(at("d/file"), "one").unwrap();
        fs::write(at("skipped"), "one").unwrap();
        symlink("file", at("d/link")).unwrap();
        let look = || read(dir.path(), Files::Whole, &["/skipped"]).unwrap();
        let before = look();
        assert_eq!(
            before.keys().collect::<Vec<_>>(),
            ["/d", "/d/file", "/d/link"]
        );
        assert_eq!(differences("", &look(), &before), [""; 0]);

        fs::write(at("d/file"), "two").unwrap();
        assert_eq!(differences("", &look(), &before).len(), 1);
        fs::write(at("d/file"), "one").unwrap();
        fs::set_permissions(at("d"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::remove_file(at("d/link")).unwrap();
        fs::write(at("new"), "").unwrap();
        assert_eq!(differences("", &look(), &before).len(), 3);
    }
}
