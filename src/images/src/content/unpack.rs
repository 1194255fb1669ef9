//! Files of an image, written to a directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use tar::EntryType;

use super::beneath::hard_link;
use super::{
    Act, ArchiveMember, Budget, BudgetLimits, Image, Layer, Shadow, Stores, is_regular, normal,
};
use crate::error::Error;
use crate::store::blocking;

/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Bits of a mode that are kept: a file of an image makes no program of another user here.
const MODE: u32 = 0o777;

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
    unpack_within(stores, image, source, target, BudgetLimits::TO_DISK).await
}

/// The same, within limits.
///
/// # Errors
/// As of [`unpack`].
pub async fn unpack_within(
    stores: &Stores,
    image: &Image,
    source: &str,
    target: &Path,
    limits: BudgetLimits,
) -> Result<Unpacked, Error> {
    let name = image.name().to_string();
    let source = normal(Path::new(source)).ok_or_else(|| Error::NoPath {
        image: name.clone(),
        path: source.to_owned(),
    })?;
    let mut work = Work {
        shadow: Shadow::new(&source),
        budget: Budget::new(limits),
        files: Target {
            image: name,
            source,
            directory: target.to_owned(),
            links: BTreeMap::new(),
            is_there: false,
            done: Unpacked::default(),
        },
    };
    let _cancel = work.budget.cancel_on_drop();
    for descriptor in image.layers().iter().rev() {
        let layer = Layer::open(stores, image, descriptor, &limits).await?;
        work = blocking(move || {
            work.take_layer(&layer)?;
            Ok(work)
        })
        .await?;
        if work.shadow.hides_all_in(&work.files.source) {
            break;
        }
        work.shadow.next_layer();
    }
    blocking(move || work.files.finish(&work.budget)).await
}

/// The state of the work. It goes from layer to layer, and from thread to thread.
struct Work {
    shadow: Shadow,
    budget: Budget,
    files: Target,
}

/// The directory that is written to.
struct Target {
    image: String,
    /// Without slashes at its ends; empty for the whole image.
    source: String,
    directory: PathBuf,
    /// Hard links: a path of the image, and the path whose file it is another name of.
    links: BTreeMap<String, String>,
    /// Whether the image has the path at all.
    is_there: bool,
    done: Unpacked,
}

/// Why a file was not copied.
enum ArchiveFault {
    Read(io::Error),
    Write(io::Error),
}

impl Work {
    fn take_layer(&mut self, layer: &Layer) -> Result<(), Error> {
        let Self {
            shadow,
            budget,
            files,
        } = self;
        let budget = &*budget;
        let mut of_layer = BTreeMap::new();
        layer.each(budget, |act, member| {
            let is_shown = shadow.takes(&act, member.kind().is_dir(), budget);
            let is_shown = is_shown.map_err(|excess| layer.unreadable(excess.into()))?;
            match (&act, is_shown) {
                (Act::Put(path), true) => files.take(path, member, layer, budget, &mut of_layer),
                _ => Ok(()),
            }
        })?;
        files.links.append(&mut of_layer);
        Ok(())
    }
}

