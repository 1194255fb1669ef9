//! Files of an image, written to a directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use tar::{Entry, EntryType};

use super::{Act, Image, Layer, Shadow, Stores, is_regular, normal};
use crate::error::Error;

/// Bits of a mode that are kept: a file of an image makes no program of another user here.
const MODE: u32 = 0o777;

/// What was written.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// How many files and links.
    pub count: usize,
    /// Paths that are neither files, directories nor links, and which are left out.
    pub left_out: Vec<String>,
}

/// Writes a file, or all that a directory of the image has, into a directory.
///
/// Shape: a file keeps its name; of a directory the content is written. Owners and times are those
/// of this program.
///
/// # Errors
/// [`Error::NoPath`] where the image has no such path, and [`Error`] of layers and files.
pub async fn unpack(
    stores: &Stores,
    image: &Image,
    source: &str,
    target: &Path,
) -> Result<Unpacked, Error> {
    let name = image.name().to_string();
    let source = normal(Path::new(source)).ok_or_else(|| Error::NoPath {
        image: name.clone(),
        path: source.to_owned(),
    })?;
    let mut work = Unpack {
        image: name,
        source,
        target,
        links: BTreeMap::new(),
        is_there: false,
        done: Unpacked::default(),
    };
    let mut shadow = Shadow::default();
    for descriptor in image.layers().iter().rev() {
        let layer = Layer::open(stores, image, descriptor).await?;
        let mut of_layer = BTreeMap::new();
        layer.each(|act, entry| {
            let is_directory = entry.header().entry_type().is_dir();
            match (&act, shadow.sees(&act, is_directory)) {
                (Act::Put(path), true) => work.take(path, entry, &layer, &mut of_layer),
                _ => Ok(()),
            }
        })?;
        work.links.append(&mut of_layer);
        if shadow.hides_all_in(&work.source) {
            break;
        }
        shadow.next_layer();
    }
    work.finish()
}

struct Unpack<'a> {
    image: String,
    /// Without slashes at its ends; empty for the whole image.
    source: String,
    target: &'a Path,
    /// Hard links: a path of the image, and the path whose file it is another name of.
    links: BTreeMap<String, String>,
    /// Whether the image has the path at all.
    is_there: bool,
    done: Unpacked,
}

impl Unpack<'_> {
    fn take(
        &mut self,
        path: &str,
        entry: &mut Entry<'_, Box<dyn Read>>,
        layer: &Layer,
        links: &mut BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let Some(target) = self.target_of(path) else {
            return Ok(());
        };
        self.is_there = true;
        let kind = entry.header().entry_type();
        let mode = entry
            .header()
            .mode()
            .map_err(|source| layer.unreadable(source))?
            & MODE;
        links.remove(path);
        if kind.is_dir() && path == self.source {
            // Its content is asked for, and the target is there.
            return Ok(());
        }
        if kind.is_dir() {
            let parent = self.parent_is_inside(&target, path)?;
            return parent
                .and_then(|()| directory(&target, mode))
                .map_err(|source| self.write(target, source));
        }
        if kind == EntryType::Link {
            let link = entry
                .link_name()
                .map_err(|source| layer.unreadable(source))?;
            let link = link.as_deref().and_then(normal);
            let link = link.ok_or_else(|| self.outside(path))?;
            links.insert(path.to_owned(), link);
            return Ok(());
        }
        let parent = self.parent_is_inside(&target, path)?;
        let written = parent.and_then(|()| {
            if is_regular(kind) {
                file(&target, mode, entry)
            } else if kind.is_symlink() {
                let link = entry.link_name()?;
                let link = link.ok_or_else(|| io::Error::other("a link to nothing"))?;
                remove(&target)?;
                symlink(link, &target)
            } else {
                self.done.left_out.push(path.to_owned());
                return Ok(());
            }?;
            self.done.count += 1;
            Ok(())
        });
        written.map_err(|source| self.write(target, source))
    }

    /// Where a path of the image is written; none where it is not asked for.
    fn target_of(&self, path: &str) -> Option<PathBuf> {
        if path == self.source {
            let name = path.rsplit('/').next()?;
            return Some(self.target.join(name));
        }
        let inside = match self.source.as_str() {
            "" => path,
            source => path.strip_prefix(source)?.strip_prefix('/')?,
        };
        Some(self.target.join(inside))
    }

    /// Makes the directory that a path is written into. A link that leads out of the target is not
    /// followed.
    fn parent_is_inside(&self, target: &Path, path: &str) -> Result<io::Result<()>, Error> {
        let parent = target.parent().unwrap_or(self.target);
        let inside = || {
            let root = self.target.canonicalize()?;
            // Each part before it is made: the one above may be a link of the image.
            let mut reached = root.clone();
            for part in parent.strip_prefix(self.target).unwrap_or(parent) {
                let next = reached.join(part);
                match fs::create_dir(&next) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                }
                reached = next.canonicalize()?;
                if !reached.starts_with(&root) {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        match inside() {
            Ok(true) => Ok(Ok(())),
            Ok(false) => Err(self.outside(path)),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Makes hard links, when what they are other names of is there.
    fn finish(mut self) -> Result<Unpacked, Error> {
        for (path, link) in std::mem::take(&mut self.links) {
            let ends = self.target_of(&path).zip(self.target_of(&link));
            let (target, source) = ends.ok_or_else(|| self.outside(&path))?;
            let made = self.parent_is_inside(&target, &path)?;
            let linked = made
                .and_then(|()| remove(&target))
                .and_then(|()| fs::hard_link(source, &target));
            linked.map_err(|source| self.write(target, source))?;
            self.done.count += 1;
        }
        if self.is_there {
            return Ok(self.done);
        }
        Err(Error::NoPath {
            image: self.image,
            path: format!("/{}", self.source),
        })
    }

    fn outside(&self, path: &str) -> Error {
        Error::Outside {
            image: self.image.clone(),
            path: path.to_owned(),
        }
    }

    fn write(&self, path: PathBuf, source: io::Error) -> Error {
        Error::File {
            image: self.image.clone(),
            what: "write",
            path,
            source,
        }
    }
}

fn directory(target: &Path, mode: u32) -> io::Result<()> {
    match fs::create_dir(target) {
        Ok(()) => {}
        // A lower layer's directory may be there, and what an upper one put in its place is not
        // one.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if !fs::symlink_metadata(target)?.is_dir() {
                return Err(error);
            }
        }
        Err(error) => return Err(error),
    }
    // Its owner can write into it, or nothing could be put there.
    fs::set_permissions(target, fs::Permissions::from_mode(mode | 0o700))
}

fn file(target: &Path, mode: u32, content: &mut impl Read) -> io::Result<()> {
    remove(target)?;
    let mut file = File::options().write(true).create_new(true).open(target)?;
    io::copy(content, &mut file)?;
    file.set_permissions(fs::Permissions::from_mode(mode))
}

/// Removes what is there: it is replaced, not written through.
fn remove(target: &Path) -> io::Result<()> {
    match fs::remove_file(target) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
