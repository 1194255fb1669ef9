//! What a layer holds.

use std::io::{self, Read};
use std::path::{Component, Path};

use flate2::read::MultiGzDecoder;
use oci_spec::image::{Descriptor, MediaType};

use crate::archive::{self, ArchiveFault, ArchiveMember};
use crate::blob::Blob;
use crate::budget::{Budget, BudgetLimits, Excess};
use crate::error::Error;
use crate::image::Image;
use crate::store::Stores;

/// Begins the name of a file that hides one of the layers below.
const WHITEOUT: &str = ".wh.";

/// Name of a file that hides all that the layers below have in its directory.
const OPAQUE: &str = ".wh..wh..opq";

/// Docker's names of the two forms of layers.
const DOCKER: &str = "application/vnd.docker.image.rootfs.diff.tar";
const DOCKER_GZIP: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

/// A layer on this machine's disk.
#[derive(Debug)]
pub struct Layer {
    image: String,
    blob: Blob,
    is_gzip: bool,
}

/// What an entry of a layer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// It puts this path there.
    Put(String),
    /// It hides this path of the layers below.
    Hide(String),
    /// It hides what the layers below have in this directory.
    HideContent(String),
}

impl Layer {
    /// Reads a layer of an image.
    ///
    /// # Errors
    /// It is not there, it is damaged, too large, or its form is not supported.
    pub async fn open(
        stores: &Stores,
        image: &Image,
        descriptor: &Descriptor,
        limits: &BudgetLimits,
    ) -> Result<Self, Error> {
        if descriptor.size() > limits.layer_bytes {
            return Err(Error::Excess {
                image: image.name().to_string(),
                excess: Excess::Layer(limits.layer_bytes),
            });
        }
        let form = descriptor.media_type().to_string();
        let is = |media_type: MediaType| media_type.as_ref() == form;
        let is_gzip = form == DOCKER_GZIP
            || is(MediaType::ImageLayerGzip)
            || is(MediaType::ImageLayerNonDistributableGzip);
        let is_plain = form == DOCKER
            || is(MediaType::ImageLayer)
            || is(MediaType::ImageLayerNonDistributable);
        if !is_gzip && !is_plain {
            return Err(Error::Form {
                image: image.name().to_string(),
                form: format!("layer {} of type {form}", descriptor.digest()),
            });
        }
        Ok(Self {
            image: image.name().to_string(),
            blob: stores.blob(image.location(), descriptor).await?,
            is_gzip,
        })
    }

    /// Goes through its entries, within a budget.
    ///
    /// # Errors
    /// It is no archive, exceeds the budget, or `take` fails.
    pub(crate) fn each(
        &self,
        budget: &Budget,
        mut take: impl FnMut(Act, &mut ArchiveMember<'_, '_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let file = io::BufReader::new(self.blob.reader());
        let mut reader: Box<dyn Read> = if self.is_gzip {
            Box::new(MultiGzDecoder::new(file))
        } else {
            Box::new(file)
        };
        let done = archive::each(reader.as_mut(), budget, |path, member| {
            let Some(path) = normal(path) else {
                return Err(self.unreadable(io::Error::other(format!(
                    "entry {:?} is no path in an image",
                    path.display()
                ))));
            };
            if path.is_empty() {
                return Ok(());
            }
            take(act(path), member)
        });
        done.map_err(|fault| match fault {
            ArchiveFault::Read(source) => self.unreadable(source),
            ArchiveFault::Take(error) => error,
        })
    }

    /// That this layer cannot be read: its content exceeds a limit or is no archive, or the disk
    /// failed.
    pub(crate) fn unreadable(&self, source: io::Error) -> Error {
        let (image, layer) = (self.image.clone(), self.blob.digest().to_string());
        if let Some(excess) = Excess::of(&source) {
            return Error::Excess { image, excess };
        }
        if source.raw_os_error().is_some() {
            return Error::Layer {
                image,
                layer,
                source,
            };
        }
        Error::Archive {
            image,
            layer,
            source,
        }
    }
}

impl Act {
    /// The path that it is about.
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Put(path) | Self::Hide(path) | Self::HideContent(path) => path,
        }
    }
}

/// A path without `.`, and without a slash at its beginning and end; none where it leads upwards or
/// is not UTF-8.
pub(crate) fn normal(path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

fn act(path: String) -> Act {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", &path));
    let inside = |name: &str| match directory {
        "" => name.to_owned(),
        directory => format!("{directory}/{name}"),
    };
    if name == OPAQUE {
        Act::HideContent(directory.to_owned())
    } else if let Some(hidden) = name.strip_prefix(WHITEOUT) {
        Act::Hide(inside(hidden))
    } else {
        Act::Put(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normal_or_none() {
        for (path, expected) in [
            ("a/b", Some("a/b")),
            ("./a/b/", Some("a/b")),
            ("/a//b", Some("a/b")),
            (".", Some("")),
            ("a/../b", None),
            ("..", None),
        ] {
            assert_eq!(normal(Path::new(path)).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn whiteouts_hide_what_is_below() {
        for (path, expected) in [
            ("a/b", Act::Put("a/b".to_owned())),
            ("a/.wh.b", Act::Hide("a/b".to_owned())),
            (".wh.a", Act::Hide("a".to_owned())),
            ("a/.wh..wh..opq", Act::HideContent("a".to_owned())),
            (".wh..wh..opq", Act::HideContent(String::new())),
            ("a/.who", Act::Put("a/.who".to_owned())),
        ] {
            assert_eq!(act(path.to_owned()), expected, "{path}");
        }
    }
}
