//! Files of an image, over its layers.
//!
//! - `shadow`: what upper layers hide of lower ones
//! - `unpack`: files written to a directory; `beneath`: names in it, without following links
//! - `picker`: some files of several images; `record`: what a layer has of them, and what an image

mod beneath;
mod picker;
mod record;
mod shadow;
mod unpack;

use std::io::Read as _;

use release::payload::Files;
use tar::EntryType;

pub use self::picker::{FilePicker, PickedFiles};
pub use self::record::PathPattern;
use self::shadow::Shadow;
pub use self::unpack::{Unpacked, unpack, unpack_within};
use crate::archive::ArchiveMember;
use crate::budget::{Budget, BudgetLimits};
use crate::error::Error;
use crate::image::Image;
use crate::layer::{Act, Layer, normal};
use crate::store::{Stores, blocking};

/// Which layers of an image count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layers {
    Last,
    /// The uppermost one that has files of the directory.
    Uppermost,
    /// All, each over those below it.
    All,
}

/// Reads the files that lie in a directory of an image; none where there is no directory.
/// Directorys in it are passed over.
///
/// Units: `max_bytes` is the limit of one file.
///
/// # Errors
/// [`Error`]: a layer cannot be read, or a file is too large or is not a regular one.
pub async fn directory(
    stores: &Stores,
    image: &Image,
    directory: &str,
    layers: Layers,
    max_bytes: u64,
) -> Result<Files, Error> {
    let work = Reading::new(image, directory, None, max_bytes, BudgetLimits::TO_MEMORY);
    work.read(stores, image, layers).await
}

/// Reads one of the files that lie in a directory of an image, within limits; none where it is not
/// there. Other files are passed over, whatever they are.
///
/// # Errors
/// As of [`directory`].
pub async fn file(
    stores: &Stores,
    image: &Image,
    (directory, name): (&str, &str),
    layers: Layers,
    max_bytes: u64,
    limits: BudgetLimits,
) -> Result<Option<Vec<u8>>, Error> {
    let work = Reading::new(image, directory, Some(name), max_bytes, limits);
    Ok(work.read(stores, image, layers).await?.remove(name))
}

/// The state of a reading. It goes from layer to layer, and from thread to thread.
struct Reading {
    image: String,
    directory: String,
    /// The only file that is wanted, if not all are.
    name: Option<String>,
    max_bytes: u64,
    shadow: Shadow,
    budget: Budget,
    files: Files,
}

impl Reading {
    fn new(
        image: &Image,
        directory: &str,
        name: Option<&str>,
        max_bytes: u64,
        limits: BudgetLimits,
    ) -> Self {
        Self {
            image: image.name().to_string(),
            directory: directory.to_owned(),
            name: name.map(str::to_owned),
            max_bytes,
            shadow: Shadow::new(directory),
            budget: Budget::new(limits),
            files: Files::new(),
        }
    }

    async fn read(
        mut self,
        stores: &Stores,
        image: &Image,
        layers: Layers,
    ) -> Result<Files, Error> {
        let _cancel = self.budget.cancel_on_drop();
        for descriptor in image.layers().iter().rev() {
            let layer = Layer::open(stores, image, descriptor, self.budget.limits()).await?;
            let is_found;
            (self, is_found) = blocking(move || {
                let is_found = self.take_layer(&layer)?;
                Ok((self, is_found))
            })
            .await?;
            let is_done = layers == Layers::Last || (layers == Layers::Uppermost && is_found);
            if is_done || self.shadow.hides_all_in(&self.directory) {
                break;
            }
            self.shadow.next_layer();
        }
        Ok(self.files)
    }

    /// Takes the files of a layer; whether it has any.
    fn take_layer(&mut self, layer: &Layer) -> Result<bool, Error> {
        let Self {
            image,
            directory,
            name: wanted,
            max_bytes,
            shadow,
            budget,
            files,
        } = self;
        let budget = &*budget;
        let mut found = Files::new();
        let mut is_found = false;
        layer.each(budget, |act, member| {
            let is_directory = member.kind().is_dir();
            let is_seen = shadow.takes(&act, is_directory, budget);
            let is_seen = is_seen.map_err(|excess| layer.unreadable(excess.into()))?;
            let (Act::Put(path), true) = (&act, is_seen && !is_directory) else {
                return Ok(());
            };
            let name = path
                .strip_prefix(directory.as_str())
                .and_then(|rest| rest.strip_prefix('/'));
            let Some(name) = name.filter(|name| !name.contains('/')) else {
                return Ok(());
            };
            is_found = true;
            if wanted.as_deref().is_some_and(|wanted| wanted != name) {
                return Ok(());
            }
            let bytes = content(image, path, member, *max_bytes, layer)?;
            let kept = budget.use_kept(bytes.len() as u64);
            kept.map_err(|excess| layer.unreadable(excess.into()))?;
            // Of two entries of one name in a layer the later one counts.
            found.insert(name.to_owned(), bytes);
            Ok(())
        })?;
        for (name, bytes) in found {
            files.entry(name).or_insert(bytes);
        }
        Ok(is_found)
    }
}

/// The bytes of a regular file.
fn content(
    image: &str,
    path: &str,
    member: &mut ArchiveMember<'_, '_>,
    max_bytes: u64,
    layer: &Layer,
) -> Result<Vec<u8>, Error> {
    let (image, file) = (image.to_owned(), path.to_owned());
    if !is_regular(member.kind()) {
        return Err(Error::NotRegular { image, file });
    }
    let mut bytes = Vec::new();
    let taken = member.take(max_bytes + 1).read_to_end(&mut bytes);
    taken.map_err(|source| layer.unreadable(source))?;
    if bytes.len() as u64 > max_bytes {
        return Err(Error::TooLarge {
            image,
            file,
            max_bytes,
        });
    }
    Ok(bytes)
}

const fn is_regular(kind: EntryType) -> bool {
    matches!(
        kind,
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse
    )
}

#[cfg(test)]
mod tests;
