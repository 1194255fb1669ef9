//! The older form of an image: a repository at `/srv/repo` in its layers.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use ostree_ext::gio::{self, Cancellable};
use ostree_ext::oci_spec::image::Descriptor;
use ostree_ext::ostree;
use ostree_ext::prelude::*;
use tar::{Archive, EntryType};
use tokio_util::io::SyncIoBridge;

use super::image::{Fetched, Opened, close};
use super::refs::fetch_error;
use super::{Error, ErrorContext as _, Result, layer, room};

/// Where the repository is in the image.
const REPOSITORY: &str = "srv/repo";

/// The label that names the commit; without it the repository has a single ref.
const COMMIT: &str = "com.coreos.ostree-commit";

/// Unpacks the repository of an image and pulls its commit from there. `scratch` is empty before
/// and after, also on an error.
pub(super) async fn pull(
    repo: &ostree::Repo,
    image: &str,
    opened: Opened,
    scratch: &Path,
) -> Result<Fetched> {
    let fetched = unpack_and_pull(repo, image, opened, scratch).await;
    let emptied = empty(scratch);
    let fetched = fetched?;
    emptied?;
    Ok(fetched)
}

async fn unpack_and_pull(
    repo: &ostree::Repo,
    image: &str,
    opened: Opened,
    scratch: &Path,
) -> Result<Fetched> {
    // Space for the unpacked files, and for the host's repository: the archive in the layers is
    // compressed, the host's repository is not.
    let bytes: u64 = opened.manifest.layers().iter().map(Descriptor::size).sum();
    let needed = bytes.saturating_mul(1 + room::UNPACKED_FACTOR);
    let free = room::free(scratch)?;
    room::require(&format!("the image {image}"), "/var", needed, free)?;
    let unpacked = scratch.join("repo");
    let mut fetched_bytes = 0;
    for layer in opened.manifest.layers() {
        unpack(&opened, layer, &unpacked)
            .await
            .map_err(|error| fetch_error(image, error))?;
        fetched_bytes += layer.size();
    }
    let labelled = opened.labels.get(COMMIT).cloned();
    let digest = opened.digest.clone();
    close(opened, image).await?;
    let checksum = pull_local(repo, image, &unpacked, labelled)?;
    Ok(Fetched {
        image: image.to_owned(),
        checksum,
        digest: Some(digest),
        version: None,
        fetched_bytes,
    })
}

/// Makes an empty directory, removing leftovers of a killed run.
pub(super) fn empty(scratch: &Path) -> Result<()> {
    let failed = |source| Error::Io {
        path: scratch.display().to_string(),
        source,
    };
    match fs::remove_dir_all(scratch) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    fs::create_dir_all(scratch).map_err(failed)
}

async fn unpack(
    opened: &Opened,
    layer: &Descriptor,
    to: &Path,
) -> std::result::Result<(), layer::Cause> {
    let to = to.to_owned();
    layer::read(opened, layer, async |archive| {
        let archive = SyncIoBridge::new(archive);
        let unpacking = tokio::task::spawn_blocking(move || unpack_tar(archive, &to));
        Ok(unpacking.await??)
    })
    .await
}

/// Writes the files of the repository in a layer, and skips all others.
///
/// The archive is not trusted: only plain files and directories are written, below `to`.
fn unpack_tar(mut reader: impl Read, to: &Path) -> io::Result<()> {
    let mut archive = Archive::new(&mut reader);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let Some(inside) = inside(&path) else {
            continue;
        };
        let target = to.join(&inside);
        let kind = entry.header().entry_type();
        if kind == EntryType::Directory {
            fs::create_dir_all(&target)?;
            continue;
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        if matches!(kind, EntryType::Regular | EntryType::Continuous) {
            remove_file(&target)?;
            io::copy(&mut entry, &mut File::create_new(&target)?)?;
        } else if kind == EntryType::Link {
            // A layer holds equal files once.
            let source = entry.link_name()?;
            let source = source
                .as_deref()
                .and_then(self::inside)
                .map(|path| to.join(path));
            if let Some(source) = source {
                remove_file(&target)?;
                fs::hard_link(source, &target)?;
            }
        }
    }
    // The rest is read too: the layer's digest covers it.
    io::copy(&mut reader, &mut io::sink())?;
    Ok(())
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The path inside the repository; `None` for another path or one with `..`.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    clean.strip_prefix(REPOSITORY).ok().map(Path::to_owned)
}

fn pull_local(
    repo: &ostree::Repo,
    image: &str,
    unpacked: &Path,
    labelled: Option<String>,
) -> Result<String> {
    let refuse = |why: &str| Error::NotBootable {
        image: image.to_owned(),
        why: why.to_owned(),
    };
    if !unpacked.join("objects").is_dir() {
        return Err(refuse(
            "it is no native container image and has no repository at /srv/repo",
        ));
    }
    let source = ostree::Repo::new(&gio::File::for_path(unpacked));
    source
        .open(Cancellable::NONE)
        .during(|| format!("open the repository of {image}"))?;
    let checksum = match labelled {
        Some(checksum) => checksum,
        None => single_ref(&source, image)?,
    };
    let flags = ostree::RepoPullFlags::UNTRUSTED.bits();
    let options = BTreeMap::from([
        ("refs".to_owned(), vec![checksum.clone()].to_variant()),
        (
            "flags".to_owned(),
            i32::try_from(flags).unwrap_or(0).to_variant(),
        ),
    ]);
    let url = format!("file://{}", unpacked.display());
    repo.pull_with_options(&url, &options.to_variant(), None, Cancellable::NONE)
        .during(|| format!("take commit {checksum} from {image}"))?;
    Ok(checksum)
}

fn single_ref(source: &ostree::Repo, image: &str) -> Result<String> {
    let refs = source
        .list_refs(None, Cancellable::NONE)
        .during(|| format!("list the refs of {image}"))?;
    let mut commits: Vec<String> = refs.into_values().collect();
    commits.sort_unstable();
    commits.dedup();
    match commits.as_slice() {
        [one] => Ok(one.clone()),
        other => Err(Error::NotBootable {
            image: image.to_owned(),
            why: format!(
                "it names no commit, and its repository has {} refs",
                other.len()
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_repository_are_unpacked() {
        let mut builder = tar::Builder::new(Vec::new());
        let mut add = |path: &str, kind: EntryType, link: Option<&str>, bytes: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(u64::try_from(bytes.len()).unwrap());
            header.set_mode(0o644);
            if let Some(link) = link {
                header.set_link_name(link).unwrap();
            }
            let name = header.as_gnu_mut().unwrap();
            name.name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            builder.append(&header, bytes).unwrap();
        };
        add(
            "./srv/repo/objects/aa/1.filez",
            EntryType::Regular,
            None,
            b"one",
        );
        add(
            "srv/repo/objects/bb/2.filez",
            EntryType::Link,
            Some("srv/repo/objects/aa/1.filez"),
            b"",
        );
        add("srv/repo/../../out", EntryType::Regular, None, b"bad");
        add("srv/repo/link", EntryType::Symlink, Some("/etc"), b"");
        add("etc/passwd", EntryType::Regular, None, b"bad");
        let archive = builder.into_inner().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("repo");
        unpack_tar(archive.as_slice(), &to).unwrap();
        assert_eq!(fs::read(to.join("objects/bb/2.filez")).unwrap(), b"one");
        assert!(fs::symlink_metadata(to.join("link")).is_err());
        assert!(!to.join("etc").exists() && !dir.path().join("out").exists());
    }
}