impl Target {
    fn take(
        &mut self,
        path: &str,
        member: &mut ArchiveMember<'_, '_>,
        layer: &Layer,
        budget: &Budget,
        links: &mut BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let Some(target) = self.target_of(path) else {
            return Ok(());
        };
        self.is_there = true;
        let unreadable = |source| layer.unreadable(source);
        let kind = member.kind();
        let mode = member.mode().map_err(unreadable)? & MODE;
        links.remove(path);
        if kind.is_dir() && path == self.source {
            // Its content is requested, and the target is there.
            return Ok(());
        }
        if kind == EntryType::Link {
            let link = member.link().map_err(unreadable)?;
            let link = link.as_deref().and_then(normal);
            let link = link.ok_or_else(|| self.outside(path))?;
            let cost = budget.use_path(&link);
            cost.map_err(|excess| unreadable(excess.into()))?;
            links.insert(path.to_owned(), link);
            return Ok(());
        }
        self.make_parent(&target, path)?;
        let written = if kind.is_dir() {
            return directory(&target, mode).map_err(|source| self.write(target, source));
        } else if is_regular(kind) {
            file(&target, mode, member, budget)
        } else if kind.is_symlink() {
            let link = member.link().map_err(unreadable)?;
            let nothing = || unreadable(io::Error::other(format!("{path} is a link to nothing")));
            let link = link.ok_or_else(nothing)?;
            let linked = remove(&target).and_then(|()| symlink(link, &target));
            linked.map_err(ArchiveFault::Write)
        } else {
            self.done.left_out.push(path.to_owned());
            return Ok(());
        };
        self.done.count += 1;
        written.map_err(|fault| match fault {
            ArchiveFault::Read(source) => unreadable(source),
            ArchiveFault::Write(source) => self.write(target, source),
        })
    }

    /// Where a path of the image is written; none where it is not requested.
    fn target_of(&self, path: &str) -> Option<PathBuf> {
        if path == self.source {
            let name = path.rsplit('/').next()?;
            return Some(self.directory.join(name));
        }
        let inside = match self.source.as_str() {
            "" => path,
            source => path.strip_prefix(source)?.strip_prefix('/')?,
        };
        Some(self.directory.join(inside))
    }

    /// Makes the directory that a path is written into. A link that leads out of the target is not
    /// followed.
    fn make_parent(&self, target: &Path, path: &str) -> Result<(), Error> {
        let parent = target.parent().unwrap_or(&self.directory);
        let inside = || {
            let root = self.directory.canonicalize()?;
            // Each part before it is made: the one above may be a link of the image.
            let mut reached = root.clone();
            for part in parent.strip_prefix(&self.directory).unwrap_or(parent) {
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
            Ok(true) => Ok(()),
            Ok(false) => Err(self.outside(path)),
            Err(error) => Err(self.write(target.to_owned(), error)),
        }
    }

    /// Makes hard links, when what they are other names of is there. Both names are beneath the
    /// directory, and no link leads to them: the file that gets a name is one that was unpacked.
    fn finish(mut self, budget: &Budget) -> Result<Unpacked, Error> {
        for (path, link) in std::mem::take(&mut self.links) {
            budget.check().map_err(|excess| Error::Excess {
                image: self.image.clone(),
                excess,
            })?;
            let ends = self.target_of(&path).zip(self.target_of(&link));
            let (target, source) = ends.ok_or_else(|| self.outside(&path))?;
            self.make_parent(&target, &path)?;
            let relative = |path: &Path| {
                let path = path.strip_prefix(&self.directory).unwrap_or(path);
                path.to_owned()
            };
            let is_inside = hard_link(&self.directory, &relative(&source), &relative(&target));
            if !is_inside.map_err(|source| self.write(target, source))? {
                return Err(self.outside(&path));
            }
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

fn file(
    target: &Path,
    mode: u32,
    content: &mut impl Read,
    budget: &Budget,
) -> Result<(), ArchiveFault> {
    remove(target).map_err(ArchiveFault::Write)?;
    let file = File::options().write(true).create_new(true).open(target);
    let mut file = file.map_err(ArchiveFault::Write)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = match content.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(ArchiveFault::Read(error)),
        };
        let kept = budget.use_kept(count as u64);
        kept.map_err(|excess| ArchiveFault::Read(excess.into()))?;
        let written = file.write_all(chunk.get(..count).unwrap_or_default());
        written.map_err(ArchiveFault::Write)?;
    }
    let permissions = fs::Permissions::from_mode(mode);
    file.set_permissions(permissions)
        .map_err(ArchiveFault::Write)
}

/// Removes what is there: it is replaced, not written through.
fn remove(target: &Path) -> io::Result<()> {
    match fs::remove_file(target) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
