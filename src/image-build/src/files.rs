//! Files of a configuration that belong to the image, and the archive that brings them there.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::Path;

use flate2::{Compression, GzBuilder};
use ignition::{File, NodeOwner, content};
use node_update::paths::in_image;
use tar::{Builder, EntryType, Header};

use crate::refusal::BuildRefusal;

/// Mode of a file that names none. Source: `docs/reference/daemon.md`, "Files".
const FILE_MODE: u32 = 0o644;

/// Mode of the directories that lead to files.
const DIRECTORY_MODE: u32 = 0o755;

/// Directory of the build context with the files of root.
const ROOT_FILES: &str = "files";

/// A file of the image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageFile {
    /// Where it is: below `/usr`.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// `<user>:<group>`, by name or number; absent: root.
    pub owner: Option<String>,
    pub bytes: Vec<u8>,
}

/// Files of one owner, in a directory of their own in the build context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileGroup<'a> {
    /// Name of the directory: `files`, or `files-<number>`.
    pub directory: String,
    /// As of [`ImageFile`].
    pub owner: Option<String>,
    pub files: Vec<&'a ImageFile>,
}

/// Takes the files out of a configuration that belong to the image, by path.
///
/// # Errors
/// Content that is not in the configuration itself, or a file that has two names.
pub fn of_config(object: &str, files: &[File]) -> Result<Vec<ImageFile>, BuildRefusal> {
    let mut found: BTreeMap<String, ImageFile> = BTreeMap::new();
    for (file, place) in files.iter().zip(0_usize..) {
        let Some(path) = in_image(&file.path) else {
            continue;
        };
        let field = |member: &str| format!("spec.config.storage.files[{place}].{member}");
        if !file.append.is_empty() {
            let why = format!("{}: a file of the OS image is not appended to", file.path);
            return Err(BuildRefusal::new(&object, &field("append"), why));
        }
        let bytes = content::decode(&file.contents).map_err(|error| {
            let why = format!("{}: {error}", file.path);
            BuildRefusal::new(&object, &field("contents"), why)
        })?;
        let image_file = ImageFile {
            mode: file.mode.unwrap_or(FILE_MODE),
            owner: owner(&file.user, &file.group),
            path: path.clone(),
            bytes,
        };
        if found.insert(path.clone(), image_file).is_some() {
            let why = format!(
                "{}: another file of this configuration is {path}",
                file.path
            );
            return Err(BuildRefusal::new(&object, &field("path"), why));
        }
    }
    for path in found.keys() {
        let mut above = path.as_str();
        while let Some((directory, _)) = above.rsplit_once('/') {
            if found.contains_key(directory) {
                let why = format!("{path} is below {directory}, which is a file");
                return Err(BuildRefusal::new(&object, "spec.config.storage.files", why));
            }
            above = directory;
        }
    }
    Ok(found.into_values().collect())
}

fn owner(user: &NodeOwner, group: &NodeOwner) -> Option<String> {
    let text = |owner: &NodeOwner| {
        let name = owner.name.clone().filter(|name| !name.is_empty());
        let id = owner.id.filter(|id| *id != 0).map(|id| id.to_string());
        id.or_else(|| name.filter(|name| name != "root"))
    };
    match (text(user), text(group)) {
        (None, None) => None,
        (user, group) => {
            let root = || "0".to_owned();
            let (user, group) = (user.unwrap_or_else(root), group.unwrap_or_else(root));
            Some(format!("{user}:{group}"))
        }
    }
}

/// Sorts files by owner, root's first. A group is one line of the Containerfile.
pub fn by_owner(files: &[ImageFile]) -> Vec<FileGroup<'_>> {
    let mut groups: BTreeMap<Option<&str>, Vec<&ImageFile>> = BTreeMap::new();
    for file in files {
        groups.entry(file.owner.as_deref()).or_default().push(file);
    }
    let groups = groups.into_iter().zip(0_usize..);
    let groups = groups.map(|((owner, files), number)| FileGroup {
        directory: match owner {
            None => ROOT_FILES.to_owned(),
            Some(_) => format!("{ROOT_FILES}-{number}"),
        },
        owner: owner.map(ToOwned::to_owned),
        files,
    });
    groups.collect()
}

