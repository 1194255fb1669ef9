//! Some files of several images, each layer read once.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use tar::EntryType;
use tempfile::TempDir;

use super::record::{LayerRecord, PathPattern, Patterns, Piece, links, merge, step};
use super::{ArchiveMember, Budget, BudgetLimits, Image, Layer, Stores, is_regular, normal};
use crate::error::Error;
use crate::store::blocking;

/// Hard links that follow each other, and readings of all layers for links that lead to lower ones.
/// The layers of an ostree image need one of either.
const LINKS: usize = 8;
const READINGS: usize = 3;

/// Reads some paths of images, over their layers, into files that it removes with itself.
///
/// A layer that several images share is fetched once. A hard link has the content of the file that
/// it is another name of, wherever that lies. A symbolic link is no file here.
#[derive(Debug)]
pub struct FilePicker<'a> {
    stores: &'a Stores,
    patterns: Patterns,
    limits: BudgetLimits,
    directory: TempDir,
    /// Number of the next file in the directory.
    next: u64,
    records: BTreeMap<String, LayerRecord>,
}

/// What an image has at the paths that were wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PickedFiles(BTreeMap<String, Option<PathBuf>>);

impl PickedFiles {
    /// All that is there, sorted.
    pub fn paths(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// Where the content of a path is; none where it is not there, or only its name was wanted.
    pub fn file(&self, path: &str) -> Option<&Path> {
        self.0.get(path)?.as_deref()
    }
}

impl<'a> FilePicker<'a> {
    /// Nothing is read yet.
    ///
    /// # Errors
    /// There is no place for the files.
    pub fn new(
        stores: &'a Stores,
        patterns: Vec<PathPattern>,
        limits: BudgetLimits,
    ) -> Result<Self, Error> {
        let directory = tempfile::tempdir().map_err(|source| Error::Make {
            what: "a directory for files of images".to_owned(),
            source,
        })?;
        Ok(Self {
            stores,
            patterns: Patterns::new(patterns),
            limits,
            directory,
            next: 0,
            records: BTreeMap::new(),
        })
    }

    /// Reads an image. The files stay as long as this does.
    ///
    /// # Errors
    /// [`Error`]: a layer cannot be read, a file is too large, or a hard link leads nowhere.
    pub async fn pick(&mut self, image: &Image) -> Result<PickedFiles, Error> {
        let digest = |descriptor: &oci_spec::image::Descriptor| descriptor.digest().to_string();
        for _ in 0..READINGS {
            let before = self.patterns.count();
            for descriptor in image.layers() {
                if !self.records.contains_key(&digest(descriptor)) {
                    let layer = Layer::open(self.stores, image, descriptor, &self.limits).await?;
                    let record = self.read(image, layer).await?;
                    self.records.insert(digest(descriptor), record);
                }
            }
            let layers = image.layers().iter();
            let records = layers.filter_map(|layer| self.records.get(&digest(layer)));
            let target = match merge(&records.collect::<Vec<_>>()) {
                Ok(files) => return Ok(PickedFiles(files)),
                Err(target) => target,
            };
            if self.patterns.count() == before {
                return Err(Error::NoPath {
                    image: image.name().to_string(),
                    path: target,
                });
            }
            // The target may be in a layer that was read before the link was found.
            self.records.clear();
        }
        Err(Error::Form {
            image: image.name().to_string(),
            form: "a chain of hard links over several layers".to_owned(),
        })
    }

    /// Reads a layer, again for the targets of the hard links that it has.
    async fn read(&mut self, image: &Image, layer: Layer) -> Result<LayerRecord, Error> {
        let mut layer = layer;
        let mut record = LayerRecord::new();
        for _ in 0..LINKS {
            let work = Reading {
                image: image.name().to_string(),
                patterns: self.patterns.clone(),
                directory: self.directory.path().to_owned(),
                next: self.next,
                budget: Budget::new(self.limits),
                record: LayerRecord::new(),
            };
            let _cancel = work.budget.cancel_on_drop();
            let done;
            (layer, done) = blocking(move || {
                let done = work.read(&layer)?;
                Ok((layer, done))
            })
            .await?;
            self.next = done.next;
            record = done.record;
            let mut is_new = false;
            for (link, target) in links(&record) {
                is_new |= self.patterns.add_target(link, target);
            }
            if !is_new {
                break;
            }
        }
        Ok(record)
    }
}

/// The reading of one layer, which goes to another thread.
struct Reading {
    image: String,
    patterns: Patterns,
    directory: PathBuf,
    next: u64,
    budget: Budget,
    record: LayerRecord,
}

impl Reading {
    fn read(mut self, layer: &Layer) -> Result<Self, Error> {
        let Self {
            image,
            patterns,
            directory,
            next,
            budget,
            record,
        } = &mut self;
        let budget = &*budget;
        layer.each(budget, |act, member| {
            let is_directory = member.kind().is_dir();
            let step = step(patterns, act, is_directory, |path, pattern| {
                let kind = member.kind();
                match pattern.max_bytes {
                    None if is_regular(kind) || kind == EntryType::Link => Ok(Piece::Name),
                    Some(_) if kind == EntryType::Link => {
                        let link = member.link().map_err(|source| layer.unreadable(source))?;
                        let link = link.as_deref().and_then(normal);
                        link.map(Piece::Link).ok_or_else(|| Error::Outside {
                            image: image.clone(),
                            path: path.to_owned(),
                        })
                    }
                    Some(max_bytes) if is_regular(kind) => {
                        *next += 1;
                        let file = directory.join(next.to_string());
                        copy(member, &file, max_bytes, budget, layer, (image, path))?;
                        Ok(Piece::File(file))
                    }
                    Some(_) | None => Ok(Piece::Other),
                }
            })?;
            if let Some(step) = step {
                let cost = budget.use_path(match &step {
                    super::record::Step::Put(path, _)
                    | super::record::Step::Hide(path)
                    | super::record::Step::HideContent(path) => path,
                });
                cost.map_err(|excess| layer.unreadable(excess.into()))?;
                record.push(step);
            }
            Ok(())
        })?;
        Ok(self)
    }
}

/// Copies a file of a layer, if it is not larger than it may be.
fn copy(
    member: &mut ArchiveMember<'_, '_>,
    file: &Path,
    max_bytes: u64,
    budget: &Budget,
    layer: &Layer,
    (image, path): (&str, &str),
) -> Result<(), Error> {
    let failed = |what| {
        move |source| Error::File {
            image: image.to_owned(),
            what,
            path: file.to_owned(),
            source,
        }
    };
    let mut target = File::create_new(file).map_err(failed("write"))?;
    let mut chunk = vec![0; 64 << 10];
    let mut bytes = 0_u64;
    loop {
        let count = member
            .read(&mut chunk)
            .map_err(|source| layer.unreadable(source))?;
        if count == 0 {
            return Ok(());
        }
        bytes += count as u64;
        if bytes > max_bytes {
            return Err(Error::TooLarge {
                image: image.to_owned(),
                file: path.to_owned(),
                max_bytes,
            });
        }
        let kept = budget.use_kept(count as u64);
        kept.map_err(|excess| layer.unreadable(excess.into()))?;
        let read = chunk.get(..count).unwrap_or_default();
        io::Write::write_all(&mut target, read).map_err(failed("write"))?;
    }
}

#[cfg(test)]
mod tests;
