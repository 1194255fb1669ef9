//! Files of an image, over its layers.
//!
//! - `shadow`: what upper layers hide of lower ones
//! - `unpack`: files written to a directory

mod shadow;
mod unpack;

use std::io::Read as _;

use oci_spec::image::Descriptor;
use release::payload::Files;
use tar::EntryType;

use self::shadow::Shadow;
pub use self::unpack::{Unpacked, unpack};
use crate::error::Error;
use crate::image::Image;
use crate::layer::{Act, Layer, normal};
use crate::store::Stores;

/// Which layers of an image count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layers {
    /// The last one only.
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
    let mut files = Files::new();
    let mut shadow = Shadow::default();
    for layer in image.layers().iter().rev() {
        let found = files_of_layer(stores, image, layer, directory, max_bytes, &mut shadow).await?;
        let is_done = layers == Layers::Last || (layers == Layers::Uppermost && !found.is_empty());
        for (name, bytes) in found {
            files.entry(name).or_insert(bytes);
        }
        if is_done || shadow.hides_all_in(directory) {
            break;
        }
        shadow.next_layer();
    }
    Ok(files)
}

async fn files_of_layer(
    stores: &Stores,
    image: &Image,
    descriptor: &Descriptor,
    directory: &str,
    max_bytes: u64,
    shadow: &mut Shadow,
) -> Result<Files, Error> {
    let mut files = Files::new();
    let layer = Layer::open(stores, image, descriptor).await?;
    layer.each(|act, entry| {
        let is_directory = entry.header().entry_type().is_dir();
        let (Act::Put(path), true) = (&act, shadow.sees(&act, is_directory)) else {
            return Ok(());
        };
        let name = path
            .strip_prefix(directory)
            .and_then(|rest| rest.strip_prefix('/'));
        let Some(name) = name.filter(|name| !name.contains('/') && !is_directory) else {
            return Ok(());
        };
        let file = || (image.name().to_string(), path.clone());
        if !is_regular(entry.header().entry_type()) {
            let (image, file) = file();
            return Err(Error::NotRegular { image, file });
        }
        let mut bytes = Vec::new();
        let taken = entry.take(max_bytes + 1).read_to_end(&mut bytes);
        taken.map_err(|source| layer.unreadable(source))?;
        if bytes.len() as u64 > max_bytes {
            let (image, file) = file();
            return Err(Error::TooLarge {
                image,
                file,
                max_bytes,
            });
        }
        // Of two entries of one name in a layer the later one counts.
        files.insert(name.to_owned(), bytes);
        Ok(())
    })?;
    Ok(files)
}

const fn is_regular(kind: EntryType) -> bool {
    matches!(
        kind,
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse
    )
}

#[cfg(test)]
mod tests;