/// The archive of the build context: `files/usr/…`, compressed. The same files make the same bytes.
///
/// # Errors
/// A path that no archive can hold.
pub fn archive(groups: &[FileGroup<'_>]) -> io::Result<Vec<u8>> {
    let gzip = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::best());
    let mut archive = Builder::new(gzip);
    for group in groups {
        let mut directories = BTreeSet::new();
        for file in &group.files {
            let path = format!("{}{}", group.directory, file.path);
            let above = path.match_indices('/').map(|(at, _)| path.split_at(at).0);
            for directory in above {
                if directories.insert(directory.to_owned()) {
                    let header = header(EntryType::Directory, DIRECTORY_MODE, 0);
                    append(&mut archive, header, &format!("{directory}/"), &[])?;
                }
            }
            let header = header(EntryType::Regular, file.mode, file.bytes.len() as u64);
            append(&mut archive, header, &path, &file.bytes)?;
        }
    }
    let mut gzip = archive.into_inner()?;
    gzip.flush()?;
    gzip.finish()
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn append<W: io::Write>(
    archive: &mut Builder<W>,
    mut header: Header,
    path: &str,
    bytes: &[u8],
) -> io::Result<()> {
    archive.append_data(&mut header, Path::new(path), bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use serde_json::{Value, json};

    use super::*;

    fn parsed(files: &Value) -> Vec<File> {
        serde_json::from_value(files.clone()).unwrap()
    }

    fn read(files: &Value) -> Result<Vec<ImageFile>, String> {
        of_config("MachineConfig rendered-worker-1", &parsed(files))
            .map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn files_below_usr_are_taken_with_mode_and_owner() {
        let files = read(&json!([
            { "path": "/etc/x", "contents": { "source": "https://example/x" } },
            { "path": "/usr/local/x", "contents": { "source": "data:,a" } },
            { "path": "/usr/lib/b", "contents": { "source": "data:,b" }, "mode": 493 },
            { "path": "/bin/a", "contents": { "source": "data:;base64,YQ==" },
              "user": { "id": 0 }, "group": { "name": "root" } },
            { "path": "/usr/lib/c", "user": { "name": "mail" } },
            { "path": "/usr/lib/d", "group": { "id": 7 }, "user": { "id": 6 } },
        ]))
        .unwrap();
        let file = |path: &str, mode, owner: Option<&str>, bytes: &[u8]| ImageFile {
            path: path.to_owned(),
            mode,
            owner: owner.map(ToOwned::to_owned),
            bytes: bytes.to_owned(),
        };
        assert_eq!(
            files,
            [
                file("/usr/bin/a", 0o644, None, b"a"),
                file("/usr/lib/b", 0o755, None, b"b"),
                file("/usr/lib/c", 0o644, Some("mail:0"), b""),
                file("/usr/lib/d", 0o644, Some("6:7"), b""),
            ]
        );
        let groups = by_owner(&files);
        let names: Vec<(&str, usize)> = groups
            .iter()
            .map(|group| (group.directory.as_str(), group.files.len()))
            .collect();
        assert_eq!(names, [("files", 2), ("files-1", 1), ("files-2", 1)]);
    }

    #[test]
    fn a_file_that_cannot_be_built_in_is_named() {
        let at = "MachineConfig rendered-worker-1: spec.config.storage.files";
        for (files, why) in [
            (
                json!([{ "path": "/etc/a" }, { "path": "/usr/a", "contents": { "source": "https://x/y" } }]),
                "[1].contents: /usr/a: source must be a data: URL, is https:",
            ),
            (
                json!([{ "path": "/usr/a", "append": [{ "source": "data:,x" }] }]),
                "[0].append: /usr/a: a file of the OS image is not appended to",
            ),
            (
                json!([{ "path": "/usr/bin/a" }, { "path": "/bin/a" }]),
                "[1].path: /bin/a: another file of this configuration is /usr/bin/a",
            ),
            (
                json!([{ "path": "/usr/a" }, { "path": "/usr/a/b" }]),
                ": /usr/a/b is below /usr/a, which is a file",
            ),
        ] {
            assert_eq!(read(&files), Err(format!("{at}{why}")));
        }
    }

    #[test]
    fn the_archive_has_directories_and_modes_and_is_always_the_same() {
        let long = format!("/usr/lib/{}/{}", "d".repeat(90), "f".repeat(150));
        let files = read(&json!([
            { "path": "/usr/lib/b", "contents": { "source": "data:,b" }, "mode": 0o4755 },
            { "path": long, "contents": { "source": "data:,long" } },
        ]))
        .unwrap();
        let groups = by_owner(&files);
        let bytes = archive(&groups).unwrap();
        assert_eq!(bytes, archive(&groups).unwrap());
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let mut found = Vec::new();
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mode = entry.header().mode().unwrap();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            found.push((path, mode, content));
        }
        let entry = |path: &str, mode, content: &str| (path.to_owned(), mode, content.to_owned());
        assert_eq!(
            found,
            [
                entry("files/", 0o755, ""),
                entry("files/usr/", 0o755, ""),
                entry("files/usr/lib/", 0o755, ""),
                entry("files/usr/lib/b", 0o4755, "b"),
                entry(&format!("files/usr/lib/{}/", "d".repeat(90)), 0o755, ""),
                entry(&format!("files{long}"), 0o644, "long"),
            ]
        );
    }
}
